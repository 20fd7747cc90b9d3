"""Tests with a real container engine; they say what is missing and install nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from datum_compute.env import SystemEnvironment
from datum_compute.providers.container import host, sockets
from datum_compute.providers.container.engine import ContainerEngine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", choices=["podman", "docker"], default="podman")
    parser.addoption("--seed", type=int, default=0, help="repeats the kills of a campaign")
    parser.addoption("--rounds", type=int, default=30, help="how often a campaign kills")


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> str:
    """An engine that starts containers, and has the image of the sample."""
    name: str = request.config.getoption("--engine")
    env = SystemEnvironment()
    found = asyncio.run(host.probe(env, name))
    if not found.usable:
        pytest.fail(f"{found.text}: install it, or choose another with ENGINE=docker")
    busybox = host.static_busybox(env)
    if busybox is None:
        pytest.fail("no static busybox: install the package busybox-static")
    asyncio.run(_load(env, name, busybox))
    return name


async def _load(env: SystemEnvironment, name: str, busybox: bytes) -> None:
    socket = await sockets.find_socket(env, name)
    assert socket is not None
    async with ContainerEngine(socket) as opened:
        await opened.load(host.build_busybox_image(busybox))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"
