"""A cell whose Instances are containers of a real engine, for the kit of providers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from datum_compute.env import SystemEnvironment
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.conformance import (
    Capability,
    Harness,
    Lack,
    ObservedContainer,
    PrivateImage,
    failures,
)
from datum_compute.providers.container import ContainerProvider, host, sockets, spec
from datum_compute.providers.container.engine import ContainerEngine
from datum_compute.providers.protocol import ExecSource, LogSource
from datum_compute.providers.sandbox import LABEL_UID
from datum_compute.runtime.manager import Manager
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.providers.registry import private_registry

LACKS = {
    Capability.VIRTUAL_MACHINES: Lack(
        "an engine runs containers", failures.a_virtual_machine_is_refused
    ),
    Capability.DISKS: Lack("a container's files end with it", failures.a_disk_is_refused),
}


class ProxiedEnvironment(SystemEnvironment):
    """Finds the engine on the socket of a proxy, and nowhere else."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.socket = str(directory / "engine.sock")
        self._directory = str(directory)

    def variable(self, name: str) -> str | None:
        hidden = {
            "DOCKER_HOST": f"unix://{self.socket}",
            "XDG_RUNTIME_DIR": self._directory,
            "PATH": "",
        }
        return hidden.get(name) or (None if name == "PATH" else super().variable(name))


