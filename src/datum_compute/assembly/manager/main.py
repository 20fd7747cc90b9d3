"""The program ``compute-manager``.

It starts in this order: probes and metrics, so that a manager that waits can report what it
waits for; the check of the planes, before which nothing is written; clusters and caches; with
leader election, the candidate; reconcilers, once it leads. On SIGTERM or Ctrl-C the queues stop,
running reconciles get a few seconds, the Lease is released and connections are closed; a second
signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from datum_compute.assembly import event_loop
from datum_compute.assembly.logs import log_to_stderr
from datum_compute.assembly.manager.admission import Webhooks, build_webhooks
from datum_compute.assembly.manager.endpoints import health_app, metrics_app
from datum_compute.assembly.manager.groups import build_manager
from datum_compute.assembly.manager.http_server import ServingError, serve
from datum_compute.assembly.manager.installation_check import check_installation, render
from datum_compute.assembly.manager.plane_clients import (
    USER_AGENT,
    PlaneClients,
    check_kubeconfigs,
    own_connection,
)
from datum_compute.assembly.manager.plane_findings import Verdict
from datum_compute.assembly.manager.settings import ManagerSettings, SettingsError, parse
from datum_compute.assembly.manager.webhook_certificate import ensure_webhook_certificate
from datum_compute.client import connect
from datum_compute.client.errors import ClientError
from datum_compute.client.kubeconfig import KubeconfigError
from datum_compute.env import Environment, SystemEnvironment
from datum_compute.log import get_logger
from datum_compute.runtime.health import HealthCheck
from datum_compute.runtime.leadership import LeadershipLost
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.tasks import TaskGroup

logger = get_logger(__name__)

DRAIN_SECONDS = 5.0
"""How long running reconciles may take to end."""
STOP_SECONDS = 10.0
"""After this the process exits in any case."""


def main(argv: Sequence[str], env: Environment) -> int:
    try:
        settings = parse(argv, env)
        check_kubeconfigs(env, settings)
        log_to_stderr(form=settings.log_format)
        if settings.check:
            return event_loop.run(_check(env, settings))
        if settings.webhook_certificate:
            event_loop.run(_issue(env, settings))
        else:
            event_loop.run(_run(env, settings))
    except (SettingsError, KubeconfigError, ServingError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except LeadershipLost as error:
        logger.error("leadership lost, exiting", reason=str(error))
        return 1
    return 0


async def _run(env: Environment, settings: ManagerSettings) -> None:
    stop = _stop_signal()
    metrics = MetricsRegistry()
    planes = PlaneClients(env, settings, metrics)
    try:
        manager = build_manager(env, settings, planes, metrics)
        webhooks = build_webhooks(env, settings, planes) if settings.webhooks else None
        logger.info("controllers enabled", **settings.log_fields())
        async with TaskGroup("compute-manager") as tasks:
            started = _start_servers(tasks, settings, manager, metrics, webhooks, planes)
            started.append(tasks.start(planes.verify(), name="plane checks"))
            started.append(tasks.start(manager.run(), name=manager.name))
            started.append(tasks.start(_log_ready(manager), name="readiness"))
            await stop.wait()
            if not await manager.drain(DRAIN_SECONDS):
                logger.warning("reconciles did not end in time and are cancelled")
            await tasks.stop(*started)
    finally:
        await planes.close()
    logger.info("stopped")


async def _check(env: Environment, settings: ManagerSettings) -> int:
    planes = PlaneClients(env, settings, MetricsRegistry())
    try:
        found = await check_installation(env, settings, planes)
    finally:
        await planes.close()
    print(render(found, settings), end="")
    return 1 if any(each.verdict is Verdict.MISSING for each in found) else 0


async def _issue(env: Environment, settings: ManagerSettings) -> None:
    connection = own_connection(env, settings)
    client = connect.client_for(connection, cluster="own cluster", user_agent=USER_AGENT)
    try:
        await ensure_webhook_certificate(
            client, connection.namespace, Path(settings.webhook_certificate), env
        )
    except (ClientError, OSError) as error:
        raise ServingError(f"webhooks: cannot issue the certificate: {error}") from error
    finally:
        await client.close()


def _stop_signal() -> asyncio.Event:
    """Set by the first signal; a second one, or :data:`STOP_SECONDS`, ends the process."""
    stop = asyncio.Event()

    def stopping(number: signal.Signals) -> None:
        logger.info("stopping", signal=number.name)
        stop.set()
        asyncio.get_running_loop().call_later(STOP_SECONDS, _give_up)

    event_loop.on_stop_signal(stopping)
    return stop


def _give_up() -> None:
    logger.error("shutdown took too long, exiting")
    os._exit(1)


def _start_servers(
    tasks: TaskGroup,
    settings: ManagerSettings,
    manager: Manager,
    metrics: MetricsRegistry,
    webhooks: Webhooks | None,
    planes: PlaneClients,
) -> list[asyncio.Task[None]]:
    ping = HealthCheck("ping", tuple)
    started = []
    if settings.health_probes is not None:
        ready = [
            ping,
            HealthCheck("planes", planes.refused),
            HealthCheck("caches", manager.missing, manager.unserved),
        ]
        if webhooks is not None:
            ready.append(HealthCheck("webhooks", webhooks.missing))
        app = health_app(alive=[ping], ready=ready)
        address = settings.health_probes
        work = serve(app, host=address.host, port=address.port, tls=None, name="probes")
        started.append(tasks.start(work, name="probes"))
    if settings.metrics is not None:
        address, tls = settings.metrics, settings.metrics_tls
        work = serve(
            metrics_app(metrics), host=address.host, port=address.port, tls=tls, name="metrics"
        )
        started.append(tasks.start(work, name="metrics"))
    if settings.webhooks is not None and webhooks is not None:
        address, tls = settings.webhooks, settings.webhooks_tls
        work = serve(webhooks.app, host=address.host, port=address.port, tls=tls, name="webhooks")
        started.append(tasks.start(webhooks.fleet.run(), name=webhooks.fleet.name))
        started.append(tasks.start(work, name="webhooks"))
    return started


async def _log_ready(manager: Manager) -> None:
    await manager.wait_ready()
    logger.info("ready")


def run() -> int:
    """The console script."""
    return main(sys.argv[1:], SystemEnvironment())


if __name__ == "__main__":
    sys.exit(run())
