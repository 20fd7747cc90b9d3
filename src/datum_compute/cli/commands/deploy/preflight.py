"""Checks before a workload is written: cities, instance type, networks and quota.

An unknown city or type is refused, creating a missing network is offered, and short quota is a
warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.instance_types import INSTANCE_TYPES
from datum_compute.api.compute.quota_resources import QUOTA_RESOURCES
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.planes import MILO_SYSTEM_NAMESPACE
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.cli import queries
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.explain import states
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.decisions.quota import decide_size

Json = Mapping[str, Any]

UNITS = {"instances": "instances", "vcpus": "vCPUs", "memory": "GiB"}
"""Resource -> the unit people read."""


async def check_cities(context: Context, client: Client, wanted: Json) -> None:
    page = await client.list(networking.LOCATION_BINDINGS)
    bindings = [to_dict(each) for each in page.items]
    served = {queries.city_of(each) for each in bindings if states.is_true(each, "Available")} - {
        ""
    }
    asked = [c for p in wanted["spec"].get("placements") or [] for c in p.get("cityCodes") or []]
    unknown = [city for city in asked if city not in served]
    if unknown:
        names = ", ".join(f'"{city}"' for city in unknown)
        raise CommandError(
            f"{names} {'is' if len(unknown) == 1 else 'are'} not served in project "
            f"{context.target.project}; choose from {', '.join(sorted(served)) or 'none'}",
            command("cities"),
            exit_code=Exit.BLOCKED,
            code="NoMatchingLocation",
        )


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


async def headroom(client: Client) -> dict[str, int]:
    """What is left of each resource, in base units; nothing where that cannot be known."""
    try:
        page = await client.list(quota.ALLOWANCE_BUCKETS, MILO_SYSTEM_NAMESPACE)
    except errors.ClientError:
        return {}
    left: dict[str, int] = {}
    for bucket in map(to_dict, page.items):
        name = str((bucket.get("spec") or {}).get("resourceType", ""))
        available = (bucket.get("status") or {}).get("available")
        if name.startswith(states.API_PREFIX) and isinstance(available, int):
            left[name.removeprefix(states.API_PREFIX)] = available
    return left


def size(workload: Json | None) -> dict[str, int]:
    """What a workload requests of each resource, in base units."""
    if workload is None:
        return {}
    number = states.instance_count(workload)
    each = instance_size(workload["spec"]["template"]["spec"])
    return {name: number * amount for name, amount in each.items()}


def instance_size(spec: Json) -> dict[str, int]:
    """What one Instance of this spec requests of each resource, in base units."""
    try:
        typed = msgspec.convert(spec, compute.InstanceSpec)
    except msgspec.ValidationError:
        typed = compute.InstanceSpec()  # from a file that no server has validated
    requests = decide_size(typed).requests()
    return {name.removeprefix(states.API_PREFIX): amount for name, amount in requests.items()}


def quota_lines(planned: Json, live: Json | None, left: Mapping[str, int]) -> list[str]:
    """A warning for each resource of which less is left than this needs in addition."""
    before, after = size(live), size(planned)
    found = []
    for name, unit in UNITS.items():
        factor = QUOTA_RESOURCES[name].factor
        more = after.get(name, 0) - before.get(name, 0)
        if name in left and more > max(0, left[name]):
            has = f"{max(0, left[name]) / factor:g}"
            found.append(
                f"Warning: this needs {more / factor:g} more {unit}, but the quota has {has} "
                "left; the rest will wait."
            )
    return found
