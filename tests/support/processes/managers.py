"""Managers as processes, on a platform that runs everything but the controllers."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

from datum_compute.api import planes
from datum_compute.apiserver.http.listener import serve
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly.local.platform import LocalPlatform, ManagerFactory
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client import kubeconfig
from datum_compute.client.protocol import Client
from datum_compute.env import SystemEnvironment
from datum_compute.testing.calls import RecordingAuthorizer

SETTINGS = LocalSettings(cities=("DFW", "LHR"))


TOKEN = "of-the-administrator"


class PlatformWithoutControllers(LocalPlatform):
    """A platform whose controllers run elsewhere."""

    def controllers(self) -> list[tuple[str, ManagerFactory]]:
        return []


class ManagedPlatform:
    """A running platform for the scenarios of the simulation."""

    settings = SETTINGS
    shared_namespace = ""
    commit_checker = None

    def __init__(self, platform: LocalPlatform) -> None:
        self.platform = platform

    def client(self, plane: str) -> Client:
        return self.platform.client(plane, "local-admin")

    @property
    def project(self) -> Client:
        return self.client("project/demo")


def manager_command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "datum_compute.assembly.manager.main", *argv]


@contextlib.asynccontextmanager
async def manager(directory: Path, name: str, *argv: str) -> AsyncIterator[Process]:
    log = (directory / f"{name}.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *manager_command("--health-probe-bind-address=0", *argv), stderr=log
    )
    try:
        yield process
        assert process.returncode is None, f"{name} ended by itself: see {log.name}"
    finally:
        if process.returncode is None:
            process.terminate()
        code = await asyncio.wait_for(process.wait(), 15)
        log.close()
    assert code == 0


class ManagerFiles:
    """Kubeconfigs and configuration files for the managers, as the users they act as."""

    def __init__(self, directory: Path, port: int, platform: LocalPlatform) -> None:
        self._directory = directory
        self._origin = f"https://127.0.0.1:{port}"
        self._platform = platform

    def kubeconfig(self, plane: str, user: str = "local-admin") -> str:
        path = self._directory / f"{user}-{plane.replace('/', '-')}.kubeconfig"
        path.write_text(
            kubeconfig.render(
                server=self._origin + planes.plane_prefix(plane),
                ca_pem=(self._directory / "ca.crt").read_bytes(),
                token=self._platform.token(user),
                name="test",
                user=user,
            )
        )
        return str(path)

    def config(self, name: str, **discovery: str) -> str:
        path = self._directory / f"{name}.yaml"
        lines = "".join(f"  {key}: {value}\n" for key, value in discovery.items())
        head = "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n"
        path.write_text(f"{head}discovery:\n{lines}")
        return str(path)


@contextlib.asynccontextmanager
async def federation(directory: Path) -> AsyncIterator[ManagedPlatform]:
    env = SystemEnvironment()
    calls: list[RecordingAuthorizer] = []

    def guard(roles: Roles) -> RecordingAuthorizer:
        calls.append(RecordingAuthorizer(roles))
        return calls[0]

    path = directory / "state.db"
    platform = PlatformWithoutControllers(env, path, SETTINGS, guard=guard)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(platform.run(admin_token=TOKEN))
        port = await stack.enter_async_context(
            serve(platform.server, env, directory=directory, ports=[0])
        )
        files = ManagerFiles(directory, port, platform)
        user = "compute-management"
        core, hub = files.kubeconfig("root", user), files.kubeconfig("hub", user)
        management = files.config("management", mode="milo", discoveryKubeconfigPath=core)
        argv = ["--enable-management-controllers", f"--federation-kubeconfig={hub}"]
        await stack.enter_async_context(
            manager(directory, "management", *argv, f"--server-config={management}")
        )
        for cell in SETTINGS.cells:
            user = f"compute-cell-{cell}"
            core, hub = files.kubeconfig("root", user), files.kubeconfig("hub", user)
            config = files.config(cell, clusterName=cell, quotaKubeconfigPath=core)
            own = files.kubeconfig(f"cell/{cell}", user)
            argv = [
                "--enable-cell-controllers",
                f"--server-config={config}",
                f"--kubeconfig={own}",
                f"--federation-kubeconfig={hub}",
                "--feature-gates=NetworkingIntegration=true",
            ]
            await stack.enter_async_context(manager(directory, cell, *argv))
        yield ManagedPlatform(platform)
    assert calls[0].denied == set(), "rights are missing"
