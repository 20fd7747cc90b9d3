"""The program ``compute-manager``: says what it enabled, and runs until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Sequence

import uvloop

from datum_compute.assembly.logs import log_to_stderr
from datum_compute.assembly.manager.groups import Planes, build_manager
from datum_compute.assembly.manager.settings import ManagerSettings, SettingsError, parse
from datum_compute.client.kubeconfig import KubeconfigError
from datum_compute.env import Environment, SystemEnvironment
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import TaskGroup

logger = logging.getLogger(__name__)

GC_THRESHOLDS = (50_000, 20, 100)
"""Caches live long: the collector's defaults made filling one 4 to 5 times slower."""


def main(argv: Sequence[str], env: Environment) -> int:
    try:
        settings = parse(argv)
        log_to_stderr()
        gc.set_threshold(*GC_THRESHOLDS)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(env, settings))
    except (SettingsError, KubeconfigError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


async def _run(env: Environment, settings: ManagerSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    planes = Planes(env, settings)
    try:
        manager = build_manager(env, settings, planes)
        _say_enabled(settings)
        async with TaskGroup("compute-manager") as tasks:
            running = tasks.start(manager.run(), name=manager.name)
            readiness = tasks.start(_say_ready(manager), name="readiness")
            await stop.wait()
            await tasks.stop(running, readiness)
    finally:
        await planes.close()
    logger.info("stopped")


def _say_enabled(settings: ManagerSettings) -> None:
    fields = {
        "management": settings.management,
        "cell": settings.cell,
        "discovery": settings.discovery.mode,
        "cluster": settings.discovery.cluster_name,
        "federation": bool(settings.federation_kubeconfig),
        "quota": settings.cell and bool(settings.quota_kubeconfig),
        "networking": settings.networking,
    }
    logger.info("controllers enabled", extra={"fields": fields})


async def _say_ready(manager: Manager) -> None:
    await manager.wait_ready()
    logger.info("ready")


def run() -> int:
    """The console script."""
    return main(sys.argv[1:], SystemEnvironment())


if __name__ == "__main__":
    sys.exit(run())
