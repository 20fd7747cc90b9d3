"""A registry of one image on loopback that asks for a password: what a pull needs of its API."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from datum_compute.providers.conformance import PrivateImage

USERNAME, PASSWORD = "kit", "right-password"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _contents(archive: bytes) -> dict[str, tuple[str, bytes]]:
    """What the registry serves of an image as ``docker save`` writes it: type and bytes by path."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        members = {each.name: files.extractfile(each) for each in files}
        content = {name: each.read() for name, each in members.items() if each}
    [listed] = json.loads(content["manifest.json"])
    configuration = content[listed["Config"]]
    layer = gzip.compress(content[listed["Layers"][0]], mtime=0)
    described = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _describe("application/vnd.docker.container.image.v1+json", configuration),
        "layers": [_describe("application/vnd.docker.image.rootfs.diff.tar.gzip", layer)],
    }
    manifest = json.dumps(described).encode()
    served = {
        f"/v2/app/manifests/{name}": (MANIFEST, manifest) for name in ("1", _digest(manifest))
    }
    for blob in (configuration, layer):
        served[f"/v2/app/blobs/{_digest(blob)}"] = ("application/octet-stream", blob)
    return {**served, "/v2/": ("application/json", b"{}")}


def _describe(kind: str, content: bytes) -> dict[str, object]:
    return {"mediaType": kind, "size": len(content), "digest": _digest(content)}


class _Registry:
    def __init__(self, served: Mapping[str, tuple[str, bytes]]) -> None:
        self._served = served
        pair = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
        self._wanted = f"authorization: basic {pair}".lower()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await _read_head(reader):
                method, path, *_ = head[0].split(" ")
                allowed = any(line.lower() == self._wanted for line in head[1:])
                writer.write(self._answer(method, path, allowed))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    def _answer(self, method: str, path: str, allowed: bool) -> bytes:
        if not allowed:
            error = {"code": "UNAUTHORIZED", "message": "authentication required"}
            body = json.dumps({"errors": [error]}).encode()
            challenge = 'www-authenticate: Basic realm="kit"\r\n'
            return _response("401 Unauthorized", "application/json", body, method, challenge)
        if path not in self._served:
            body = b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}'
            return _response("404 Not Found", "application/json", body, method)
        kind, body = self._served[path]
        digest = f"docker-content-digest: {_digest(body)}\r\n"
        return _response("200 OK", kind, body, method, digest)


def _response(status: str, kind: str, body: bytes, method: str, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        f"docker-distribution-api-version: registry/2.0\r\n{more}\r\n"
    )
    return head.encode() + (b"" if method == "HEAD" else body)


async def _read_head(reader: asyncio.StreamReader) -> list[str]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return []
    return head.decode().strip().split("\r\n")


@asynccontextmanager
async def private_registry(archive: bytes) -> AsyncIterator[PrivateImage]:
    """A registry that serves this image as ``app:1``."""
    served = _Registry(_contents(archive))
    server = await asyncio.start_server(served.connected, "127.0.0.1", 0)
    registry = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield PrivateImage(f"{registry}/app:1", registry, USERNAME, PASSWORD)
    finally:
        server.close()
