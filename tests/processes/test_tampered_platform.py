"""What another writer takes away on the planes of a local platform, in a process of its own, comes
back. The fields are those that a simulated platform wrote."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.assembly.local.state import LocalSettings, StateDirectory
from datum_compute.client import kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.client.connect import client_for
from datum_compute.client.protocol import Client
from datum_compute.testing import loop
from datum_compute.testing.expectations import eventually
from tests.support.federation.tampered_stage import WEB, deliberately_left, owned_fields
from tests.support.simulation import tampered_fields
from tests.support.simulation.platform import NAMESPACE, apply, leftovers
from tests.support.simulation.settled import unsettled
from tests.support.simulation.tampered_fields import Outcome, Place, Tamperer

pytestmark = [pytest.mark.long, pytest.mark.realtime]

OwnedFields = dict[Place, tuple[list[tampered_fields.Path], bool]]

TIME_FACTOR = 4.0
"""The bounds are four times those on virtual time: a busy machine, and requests over TLS."""

LEAST = {"cell": 10, "hub": 10, "project": 12}
"""Tamperings that were put back, by plane type: fewer would mean that parts are not found."""


class ProcessPlatform:
    """A local platform in a process of its own, over HTTPS."""

    commit_checker = None
    shared_namespace = ""
    settings = LocalSettings(cities=("DFW",))

    def __init__(self, directory: Path) -> None:
        self.state = StateDirectory(directory / "state")
        self._directory = directory
        self._clients: dict[str, ApiClient] = {}

    def run(self, *words: str) -> str:
        command = [sys.executable, "-m", "datum_compute.cli", *words]
        done = subprocess.run(
            [*command, "--data-dir", str(self.state.path)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={"HOME": str(self._directory), "PATH": os.defpath, "DATUM_RUNTIME": "simulated"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def client(self, plane: str) -> Client:
        if plane not in self._clients:
            path = self._directory / plane.replace("/", "-")
            path.write_text(self.run("local", "kubeconfig", "--plane", plane))
            self._clients[plane] = client_for(kubeconfig.load(path))
        return self._clients[plane]

    @property
    def project(self) -> Client:
        return self.client(f"project/{self.settings.project}")

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[ProcessPlatform]:
    found = ProcessPlatform(tmp_path)
    found.run("local", "up", "--detach", "--cities", "DFW")
    try:
        yield found
    finally:
        running = found.state.running()
        if running is not None:
            os.kill(running.pid, signal.SIGTERM)


async def tampered(
    platform: ProcessPlatform, fields: OwnedFields, *, time_factor: float = TIME_FACTOR
) -> Outcome:
    """Remove whole parts of objects, and the objects; a fault of the platform is in the outcome."""
    settled = partial(unsettled, platform, {"web": WEB})
    left = partial(deliberately_left, platform.client)
    tamperer = Tamperer(platform.client, settled, left, whole_parts=True, time_factor=time_factor)
    namespace = await platform.project.get(core.NAMESPACES, NAMESPACE)
    shared = f"ns-{namespace.metadata.uid}"
    for place, (owned, deletes) in fields.items():
        key = (shared if each.startswith("ns-") else each for each in place[2:])
        await tamperer.tamper(Place(*place[:2], *key), owned, deletes=deletes)
    return tamperer.outcome


async def deployed(platform: ProcessPlatform) -> None:
    await apply(platform, WEB.to_create())
    await eventually("deployed", partial(unsettled, platform, {"web": WEB}))


def test_what_another_writer_removes_of_ours_comes_back_on_a_running_platform(
    platform: ProcessPlatform,
) -> None:
    async def run() -> Outcome:
        try:
            await deployed(platform)
            outcome = await tampered(platform, fields)
            await platform.project.delete(compute.WORKLOADS, "web", NAMESPACE)
            await eventually("gone", partial(leftovers, platform))
        finally:
            await platform.close()
        return outcome

    fields = loop.run(owned_fields())
    outcome = asyncio.run(run())

    assert outcome.faults == []
    counts = {plane: outcome.restored[plane] for plane in LEAST}
    assert all(counts[plane] >= least for plane, least in LEAST.items()), counts


def test_a_cell_that_puts_nothing_back_is_found(platform: ProcessPlatform) -> None:
    """A disconnected cell, which writes nothing to the hub."""

    async def run() -> Outcome:
        try:
            await deployed(platform)
            platform.run("local", "cell", "disconnect", "DFW")
            return await tampered(platform, copies, time_factor=0.1)
        finally:
            await platform.close()

    fields = loop.run(owned_fields())
    [copy] = [each for each in fields if str(each).startswith("hub instances ")]
    copies = {copy: (fields[copy][0], False)}
    outcome = asyncio.run(run())

    assert any("status" in fault for fault in outcome.faults), outcome
