"""Plain reads for the command line, without an event loop.

A command that shows one object spends most of its time importing; this reader needs only
the standard library, and little of that. It offers the reading part of
:mod:`datum_compute.client.protocol` on the same paths with the same errors, one connection, and
objects as plain JSON values.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from datum_compute import __version__
from datum_compute.cli.quick.http1 import BlockingConnection
from datum_compute.client import errors
from datum_compute.client.auth.credentials import credential_of, is_token
from datum_compute.client.call import AnyCall, ClientCall, RawCall
from datum_compute.client.http.faults import MalformedResponse, fault_of
from datum_compute.client.http.server_url import parse
from datum_compute.client.retry import AttemptOutcome

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from datum_compute.api.scheme import Resource
    from datum_compute.client.auth.credentials import ClientIdentity, TokenSource
    from datum_compute.client.retry import RetryPolicy

    Items = list[dict[str, Any]]
    _Answer = tuple[int, str, bytes]
    """Code, ``Retry-After`` and body."""
    _Opened = tuple[int, str, Iterator[bytes]]
    """The same with the parts of the body."""

T = TypeVar("T")

PAGE = 500
"""Objects per request, as in kubectl."""

_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
_IN_PATHS = frozenset((_UNRESERVED + "/:@!$&'()*+,;=").encode())
_IN_QUERIES = frozenset(_UNRESERVED.encode())


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
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """``timeout`` bounds each wait on the socket, not the whole answer. ``on_unreadable``
        is called for each item that is skipped because it is not an object. Without ``retries``
        every failure is raised at once. ``pause`` waits between two tries."""
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
        self._pause = pause or _pause
        self._connection: BlockingConnection | None = None

    @property
    def cluster(self) -> str:
        return self._cluster

    def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        target = ClientCall("get", resource, namespace, name, cluster=self._cluster)
        target.check(named=True)
        found = _decoded(self._get(target.path, {}, target), target)
        if not found.get("kind") or not _drop_malformed_metadata(found):
            raise errors.Malformed(f"not an API object: {str(found)[:200]}", call=target)
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
        target = ClientCall("list", resource, namespace, cluster=self._cluster)
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
        call = RawCall("get", path, self._cluster)
        return self._get(path, query, call, accept="application/json, */*")

    def stream(self, path: str) -> Iterator[bytes]:
        """The same in parts, which are read as they are taken; several may be open at once. A
        failure between two parts is raised there and not retried."""
        path, _, query = path.partition("?")
        call = RawCall("get", path, self._cluster)
        url = self._url(path, query)
        return self._checked(url, "application/json, */*", call, self._open, b"".join)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _page(self, target: ClientCall, query: dict[str, str]) -> tuple[Items, str]:
        page = _decoded(self._get(target.path, query, target), target)
        items = page.get("items", 0)
        items = [] if items is None else items
        metadata = page.get("metadata") or {}
        kind = str(page.get("kind", ""))
        if (
            not isinstance(items, list)
            or not isinstance(metadata, dict)
            or not kind.endswith("List")  # nothing else counts as an empty list
        ):
            raise errors.Malformed(f"the answer is not a list: {str(page)[:200]}", call=target)
        # Items of a typed list carry neither apiVersion nor kind on a real server.
        typed = {"apiVersion": page.get("apiVersion", ""), "kind": kind.removesuffix("List")}
        readable = [{**typed, **item} for item in items if self._is_readable(item, target)]
        return readable, str(metadata.get("continue") or "")

    def _is_readable(self, item: Any, call: ClientCall) -> bool:
        if isinstance(item, dict) and _drop_malformed_metadata(item):
            return True
        if self._on_unreadable is not None:
            skipped = f"skipped an item that is not an object: {str(item)[:200]}"
            self._on_unreadable(f"{call.describe()}: {skipped}")
        return False

    def _get(
        self,
        path: str,
        query: dict[str, str] | str,
        call: AnyCall,
        accept: str = "application/json",
    ) -> bytes:
        url = self._url(path, query if isinstance(query, str) else _encoded(query))
        return self._checked(url, accept, call, self._send, bytes)

    def _url(self, path: str, query: str) -> str:
        return _quoted(self._prefix + path, _IN_PATHS) + ("?" + query if query else "")

    def _checked(
        self,
        url: str,
        accept: str,
        call: AnyCall,
        send: Callable[[str, dict[str, str], AnyCall], tuple[int, str, T]],
        whole: Callable[[T], bytes],
    ) -> T:
        """The body of a success. ``whole`` reads that of an error."""
        identity = self._identity(call)
        headers = self._headers(accept, identity, call)
        status, retry_after, body = self._answer(url, headers, call, send)
        if status == 401:
            # The credential may have been renewed meanwhile.
            self._credential.invalidate(identity)
            renewed = self._identity(call)
            if renewed != identity:
                headers = self._headers(accept, renewed, call)
                status, retry_after, body = self._answer(url, headers, call, send)
        if 200 <= status < 300:
            return body
        if status < 400:
            raise errors.Malformed(f"answered with HTTP {status}", call=call)
        raise errors.error_for(status, whole(body), call=call, retry_after=retry_after)

    def _answer(
        self,
        url: str,
        headers: dict[str, str],
        call: AnyCall,
        send: Callable[[str, dict[str, str], AnyCall], tuple[int, str, T]],
    ) -> tuple[int, str, T]:
        """The response of the last attempt."""
        if self._retries is None:
            return send(url, headers, call)
        self._retries.record_call()
        tried = 0
        while True:
            tried += 1
            try:
                status, retry_after, body = send(url, headers, call)
                outcome = AttemptOutcome(status=status, retry_after=retry_after)
            except errors.TransportFailure as failure:
                outcome = AttemptOutcome(failure)
            delay = self._retries.delay(outcome, tried, is_read=True)
            if delay is None:
                if outcome.failure is not None:
                    raise outcome.failure
                return status, retry_after, body
            self._pause(delay)

    def _send(self, url: str, headers: dict[str, str], call: AnyCall) -> _Answer:
        connection = self._connect(call)
        try:
            status, answered, body = connection.get(self._requested(url), headers)
        except (OSError, MalformedResponse) as error:
            self.close()
            raise self._broken(error, call) from error
        return status, answered.get("retry-after", ""), body

    def _open(self, url: str, headers: dict[str, str], call: AnyCall) -> _Opened:
        connection = self._connect(call)
        self._connection = None  # others use it again when the body is read
        try:
            status, answered, parts = connection.stream(self._requested(url), headers)
        except (OSError, MalformedResponse) as error:
            raise self._broken(error, call) from error
        if "transfer-encoding" not in answered or not 200 <= status < 300:
            self._keep(connection)
        return status, answered.get("retry-after", ""), self._parts(connection, parts, call)

    def _parts(
        self, connection: BlockingConnection, parts: Iterator[bytes], call: AnyCall
    ) -> Iterator[bytes]:
        try:
            yield from parts
        except (OSError, MalformedResponse) as error:
            raise self._broken(error, call) from error
        self._keep(connection)

    def _keep(self, connection: BlockingConnection) -> None:
        if self._connection is None:
            self._connection = connection
        elif self._connection is not connection:
            connection.close()

    def _requested(self, url: str) -> str:
        return self._server + url if self._is_proxied_in_plain else url

    def _broken(self, error: Exception, call: AnyCall) -> errors.TransportFailure:
        if isinstance(error, TimeoutError):
            text = f"no answer within {self._timeout:g} s"
            return errors.TimedOut(text, call=call, server=self._server)
        return self._failure(errors.Disconnected, error, call)

    def _connect(self, call: AnyCall) -> BlockingConnection:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        connection = self._new_connection()
        try:
            connection.connect()
        except (OSError, MalformedResponse) as error:
            raise self._failure(errors.ConnectFailed, error, call) from error
        self._connection = connection
        return connection

    def _failure(
        self, kind: type[errors.TransportFailure], error: Exception, call: AnyCall
    ) -> errors.TransportFailure:
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return kind(text, call=call, server=self._server, fault=fault_of(error))

    def _new_connection(self) -> BlockingConnection:
        server = parse(self._server)
        tls = self._tls
        if tls is None and server.scheme == "https":
            from datum_compute.client.http.tls import client_context

            tls = client_context()
        if not self._proxy:
            return BlockingConnection(
                server.host,
                server.port,
                timeout=self._timeout,
                tls=tls if server.scheme == "https" else None,
                server_hostname=self._server_hostname or server.host,
            )
        from datum_compute.client.http.proxy import proxy_authorization

        proxy = parse(self._proxy)
        if server.scheme != "https":
            return BlockingConnection(proxy.host, proxy.port, timeout=self._timeout)
        host = f"[{server.host}]" if ":" in server.host else server.host
        return BlockingConnection(
            proxy.host,
            proxy.port,
            timeout=self._timeout,
            tls=tls,
            server_hostname=self._server_hostname or server.host,
            beyond=f"{host}:{server.port}",
            proxy_headers=proxy_authorization(self._proxy),
        )

    @property
    def _is_proxied_in_plain(self) -> bool:
        """Without TLS the proxy gets every request, with the full URL of the server."""
        return bool(self._proxy) and not self._server.startswith("https:")

    def _identity(self, call: AnyCall) -> ClientIdentity:
        try:
            return self._credential.cached() or self._credential.fetch_blocking()
        except errors.CredentialFailed as failure:
            raise errors.CredentialFailed(failure.detail, call=call) from failure

    def _headers(self, accept: str, identity: ClientIdentity, call: AnyCall) -> dict[str, str]:
        headers = {
            "Host": parse(self._server).authority,
            "Accept": accept,
            "Accept-Encoding": "identity",
            "User-Agent": self._user_agent,
        }
        if identity.token:
            if not is_token(identity.token):
                raise errors.CredentialFailed(
                    "the token contains characters that cannot be part of a token", call=call
                )
            headers["Authorization"] = f"Bearer {identity.token}"
        if self._is_proxied_in_plain:
            from datum_compute.client.http.proxy import proxy_authorization

            headers |= proxy_authorization(self._proxy)
        return headers


def _pause(seconds: float) -> None:
    import select

    select.select([], [], [], seconds)


def _quoted(text: str, safe: frozenset[int], space: str = "%20") -> str:
    data = text.encode()
    if safe.issuperset(data):
        return text
    return "".join(
        chr(byte) if byte in safe else space if byte == 0x20 else f"%{byte:02X}" for byte in data
    )


def _encoded(query: dict[str, str]) -> str:
    """The query, without empty values."""
    return "&".join(
        f"{key}={_quoted(value, _IN_QUERIES, space='+')}" for key, value in query.items() if value
    )


def _decoded(body: bytes, call: ClientCall) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        start = body[:200].decode("utf-8", "replace")
        raise errors.Malformed(f"not an API answer: {start!r}", call=call) from error
    if not isinstance(value, dict):
        raise errors.Malformed(f"not an API object: {body[:200]!r}", call=call)
    return value


_METADATA_FORMS = {"labels": dict, "annotations": dict, "finalizers": list, "ownerReferences": list}


def _drop_malformed_metadata(item: dict[str, Any]) -> bool:
    """Drop malformed metadata, as the client does; False if that leaves no name."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return False
    for key, form in _METADATA_FORMS.items():
        if key in metadata and not isinstance(metadata[key], form):
            del metadata[key]
    return True
