"""Plain reads for the command line, without an event loop.

A command that shows one object spends most of its time importing; this reader needs only
the standard library. It offers the reading part of :mod:`.protocol` on the same paths with
the same errors, one connection, and objects as plain JSON values.
"""

from __future__ import annotations

import http.client
import json
import select
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from datum_compute import __version__
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.credentials import Identity, TokenSource, credential_of
from datum_compute.client.proxy import proxy_authorization
from datum_compute.client.retry import Outcome, RetryPolicy
from datum_compute.client.target import Target

PAGE = 500
"""Objects per request, as kubectl asks."""

Items = list[dict[str, Any]]
_Answer = tuple[int, str, bytes]
"""Code, ``Retry-After`` and body."""


class Reader:
    """One plane of one server, with one identity."""

    def __init__(
        self,
        server: str,
        *,
        cluster: str,
        prefix: str = "",
        token: TokenSource = "",
        tls: ssl.SSLContext | None = None,
        server_hostname: str = "",
        proxy: str = "",
        timeout: float = 30.0,
        page_size: int = PAGE,
        user_agent: str = f"datum-compute/{__version__}",
        on_unreadable: Callable[[str], None] | None = None,
        retries: RetryPolicy | None = None,
        pause: Callable[[float], object] = lambda seconds: select.select([], [], [], seconds),
    ) -> None:
        """``timeout`` bounds each wait on the socket, not the whole answer. ``on_unreadable``
        is told of each item that is skipped because it is not an object. Without ``retries``
        every failure is raised at once."""
        self._server = server.rstrip("/")
        self._cluster = cluster
        self._prefix = prefix.rstrip("/")
        self._credential = credential_of(token)
        self._tls = tls
        self._server_hostname = server_hostname
        self._proxy = proxy
        self._timeout = timeout
        self._page_size = page_size
        self._user_agent = user_agent
        self._on_unreadable = on_unreadable
        self._retries = retries
        self._pause = pause
        self._connection: http.client.HTTPConnection | None = None

    @property
    def cluster(self) -> str:
        return self._cluster

    def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        target = Target("get", resource, namespace, name)
        target.check(named=True)
        what = target.describe(self._cluster)
        found = _decoded(self._get(target.path, {}, what), what)
        if not found.get("kind") or not _mend(found):
            raise errors.Malformed(f"{what}: not an API object: {str(found)[:200]}")
        return found

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Items:
        """All pages. When the server drops the snapshot on the way, one full list instead."""
        target = Target("list", resource, namespace)
        target.check(named=False)
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        items: Items = []
        continue_token = ""
        while True:
            try:
                page = {"limit": str(self._page_size), "continue": continue_token}
                found, continue_token = self._page(target, {**query, **page})
            except errors.Expired:
                if not continue_token:
                    raise
                return self._page(target, query)[0]
            items += found
            if not continue_token:
                return items

    def raw(self, path: str) -> bytes:
        """GET of a path below the plane's root, with its query as written."""
        path, _, query = path.partition("?")
        what = f"get {path} on {self._cluster}"
        return self._get(path, query, what, accept="application/json, */*")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _page(self, target: Target, query: dict[str, str]) -> tuple[Items, str]:
        what = target.describe(self._cluster)
        page = _decoded(self._get(target.path, query, what), what)
        items = page.get("items", 0)
        items = [] if items is None else items
        metadata = page.get("metadata") or {}
        kind = str(page.get("kind", ""))
        if (
            not isinstance(items, list)
            or not isinstance(metadata, dict)
            or not kind.endswith("List")  # nothing else counts as an empty list
        ):
            raise errors.Malformed(f"{what}: the answer is not a list: {str(page)[:200]}")
        # Items of a typed list carry neither apiVersion nor kind on a real server.
        typed = {"apiVersion": page.get("apiVersion", ""), "kind": kind.removesuffix("List")}
        readable = [{**typed, **item} for item in items if self._is_readable(item, what)]
        return readable, str(metadata.get("continue") or "")

    def _is_readable(self, item: Any, what: str) -> bool:
        if isinstance(item, dict) and _mend(item):
            return True
        if self._on_unreadable is not None:
            self._on_unreadable(f"{what}: skipped what is not an object: {str(item)[:200]}")
        return False

    def _get(
        self, path: str, query: dict[str, str] | str, what: str, accept: str = "application/json"
    ) -> bytes:
        url = quote(self._prefix + path, safe="/:@!$&'()*+,;=~")
        if not isinstance(query, str):
            query = urlencode({key: value for key, value in query.items() if value})
        if query:
            url += "?" + query
        identity = self._identity(what)
        status, retry_after, body = self._answer(url, self._headers(accept, identity), what)
        if status == 401:
            # What we know of ourselves may have changed.
            self._credential.renounce(identity)
            renewed = self._identity(what)
            if renewed != identity:
                status, retry_after, body = self._answer(url, self._headers(accept, renewed), what)
        if 200 <= status < 300:
            return body
        if status < 400:
            raise errors.Malformed(f"{what}: answered with HTTP {status}")
        raise errors.error_for(status, body, what=what, retry_after=retry_after)

    def _answer(self, url: str, headers: dict[str, str], what: str) -> _Answer:
        """What the server says in the end."""
        if self._retries is None:
            return self._send(url, headers, what)
        self._retries.began()
        tried = 0
        while True:
            tried += 1
            try:
                status, retry_after, body = self._send(url, headers, what)
                outcome = Outcome(status=status, retry_after=retry_after)
            except errors.TransportFailure as failure:
                outcome = Outcome(failure)
            delay = self._retries.delay(outcome, tried, is_read=True)
            if delay is None:
                if outcome.failure is not None:
                    raise outcome.failure
                return status, retry_after, body
            self._pause(delay)

    def _send(self, url: str, headers: dict[str, str], what: str) -> _Answer:
        connection = self._connect(what)
        if self._proxy and not self._server.startswith("https:"):
            url = self._server + url
        try:
            connection.request("GET", url, headers=headers)
            response = connection.getresponse()
            body = response.read()
        except TimeoutError as error:
            self.close()
            raise errors.TimedOut(f"{what}: no answer within {self._timeout:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            text = str(error) or type(error).__name__
            raise errors.Disconnected(f"{what}: {self._server}: {text}") from error
        except BaseException:
            self.close()  # interrupted half way: the connection is of no further use
            raise
        return response.status, response.getheader("retry-after", ""), body

    def _connect(self, what: str) -> http.client.HTTPConnection:
        if self._connection is not None and self._connection.sock is not None:
            return self._connection
        connection = self._new_connection()
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            text = str(error) or type(error).__name__
            raise errors.ConnectFailed(f"{what}: {self._server}: {text}") from error
        self._connection = connection
        return connection

    def _new_connection(self) -> http.client.HTTPConnection:
        server, proxy = urlsplit(self._server), urlsplit(self._proxy)
        host, port = server.hostname or "", server.port
        near_host, near_port = proxy.hostname or host, proxy.port or 80 if self._proxy else port
        if server.scheme != "https":
            return http.client.HTTPConnection(near_host, near_port, timeout=self._timeout)
        context = self._tls or ssl.create_default_context()
        expected = self._server_hostname or host
        made = _HTTPSConnection(expected, context, near_host, near_port, timeout=self._timeout)
        if self._proxy:
            made.set_tunnel(host, port or 443, proxy_authorization(self._proxy))
        return made

    def _identity(self, what: str) -> Identity:
        try:
            return self._credential.at_hand() or self._credential.fetch_now()
        except errors.CredentialFailed as failure:
            raise errors.CredentialFailed(f"{what}: {failure}") from failure

    def _headers(self, accept: str, identity: Identity) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": self._user_agent}
        if identity.token:
            headers["Authorization"] = f"Bearer {identity.token}"
        if self._proxy and not self._server.startswith("https:"):
            headers |= proxy_authorization(
                self._proxy
            )  # without TLS every request is the proxy's to read
        return headers


class _HTTPSConnection(http.client.HTTPSConnection):
    """Expects ``expected`` in the certificate, whichever host the socket goes to."""

    def __init__(
        self, expected: str, context: ssl.SSLContext, host: str, port: int | None, timeout: float
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._expected = expected
        self._tls = context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._expected)


def _decoded(body: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        start = body[:200].decode("utf-8", "replace")
        raise errors.Malformed(f"{what}: not an API answer ({error}): {start!r}") from error
    if not isinstance(value, dict):
        raise errors.Malformed(f"{what}: not an API object: {body[:200]!r}")
    return value


_METADATA_FORMS = {"labels": dict, "annotations": dict, "finalizers": list, "ownerReferences": list}


def _mend(item: dict[str, Any]) -> bool:
    """Leave out metadata of a wrong form, as the client does; False where no name is left."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return False
    for key, form in _METADATA_FORMS.items():
        if key in metadata and not isinstance(metadata[key], form):
            del metadata[key]
    return True