class Proxy:
    """Hands connections on to the engine while it is open."""

    def __init__(self, socket: str, engine_socket: str) -> None:
        self._socket = socket
        self.engine_socket = engine_socket
        self.answer: Callable[[bytes], bytes] = lambda request: b""
        """In place of the engine, where it is not empty."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._connected, self._socket)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        Path(self._socket).unlink(missing_ok=True)  # noqa: ASYNC240 a local file, at once
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            engine_reader, engine_writer = await asyncio.open_unix_connection(self.engine_socket)
            try:
                await asyncio.gather(
                    _pump(reader, engine_writer, lambda sent: self._answered(sent, writer)),
                    _pump(engine_reader, writer),
                )
            finally:
                engine_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass  # one side has closed, or the proxy is closed
        finally:
            writer.transport.abort()
            self._connections.discard(task)

    def _answered(self, sent: bytes, writer: asyncio.StreamWriter) -> bool:
        answer = self.answer(sent)
        writer.write(answer)
        return bool(answer)


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    is_kept: Callable[[bytes], bool] = lambda content: False,
) -> None:
    while content := await reader.read(65536):
        if is_kept(content):
            continue
        writer.write(content)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@dataclass(kw_only=True)
class ContainerHarness(Harness):
    embedded: EmbeddedServer
    env: ProxiedEnvironment
    engine: str
    platform: str
    proxy: Proxy
    direct: ContainerEngine
    """Not through the proxy."""
    task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        client = self.embedded.client("cell/dfw", "provider-dfw")
        cell = SingleFleet("cell", "single", client, self.env)
        self.runs = ContainerProvider(
            "dfw", cell, self.env, engine=self.engine, platform=self.platform, settle_seconds=1.0
        )
        manager = Manager("provider", self.env)
        manager.enter(self.runs)
        manager.add(*self.runs.controllers())
        self.task = asyncio.create_task(manager.run())
        await manager.wait_ready()

    async def stop(self) -> None:
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def running(self, uid: str) -> Sequence[ObservedContainer]:
        listed = await self.direct.containers({LABEL_UID: uid})
        found = [await self.direct.inspect(str(each["Id"])) for each in listed]
        return [_running(each) for each in found if each is not None]

    def logs(self) -> LogSource:
        return self.runs

    def commands(self) -> ExecSource:
        return self.runs

    async def kill(self, uid: str, container: str) -> None:
        for each in await self.direct.containers({LABEL_UID: uid}):
            if each["Labels"][spec.LABEL_CONTAINER] == container:
                found = await self.direct.inspect(str(each["Id"]))
                assert found is not None
                os.kill(int(found["State"]["Pid"]), signal.SIGKILL)

    async def discard(self, uid: str) -> None:
        for each in spec.removal_order(await self.direct.containers({LABEL_UID: uid})):
            await self.direct.remove(each)

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        await self.proxy.close()
        assert await sockets.find_socket(self.env, self.engine) is None, "another socket answers"
        try:
            yield
        finally:
            await self.proxy.open()

    @asynccontextmanager
    async def private_image(self) -> AsyncIterator[PrivateImage]:
        """In a registry on loopback, which podman must be told to use without TLS."""
        async with private_registry(host.build_busybox_image(_busybox())) as image:
            usual = self.proxy.engine_socket
            if self.engine == sockets.PODMAN:
                await self._move_to(await _podman_without_tls(image.registry, self.env))
            try:
                yield image
            finally:
                await self._move_to(usual)
                await self.direct._found("DELETE", f"/images/{image.reference}")

    async def _move_to(self, engine_socket: str) -> None:
        if engine_socket != self.proxy.engine_socket:
            await self.proxy.close()
            self.proxy.engine_socket = engine_socket
            await self.proxy.open()

    async def answer(self, address: str, port: int) -> str:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), 5)
        try:
            writer.write(b"GET / HTTP/1.0\r\nhost: kit\r\n\r\n")
            found = await asyncio.wait_for(reader.read(), 5)
        finally:
            writer.close()
        if not found:
            raise ConnectionResetError(f"{address}:{port} closed the connection")
        return found.partition(b"\r\n\r\n")[2].decode()


class _InsecureRegistry(SystemEnvironment):
    def __init__(self, configuration: Path) -> None:
        super().__init__()
        self._configuration = str(configuration)

    def variables(self) -> dict[str, str]:
        return {**super().variables(), "CONTAINERS_REGISTRIES_CONF": self._configuration}


async def _podman_without_tls(registry: str, env: ProxiedEnvironment) -> str:
    """The socket of a podman that ends by itself, on the same images and containers."""
    directory = Path(env.socket).parent / "insecure"
    directory.mkdir()
    configuration = directory / "registries.conf"
    configuration.write_text(f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n')
    socket = str(directory / "podman.sock")
    assert await sockets.serve_podman(_InsecureRegistry(configuration), socket)
    return socket


def _busybox() -> bytes:
    found = host.static_busybox(SystemEnvironment())
    assert found is not None
    return found


def _running(inspected: dict[str, object]) -> ObservedContainer:
    state, config, limits = (inspected[key] for key in ("State", "Config", "HostConfig"))
    assert isinstance(state, dict)
    assert isinstance(config, dict)
    assert isinstance(limits, dict)
    cpu = int(limits.get("NanoCpus") or 0) // 1_000_000
    if not cpu and limits.get("CpuPeriod"):
        cpu = int(limits["CpuQuota"]) * 1000 // int(limits["CpuPeriod"])
    return ObservedContainer(
        str(inspected["Id"]),
        str(config["Labels"][spec.LABEL_CONTAINER]),
        str(config["Image"]),
        state["Status"] == "running",
        str(state["StartedAt"]),
        cpu,
        int(limits["Memory"]),
        json.dumps(inspected),
    )


async def free_range(env: SystemEnvironment, engine: str) -> IPv4Network:
    """That no network of the engine overlaps, and that no parallel worker of pytest takes before
    the caller does: each looks in a block of its own."""
    taken = await host.occupied_ranges(env, engine)
    blocks = list(IPv4Network("10.96.0.0/12").subnets(new_prefix=14))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    candidates = blocks[worker % len(blocks)].subnets(new_prefix=24)
    return next(each for each in candidates if not any(each.overlaps(one) for one in taken))


@asynccontextmanager
async def container_cell(engine: str) -> AsyncIterator[ContainerHarness]:
    system = SystemEnvironment()
    found = await sockets.find_socket(system, engine)
    assert found is not None, f"{engine} does not answer"
    with tempfile.TemporaryDirectory(prefix="kit-") as directory:
        env = ProxiedEnvironment(Path(directory))
        proxy = Proxy(env.socket, found)
        await proxy.open()
        async with (
            ContainerEngine(found) as direct,
            embedded_server(env, cells=("dfw",)) as embedded,
        ):
            harness = ContainerHarness(
                client=embedded.client("cell/dfw"),
                provider="container",
                image=host.BUSYBOX_IMAGE,
                settle_seconds=2,
                retry_seconds=12,
                subnet=await free_range(system, engine),
                lacks=LACKS,
                embedded=embedded,
                env=env,
                engine=engine,
                platform=env.new_uid()[:12],
                proxy=proxy,
                direct=direct,
            )
            await harness.start()
            try:
                yield harness
            finally:
                await harness.stop()
                await host.end_containers(system, engine, harness.platform, remove=True)
                await proxy.close()
