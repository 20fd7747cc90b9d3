"""Checks before a workload is written: cities, instance type and networks.

An unknown city or type is refused, and creating a missing network is offered. A city that the live
workload has already is not judged again: if it is no longer served, that is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datum_compute.api.compute.instance_types import INSTANCE_TYPES
from datum_compute.api.networking import v1alpha as networking
from datum_compute.cli import queries
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.explain import states
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.protocol import Client

Json = Mapping[str, Any]


async def check_cities(context: Context, client: Client, wanted: Json, live: Json | None) -> None:
    page = await client.list(networking.LOCATION_BINDINGS)
    bindings = [to_dict(each) for each in page.items if states.is_true(to_dict(each), "Available")]
    served = {queries.city_of(each).upper() for each in bindings} - {""}
    stored = {city.upper() for city in _cities(live)} if live is not None else set()
    missing = [city for city in _cities(wanted) if city.upper() not in served]
    project = context.target.project
    for city in missing:
        if city.upper() in stored:
            context.say(f"Warning: {city} is no longer served in project {project}.\n")
    unknown = [city for city in missing if city.upper() not in stored]
    if unknown:
        names = ", ".join(f'"{city}"' for city in unknown)
        raise CommandError(
            f"{names} {'is' if len(unknown) == 1 else 'are'} not served in project "
            f"{project}; choose from {', '.join(sorted(served)) or 'none'}",
            command("cities"),
            exit_code=Exit.BLOCKED,
            code="NoMatchingLocation",
        )


def _cities(workload: Json) -> list[str]:
    """Each once, as written."""
    placements = workload["spec"].get("placements") or []
    return list(dict.fromkeys(str(city) for p in placements for city in p.get("cityCodes") or []))


def check_type(wanted: Json, live: Json | None) -> None:
    """Refuse an unknown type, unless the live workload already has it."""
    asked = instance_type(wanted)
    if not asked or asked in INSTANCE_TYPES or (live and instance_type(live) == asked):
        return
    raise usage(
        f'instance type "{asked}": expected one of {", ".join(INSTANCE_TYPES)}',
        command("instance-types"),
    )


def instance_type(workload: Json) -> str:
    template = workload["spec"]["template"]["spec"]
    runtime = template.get("runtime")
    resources = runtime.get("resources") if isinstance(runtime, dict) else None
    found = resources.get("instanceType") if isinstance(resources, dict) else None
    return found if isinstance(found, str) else ""


async def missing_networks(client: Client, workloads: Sequence[Json]) -> list[str]:
    """The networks these workloads are on that do not exist."""
    named = {
        interface["network"]["name"]
        for workload in workloads
        for interface in workload["spec"]["template"]["spec"].get("networkInterfaces") or []
    }
    missing = []
    for name in sorted(named):
        try:
            await client.get(networking.NETWORKS, name, NAMESPACE)
        except errors.NotFound:
            missing.append(name)
    return missing


async def create_network(client: Client, name: str) -> None:
    body = {
        "apiVersion": networking.NETWORKS.api_version,
        "kind": networking.NETWORKS.kind,
        "metadata": {"name": name},
        "spec": {"ipam": {"mode": "Auto"}},
    }
    try:
        await client.create(networking.NETWORKS, body, NAMESPACE)
    except errors.AlreadyExists:
        pass  # created concurrently
