"""A client of a container engine: the part of Docker's API v1.41 that podman and docker share.

One call is one request on the engine's unix socket. What the engine refuses is an
:class:`EngineRefused` with its own words; an engine that is away or breaks off is an
:class:`EngineUnreachable`, and nothing is known then about what it has done.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Self

from datum_compute.client import errors
from datum_compute.client.http.connection import HttpConnection
from datum_compute.client.http.pool import ConnectionPool
from datum_compute.client.http.request_encoder import RequestEncoder
from datum_compute.client.transport import HttpRequest, HttpResponse, close_stream

API = "/v1.41"
PODMAN_API = "/v4.0.0/libpod"
CALL_SECONDS = 120.0
"""The deadline of one call. Creating and starting take a tenth of a second on a quiet machine and
seconds on a busy one; a call that takes longer than this hangs. A guess."""
LIST_ATTEMPTS = 3
REMOVE_ATTEMPTS = 5
REMOVE_SECONDS = 0.2
MAX_IDLE = 8
"""Connections kept for the next call."""

Json = dict[str, Any]


class EngineUnreachable(Exception):
    """The engine does not answer, or broke off in the middle of an answer."""


class EngineRefused(Exception):
    """The engine answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ContainerEngine:
    """Open for as long as the context is entered."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self._encoder = RequestEncoder({"host": "engine"})
        self._pool: ConnectionPool | None = None

    async def __aenter__(self) -> Self:
        self._pool = ConnectionPool(self._connect, server=self.socket, max_idle=MAX_IDLE)
        return self

    async def __aexit__(self, *_: object) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    # What the engine is.

    async def is_podman(self) -> bool:
        response = await self._exchange("GET", "/_ping", prefix="")
        return "libpod-api-version" in response.headers

    async def version(self) -> Json:
        found: Json = await self._call("GET", "/version")
        return found

    async def info(self) -> Json:
        found: Json = await self._call("GET", "/info")
        return found

    # Containers.

    async def containers(self, labels: Mapping[str, str]) -> list[Json]:
        """All that carry these labels, running or not."""
        filters = json.dumps({"label": [f"{key}={value}" for key, value in labels.items()]})
        params = {"all": "1", "filters": filters}
        for _ in range(LIST_ATTEMPTS - 1):
            try:
                return await self._call("GET", "/containers/json", params=params) or []
            except EngineRefused:
                pass  # podman fails when one is removed while it lists them
        if await self.is_podman():
            await self._end_removals(params)
        return await self._call("GET", "/containers/json", params=params) or []

    async def _end_removals(self, params: Mapping[str, str]) -> None:
        """podman that was killed in the middle of a removal lists none of these containers until
        that one is removed. Only its own API shows which it is."""
        found = await self._call("GET", "/containers/json", params=params, prefix=PODMAN_API)
        for each in found or []:
            if each["State"] == "removing":
                await self.remove(each["Id"])

    async def inspect(self, container: str) -> Json | None:
        path = f"/containers/{container}/json"
        found: Json | None
        try:
            found = await self._found("GET", path)
        except EngineRefused as error:
            if error.status != 500:
                raise
            # So podman answers about one that is removed meanwhile; the next time with 404.
            found = await self._found("GET", path)
        return found

    async def create(self, name: str, body: Json) -> str:
        created = await self._call("POST", "/containers/create", params={"name": name}, body=body)
        return str(created["Id"])

    async def free_name(self, name: str) -> None:
        """For a name that is taken: podman that was killed in the middle of a creation keeps the
        name in its storage, and shows no container of it. A removal by this name ends that."""
        if await self.inspect(name) is None:
            await self.remove(name)

    async def start(self, container: str) -> None:
        await self._call("POST", f"/containers/{container}/start")

    async def stop(self, container: str, grace_seconds: int) -> None:
        """TERM, and KILL after the grace period; an unknown container is stopped."""
        await self._found(
            "POST",
            f"/containers/{container}/stop",
            params={"t": str(grace_seconds)},
            seconds=CALL_SECONDS + grace_seconds,
        )

    async def pause(self, container: str) -> None:
        await self._call("POST", f"/containers/{container}/pause")

    async def unpause(self, container: str) -> None:
        await self._call("POST", f"/containers/{container}/unpause")

    async def remove(self, container: str) -> None:
        """Kills it if it runs. An unknown container is removed."""
        params = {"force": "1", "v": "1"}
        for attempt in range(REMOVE_ATTEMPTS):
            try:
                await self._found("DELETE", f"/containers/{container}", params=params)
                return
            except EngineRefused:
                # podman refuses to kill one that ends at this very moment, docker one whose
                # removal is under way.
                if attempt == REMOVE_ATTEMPTS - 1:
                    raise
            await asyncio.sleep(REMOVE_SECONDS)

    async def put_files(self, container: str, path: str, archive: bytes) -> None:
        """Unpack a tar in a directory of a container, which need not run."""
        await self._call(
            "PUT",
            f"/containers/{container}/archive",
            params={"path": path},
            data=archive,
            headers={"content-type": "application/x-tar"},
        )

    async def logs(
        self, container: str, *, tail: int | None = None, since: int = 0, follow: bool = False
    ) -> tuple[datetime | None, AsyncIterator[bytes]]:
        """The engine's time, in whole seconds and None where it does not tell, and the multiplexed
        output, each line with its time; ``since`` in whole seconds. podman reads to the end of its
        file, also without ``follow``, and a container may write faster than that."""
        params = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": str(int(follow))}
        if tail is not None:
            params["tail"] = str(tail)
        if since:
            params["since"] = str(since)
        seconds = None if follow else CALL_SECONDS
        path = f"/containers/{container}/logs"
        try:
            async with asyncio.timeout(seconds):
                response = await self._exchange("GET", path, params=params, stream=True)
        except TimeoutError:
            raise EngineUnreachable(f"no answer to GET {path} in {seconds:g}s") from None
        return _time(response.headers.get("date", "")), _chunks(response, seconds)

    async def events(self, labels: Mapping[str, str]) -> AsyncIterator[Json]:
        """What happens to the containers with these labels, until the engine ends the stream."""
        filters = {
            "label": [f"{key}={value}" for key, value in labels.items()],
            "type": ["container"],
        }
        chunks = self._stream("GET", "/events", params={"filters": json.dumps(filters)})
        async for event in _json_lines(chunks):
            yield event

    # Commands in containers.

    async def create_exec(self, container: str, body: Json) -> str:
        created = await self._call("POST", f"/containers/{container}/exec", body=body)
        return str(created["Id"])

    async def start_exec(
        self, command: str, outgoing: AsyncIterator[bytes], *, tty: bool
    ) -> AsyncIterator[bytes]:
        """Start it; its output, while it gets ``outgoing`` as its input."""
        response = await self._exchange(
            "POST",
            f"/exec/{command}/start",
            body={"Detach": False, "Tty": tty},
            headers={"connection": "Upgrade", "upgrade": "tcp"},
            stream=True,
            outgoing=outgoing,
        )
        if response.status != 101 or response.stream is None:
            await close_stream(response.stream)
            raise EngineUnreachable(f"answered a command with HTTP {response.status}")
        return response.stream

    async def resize_exec(self, command: str, columns: int, rows: int) -> None:
        size = {"w": str(columns), "h": str(rows)}
        await self._call("POST", f"/exec/{command}/resize", params=size)

    async def inspect_exec(self, command: str) -> Json:
        found: Json = await self._call("GET", f"/exec/{command}/json")
        return found

    # Images.

    async def image(self, reference: str) -> Json | None:
        found: Json | None = await self._found("GET", f"/images/{reference}/json")
        return found

    async def pull(self, reference: str, credentials: str = "") -> None:
        """``credentials`` is the value of the header ``X-Registry-Auth``."""
        headers = {"x-registry-auth": credentials} if credentials else {}
        chunks = self._stream(
            "POST", "/images/create", params={"fromImage": reference}, headers=headers
        )
        await _read_to_end(chunks)

    async def load(self, archive: bytes) -> None:
        headers = {"content-type": "application/x-tar"}
        await _read_to_end(self._stream("POST", "/images/load", data=archive, headers=headers))

    async def build(self, archive: bytes, reference: str, dockerfile: str) -> AsyncIterator[str]:
        """The lines of the builder, which makes an image of this name from a tar of its files.
        Raises ``EngineRefused`` where it fails."""
        params = {"t": reference, "dockerfile": dockerfile, "rm": "1", "forcerm": "1"}
        chunks = self._stream(
            "POST",
            "/build",
            params=params,
            data=archive,
            headers={"content-type": "application/x-tar"},
        )
        async for found in _json_lines(chunks):
            if error := found.get("error"):
                raise EngineRefused(500, str(error))
            for line in str(found.get("stream") or found.get("status") or "").splitlines():
                if line.strip():
                    yield line.rstrip()

    # Volumes.

    async def volumes(self, labels: Mapping[str, str]) -> list[Json]:
        """All that carry these labels. podman lists volumes with any one of them."""
        filters = json.dumps({"label": [f"{key}={value}" for key, value in labels.items()]})
        found = await self._call("GET", "/volumes", params={"filters": filters})
        return [
            each
            for each in found.get("Volumes") or []
            if labels.items() <= (each.get("Labels") or {}).items()
        ]

    async def create_volume(self, name: str, labels: Mapping[str, str]) -> str:
        """The directory that it is on the engine's host. One of this name is kept."""
        body = {"Name": name, "Driver": "local", "Labels": dict(labels)}
        created = await self._call("POST", "/volumes/create", body=body)
        return str(created["Mountpoint"])

    async def remove_volume(self, name: str) -> None:
        """An unknown volume is removed."""
        await self._found("DELETE", f"/volumes/{name}")

    # Networks.

    async def networks(self) -> list[Json]:
        found: list[Json] = await self._call("GET", "/networks")
        return found or []

    async def create_network(self, body: Json) -> None:
        await self._call("POST", "/networks/create", body=body)

    async def remove_network(self, name: str) -> None:
        """An unknown network is removed."""
        await self._found("DELETE", f"/networks/{name}")

    # One request.

    async def _found(self, method: str, path: str, **options: Any) -> Any:
        """None where the engine does not know the object."""
        try:
            return await self._call(method, path, **options)
        except EngineRefused as error:
            if error.status == 404:
                return None
            raise

    async def _call(
        self,
        method: str,
        path: str,
        *,
        seconds: float = CALL_SECONDS,
        **options: Any,
    ) -> Any:
        try:
            async with asyncio.timeout(seconds):
                response = await self._exchange(method, path, **options)
        except TimeoutError:
            raise EngineUnreachable(f"no answer to {method} {path} in {seconds:g}s") from None
        return _decode(response.body)

    async def _stream(self, method: str, path: str, **options: Any) -> AsyncIterator[bytes]:
        response = await self._exchange(method, path, stream=True, **options)
        async with aclosing(_chunks(response)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
        data: bytes = b"",
        headers: Mapping[str, str] | None = None,
        prefix: str = API,
        stream: bool = False,
        outgoing: AsyncIterator[bytes] | None = None,
    ) -> HttpResponse:
        if self._pool is None:
            raise EngineUnreachable("the connection to the engine is closed")
        sent = dict(headers or {})
        if body is not None:
            sent["content-type"] = "application/json"
            data = json.dumps(body).encode()
        query = tuple((params or {}).items())
        encoded = self._encoder.encode(HttpRequest(method, prefix + path, query, sent, data))
        try:
            connection = await self._pool.acquire()
            try:
                response = await connection.exchange(
                    method, encoded, stream=stream, outgoing=outgoing
                )
            except BaseException:
                connection.abort()  # its answer may still come, and belongs to no other call
                raise
        except errors.TransportFailure as error:
            raise EngineUnreachable(str(error)) from error
        if response.stream is None:
            self._pool.release(connection)
        if response.status >= 400:
            raise EngineRefused(response.status, _message(response.body))
        return response

    async def _connect(self) -> HttpConnection:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_unix_connection(
                partial(HttpConnection, self.socket), self.socket
            )
        except OSError as error:
            raise errors.ConnectFailed(error.strerror or str(error), server=self.socket) from error
        return connection


