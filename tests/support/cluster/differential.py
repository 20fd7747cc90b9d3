"""The same request to our API server and to a real one, and its comparable outcome."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.support.client_conformance.targets import PREFIX, https_server
from tests.support.cluster.control_plane import ControlPlane

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class DifferentialRequest(NamedTuple):
    """One request; ``@revision`` and ``@uid`` in it stand for what the server last gave."""

    method: str
    path: str
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    accept: str = "application/json"


class ServerSide:
    """One of the two servers."""

    def __init__(self, server: str, prefix: str, token: str, tls: ssl.SSLContext) -> None:
        url = urlsplit(server)
        self._connection = http.client.HTTPSConnection(
            str(url.hostname), int(url.port or 0), timeout=20, context=tls
        )
        self._prefix = prefix
        self._token = token
        self._known: dict[str, dict[str, str]] = {}

    def close(self) -> None:
        self._connection.close()

    def send(self, ask: DifferentialRequest) -> tuple[int, Any]:
        body = ask.body if isinstance(ask.body, bytes | None) else json.dumps(ask.body).encode()
        if body is not None:
            body = self._filled(ask.path, body.decode("latin-1")).encode("latin-1")
        query = self._filled(ask.path, urlencode(ask.query, safe="@"))
        headers = {"Authorization": f"Bearer {self._token}", "Accept": ask.accept}
        if body is not None:
            headers["Content-Type"] = ask.content_type
        target = self._prefix + ask.path + ("?" + query if query else "")
        self._connection.request(ask.method, target, body, headers)
        response = self._connection.getresponse()
        raw = response.read()
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = raw.decode("utf-8", "replace")
        self._remember(answer)
        return response.status, answer

    def _remember(self, answer: Any) -> None:
        metadata = answer.get("metadata") if isinstance(answer, dict) else None
        if metadata and metadata.get("uid"):
            self._known[metadata["name"]] = metadata

    def _filled(self, path: str, text: str) -> str:
        name = path.removesuffix("/status").rpartition("/")[2]
        known = self._known.get(name, {})
        text = text.replace("@revision", known.get("resourceVersion", "1"))
        return text.replace("@uid", known.get("uid", "none"))


@contextmanager
def both_sides(control_plane: ControlPlane) -> Iterator[tuple[ServerSide, ServerSide]]:
    """Our API server, and the real one."""
    with https_server() as server, ExitStack() as stack:
        address = server.address
        tls = ssl.create_default_context(cadata=address.ca_pem.decode())
        ours = ServerSide(address.base_url, PREFIX, address.token, tls)
        real = ServerSide(
            control_plane.server, "", control_plane.token, control_plane.ssl_context()
        )
        for side in (ours, real):
            stack.callback(side.close)
        yield ours, real


def outcome(code: int, answer: Any) -> Any:
    """What must be the same on both sides."""
    if not isinstance(answer, dict):
        return code, str(answer).strip()
    if answer.get("kind") == "Status":
        details = answer.get("details") or {}
        causes = [(one.get("field"), one.get("reason")) for one in details.get("causes") or []]
        about = {key: details.get(key) for key in ("name", "group", "kind")}
        return code, answer.get("status"), answer.get("reason"), about, sorted(set(causes), key=str)
    return code, plain(answer)


_CONFIG_MAP = ("kind", "apiVersion", "metadata", "data", "items")


_ERASED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "continue")


def plain(value: Any) -> Any:
    """The value without what always differs."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: plain(each) for key, each in value.items()}
    if kept.get("kind") in ("ConfigMap", "ConfigMapList"):
        # The real server has types for its own kinds: it drops an empty map, items of a list
        # need no kind, a generation is stored as written, and fields that the type lacks (kept
        # here, since upstream has many) are dropped.
        kept = {key: each for key, each in kept.items() if key in _CONFIG_MAP}
        if not kept.get("data", True):
            del kept["data"]
        for item in kept.get("items", ()):
            item.pop("spec", None)
            item.setdefault("kind", "ConfigMap")
            item.setdefault("apiVersion", "v1")
            item["metadata"].pop("generation", None)
        kept["metadata"].pop("generation", None)
    metadata = kept.get("metadata")
    if isinstance(metadata, dict):
        for key in _ERASED:
            metadata.pop(key, None)
        if "deletionTimestamp" in metadata:
            metadata["deletionTimestamp"] = "set"
    return kept
