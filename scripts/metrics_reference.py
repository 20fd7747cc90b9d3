"""Write the reference of metrics, ``docs/reference/metrics.md``, from what is registered.

A local platform is started on virtual time, and every process registers its metrics. The few
that no process of a local platform has are registered beside them.
"""

from __future__ import annotations

from typing import Any

from datum_compute.assembly.local.platform import LocalPlatform, ManagerFactory
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.in_process import InProcessTransport
from datum_compute.env import Environment
from datum_compute.providers.container.activator.sleeper import WakeMetrics
from datum_compute.runtime.leadership import Leadership, LeaseName
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.metrics.client_metrics import CountedTransport, UnreadableCount
from datum_compute.runtime.metrics.registry import Family, MetricsRegistry
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import run

INTRODUCTION = (
    "# Metrics",
    "",
    "`make generate` writes this page from what the processes register.",
    "[Metrics and Events](../operate/metrics.md) says where they are served.",
    "",
)

SECTIONS = {
    "Reconciles and queues": ("controller_", "workqueue_", "rest_client_", "leader_election_"),
    "The controller runtime": ("compute_runtime_", "compute_events_"),
    "Quota, federation and instances": ("compute_",),
    "The objects themselves": ("datum_cloud_compute_",),
}
"""The beginnings of the names in each section; the first that fits counts."""


def rendered() -> str:
    """The whole page."""
    families = run(_registered())
    lines = [*INTRODUCTION]
    for title, beginnings in SECTIONS.items():
        here = [name for name in sorted(families) if name.startswith(beginnings)]
        rows = [_row(families.pop(name)) for name in here]
        lines += [f"## {title}", "", "| Metric | Labels | Meaning |", "|---|---|---|", *rows, ""]
    if families:
        raise ValueError(f"no section of SECTIONS has {', '.join(sorted(families))}")
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(family: Family[Any]) -> str:
    meaning = family.help_text.replace("<", r"\<").replace("|", r"\|")
    return f"| `{family.name}` | {', '.join(family.label_names)} | {meaning} |"


async def _registered() -> dict[str, Family[Any]]:
    """Every family, by name."""
    env = SimulatedEnvironment()
    managers: list[Manager] = []

    def supervise(_: str, build: ManagerFactory) -> Manager:
        managers.append(build(env))
        return managers[-1]

    platform = LocalPlatform(env, ":memory:", LocalSettings(), supervise=supervise)
    async with platform.run(admin_token="admin"):
        found = [_elsewhere(env, platform), *(each.metrics for each in managers)]
    registries = [each for each in found if each is not None]
    return {each.name: each for registry in registries for each in registry.families()}


def _elsewhere(env: Environment, platform: LocalPlatform) -> MetricsRegistry:
    """The metrics of a manager's connections and Lease, and of a provider that runs containers."""
    registry = MetricsRegistry()
    CountedTransport(InProcessTransport(platform.server.handle), registry, "")
    UnreadableCount(registry)
    client = platform.client("root", "local-admin")
    Leadership(client, LeaseName("", ""), "", env).track(registry)
    WakeMetrics(registry)
    return registry
