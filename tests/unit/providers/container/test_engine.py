"""Containers of an engine that was killed in the middle of a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from datum_compute.providers.container import failures
from datum_compute.providers.container.engine import ContainerEngine, EngineRefused

pytestmark = pytest.mark.realtime


class Podman:
    """As podman 4.3 after a kill: while one container is half removed, it lists none."""

    def __init__(self, *, is_podman: bool = True, can_remove: bool = True) -> None:
        self.states = {"a": "running", "b": "removing", "c": "exited"}
        self._is_podman = is_podman
        self._can_remove = can_remove

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        if method == "DELETE":
            if not self._can_remove:
                return 500, {"message": "the storage is busy"}
            return (204, None) if self.states.pop(path.rpartition("/")[2], "") else (404, {})
        if path == "/_ping":
            return 200, None
        listed = [{"Id": name, "State": state} for name, state in self.states.items()]
        if "/libpod/" in path:
            return (200, listed) if self._is_podman else (404, {"message": "page not found"})
        if "removing" in self.states.values():
            return 500, {"message": 'getting container from store "b": container not known'}
        return 200, listed

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(10_000):
            method, target, _ = head.decode().split(" ", 2)
            code, body = self.answer(method, target.partition("?")[0])
            content = b"" if body is None else json.dumps(body).encode()
            version = "libpod-api-version: 4.3.1\r\n" if self._is_podman else ""
            length = "" if code == 204 else f"content-length: {len(content)}\r\n"
            writer.write(f"HTTP/1.1 {code} -\r\n{version}{length}\r\n".encode() + content)
        writer.close()


@asynccontextmanager
async def engine_of(podman: Podman, directory: Path) -> AsyncIterator[ContainerEngine]:
    path = directory / "engine.sock"
    server = await asyncio.start_unix_server(podman.serve, str(path))
    async with server, ContainerEngine(str(path)) as engine:
        yield engine


async def test_a_half_removed_container_is_removed_and_the_others_are_listed(
    tmp_path: Path,
) -> None:
    podman = Podman()
    async with engine_of(podman, tmp_path) as engine:
        found = await engine.containers({"key": "value"})

    assert [each["Id"] for each in found] == ["a", "c"]
    assert podman.states == {"a": "running", "c": "exited"}


@pytest.mark.parametrize(
    "podman", [Podman(is_podman=False), Podman(can_remove=False)], ids=["docker", "not removed"]
)
async def test_a_list_that_stays_refused_is_an_error(podman: Podman, tmp_path: Path) -> None:
    async with engine_of(podman, tmp_path) as engine:
        with pytest.raises(EngineRefused):
            await engine.containers({"key": "value"})

    assert podman.states == {"a": "running", "b": "removing", "c": "exited"}


class PodmanInRemoval(Podman):
    """Finds the record of a container, and then that its storage is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.inspections = 0

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        if path.endswith("/containers/b/json"):
            self.inspections += 1
            return (500 if self.inspections == 1 else 404), {"message": "no such container"}
        return super().answer(method, path)


async def test_a_container_that_is_removed_while_it_is_inspected_is_gone(tmp_path: Path) -> None:
    async with engine_of(PodmanInRemoval(), tmp_path) as engine:
        assert await engine.inspect("b") is None


class PodmanWithReservedName(Podman):
    """Has the name of a container in its storage that it did not finish to create."""

    def __init__(self) -> None:
        super().__init__()
        self.reserved = {"web"}

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        name = path.rpartition("/")[2]
        if path.endswith("/containers/create"):
            if self.reserved:
                text = 'creating container storage: the container name "web" is already in use by 5'
                return 500, {"message": text}
            return 201, {"Id": "new"}
        if method == "DELETE" and name in self.reserved:
            self.reserved.remove(name)
            return 204, None
        if path.endswith("/containers/web/json"):
            return 404, {"message": "no such container"}
        if path.endswith("/containers/a/json"):
            return 200, {"Id": "a"}
        return super().answer(method, path)


async def test_a_name_left_by_a_creation_that_was_cut_off_is_freed(tmp_path: Path) -> None:
    async with engine_of(PodmanWithReservedName(), tmp_path) as engine:
        with pytest.raises(EngineRefused) as refused:
            await engine.create("web", {})
        assert failures.is_name_taken(refused.value)
        await engine.free_name("web")

        assert await engine.create("web", {}) == "new"


async def test_a_container_that_exists_keeps_its_name(tmp_path: Path) -> None:
    podman = PodmanWithReservedName()
    async with engine_of(podman, tmp_path) as engine:
        await engine.free_name("a")

    assert "a" in podman.states
