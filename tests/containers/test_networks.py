"""Ranges of networks on a machine that several platforms share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from bench.containers import build_target
from bench.sleep import ask_early
from datum_compute.api.networking import v1alpha as networking
from datum_compute.env import SystemEnvironment
from datum_compute.providers.conformance import networks as kit
from datum_compute.providers.conformance.harness import remove, wait
from datum_compute.providers.container import host, sockets, spec
from datum_compute.providers.container.engine import ContainerEngine
from datum_compute.providers.container.networks import EngineNetworks
from tests.support.providers.container import container_cell, free_range

pytestmark = [pytest.mark.containers, pytest.mark.realtime]


@asynccontextmanager
async def two_platforms(engine: str, second: Path) -> AsyncIterator[list[EngineNetworks]]:
    """Each with its own connection; on podman with its own service, as two users' platforms have
    where each started one."""
    env = SystemEnvironment()
    own = await sockets.find_socket(env, engine)
    assert own is not None
    other = own
    if engine == sockets.PODMAN:
        other = str(second / "podman.sock")
        assert await sockets.serve_podman(env, other)
    marks = [env.new_uid()[:12] for _ in range(2)]
    async with ContainerEngine(own) as first, ContainerEngine(other) as last:
        try:
            yield [
                EngineNetworks(lambda: first, marks[0], "dfw"),
                EngineNetworks(lambda: last, marks[1], "dfw"),
            ]
        finally:
            for mark in marks:
                await host.end_containers(env, engine, mark, remove=True)


async def test_of_two_platforms_that_take_one_range_at_once_one_gets_it(
    engine: str, tmp_path: Path
) -> None:
    start = await free_range(SystemEnvironment(), engine)
    ranges = list(start.supernet(new_prefix=16).subnets(new_prefix=24))[-5:]
    async with two_platforms(engine, tmp_path) as platforms:
        for number, range_ in enumerate(ranges):
            found = await asyncio.gather(
                *(each.claim("default", f"subnet-{number}", range_) for each in platforms)
            )
            assert sorted(found) == [False, True]


async def test_a_range_inside_another_is_not_given(engine: str, tmp_path: Path) -> None:
    start = await free_range(SystemEnvironment(), engine)
    async with two_platforms(engine, tmp_path) as (first, second):
        assert await first.claim("default", "outer", start)
        assert await first.claim("default", "outer", start), "a claim is not idempotent"

        inner = IPv4Network((start.network_address, 26))
        assert not await second.claim("default", "inner", inner)


async def test_a_network_lives_as_long_as_its_subnet(engine: str) -> None:
    async with container_cell(engine) as cell:
        own = EngineNetworks(lambda: cell.direct, cell.platform, "dfw")
        await kit.join(cell)
        await kit.start(cell, "first-0")
        await remove(cell, "first-0")
        assert await own.subnets() == {(cell.namespace, "subnet")}

        await cell.client.delete(networking.SUBNETS, "subnet", cell.namespace)

        async def removed() -> bool:
            return not await own.subnets()

        await wait(cell, removed, "the network of a deleted Subnet stays")


async def test_what_is_started_again_is_reached_at_once(engine: str) -> None:
    """Also while the kernel of this host remembers where its address was before."""
    env = SystemEnvironment()
    range_ = await free_range(env, engine)
    socket = await sockets.find_socket(env, engine)
    assert socket is not None
    mark = env.new_uid()[:12]
    labels, limits = spec.platform_labels(mark, "dfw"), sockets.limits_of_this_host(engine)
    async with ContainerEngine(socket) as opened:
        try:
            own = EngineNetworks(lambda: opened, mark, "dfw")
            network = await own.ensure("default", "subnet", range_)
            # The second one keeps the network, and so what is remembered about the first.
            addresses = [str(range_[2]), str(range_[3])]
            for number, address in enumerate(addresses):
                place = spec.Attachment(network, address, "127.101.0.1", activated=True)
                body = spec.build_body(build_target(number), 0, place, limits, labels)
                await opened.start(await opened.create(f"again-{mark}-{number}", body))
            for _ in range(8):
                await _reach(addresses[0])
                await opened.stop(f"again-{mark}-0", 1)
                await opened.start(f"again-{mark}-0")
            await _reach(addresses[0])
        finally:
            await host.end_containers(env, engine, mark, remove=True)


async def _reach(address: str) -> None:
    async with asyncio.timeout(4):
        await ask_early(address)
