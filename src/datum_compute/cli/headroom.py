"""What is left of a project's quota, and whether a change needs more than that.

Short quota is a warning, not a refusal: instances beyond it wait until there is room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.quota_resources import QUOTA_RESOURCES
from datum_compute.api.planes import MILO_SYSTEM_NAMESPACE
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.cli.explain import states
from datum_compute.cli.session import to_dict
from datum_compute.cli.workload import deployments
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.decisions.quota import decide_size

Json = Mapping[str, Any]

UNITS = {"instances": "instances", "vcpus": "vCPUs", "memory": "GiB of memory"}
"""Resource -> the unit people read."""


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


def size(workload: Json | None, *, without: int = 0) -> dict[str, int]:
    """What a workload requests of each resource, in base units, but for some instances."""
    if workload is None:
        return {}
    number = states.instance_count(workload) - without
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
    """A warning for each resource of which less is left than this needs in addition. What a
    change replaces by other cities is held until those are Available."""
    before, after = size(live, without=_replaced(planned, live)), size(planned)
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


def _replaced(planned: Json, live: Json | None) -> int:
    """How many instances of removed cities stay until added ones are Available."""
    if live is None:
        return 0
    before = {key: number for key, _, number in deployments(live)}
    after = {key for key, _, _ in deployments(planned)}
    if after <= before.keys():
        return 0
    return sum(number for key, number in before.items() if key not in after)