async def _chunks(
    response: HttpResponse, seconds: float | None = None
) -> AsyncGenerator[bytes, None]:
    """The parts of an answer; ``seconds`` bounds the wait for each."""
    if response.stream is None:
        yield response.body
        return
    try:
        while True:
            async with asyncio.timeout(seconds):
                chunk = await anext(response.stream, None)
            if chunk is None:
                return
            yield chunk
    except TimeoutError:
        raise EngineUnreachable(f"broke off in an answer for {seconds:g}s") from None
    except errors.TransportFailure as error:
        raise EngineUnreachable(str(error)) from error
    finally:
        await close_stream(response.stream)


def _time(text: str) -> datetime | None:
    """A time as HTTP has it in the header Date."""
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


async def _read_to_end(chunks: AsyncIterator[bytes]) -> None:
    """podman answers 200 and reports a failure in the stream, which ends with it."""
    async for line in _json_lines(chunks):
        if error := line.get("error"):
            raise EngineRefused(500, str(error))


async def _json_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[Json]:
    buffer = b""
    try:
        async for chunk in chunks:
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                if isinstance(found := _decode(line), dict):
                    yield found
        if isinstance(found := _decode(buffer), dict):
            yield found
    finally:
        await close_stream(chunks)


def _decode(content: bytes) -> Any:
    try:
        return json.loads(content) if content.strip() else None
    except ValueError:
        return None


def _message(content: bytes) -> str:
    found = _decode(content)
    if isinstance(found, dict) and found.get("message"):
        return str(found["message"]).strip()
    return content.decode(errors="replace").strip() or "no reason given"
