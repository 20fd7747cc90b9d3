"""Usage of a project's quota, and rules that keep a cell from its quota."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, Transport
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from tests.support.client.intercepted_transport import (
    InterceptedTransport,
    Rule,
    names_kind,
    refuse,
)
from tests.support.federation.stage import NAMESPACE, Stage, Wrap
from tests.support.objects import condition
from tests.support.simulation.platform import cell_planes, list_on_planes, workload

CELL = "compute-cell-dfw"
PROJECT = "project/demo"
HOUR = 3600.0
A_WHILE = pytest.mark.parametrize(
    "seconds", [HOUR, pytest.param(24 * HOUR, marks=[pytest.mark.long, pytest.mark.timeout(300)])]
)


def named(
    name: str, minimum: int, *, image: str = "acme/web:1", cities: tuple[str, ...] = ("DFW",)
) -> dict[str, Any]:
    body = workload(image, minimum, cities)
    body["metadata"]["name"] = name
    return body


async def deploy(on: Stage, *args: Any, **more: Any) -> None:
    await on.project.create(compute.WORKLOADS, named(*args, **more), NAMESPACE)


async def scale(on: Stage, name: str, minimum: int) -> None:
    spec = {"spec": {"placements": named(name, minimum)["spec"]["placements"]}}
    await on.project.patch(compute.WORKLOADS, name, merge(spec), NAMESPACE)


async def ready(on: Stage, name: str = "", *planes: str) -> list[str]:
    """Names of ready Instances, of the workloads with this name prefix."""
    found = await list_on_planes(on, compute.INSTANCES, *(planes or ("cell/dfw",)))
    return sorted(
        obj.name
        for obj in found
        if obj.name.startswith(name) and condition(obj, "Ready") == ("True", "Available")
    )


async def serving(on: Stage, name: str, count: int, *, within: float = 300.0) -> None:
    async def look() -> str:
        found = await ready(on, name)
        return "" if len(found) == count else f"{found} serve"

    await eventually(f"{count} of {name} serve", look, within=within)


async def claims(on: Stage) -> list[Object]:
    return (await on.project.list(quota.RESOURCE_CLAIMS)).items


SIZE = {"instances": 1, "vcpus": 1000, "memory": 2048}
"""What one Instance takes."""


async def check_claims_match_buckets(on: Stage, count: int) -> str:
    """Whether exactly this many Instances are ready and hold a claim, and every bucket reports
    the same usage."""
    serve = await ready(on, "", *(f"cell/{cell}" for cell in on.settings.cells))
    if len(serve) != count:
        return f"{len(serve)} serve: {serve}"
    held = sorted(each.name for each in await claims(on))
    if held != sorted(f"instance-{name}" for name in serve):
        return f"claims are {held}, and {serve} serve"
    for obj in (await on.project.list(quota.ALLOWANCE_BUCKETS)).items:
        bucket = obj.view(quota.AllowanceBucket)
        taken = count * SIZE[bucket.spec.resource_type.rpartition("/")[2]]
        if (bucket.status.allocated, bucket.status.claim_count) != (taken, count):
            return f"the bucket of {bucket.spec.resource_type} reports {bucket.status}"
    return ""


async def set_grant(on: Stage, **amounts: int) -> None:
    """Set the project's limits, by the last segment of the resource type."""
    [grant] = (await on.project.list(quota.RESOURCE_GRANTS)).items
    allowances = values(grant.spec)["allowances"]
    for each in allowances:
        amount = amounts.get(each["resourceType"].rpartition("/")[2])
        if amount is not None:
            each["buckets"] = [{"amount": amount}]
    body = merge({"spec": {"allowances": allowances}})
    await on.project.patch(quota.RESOURCE_GRANTS, grant.name, body, grant.namespace)


async def conditions_shown(on: Stage, name: str) -> dict[tuple[str, str], Any]:
    """All conditions of the Instances with this name prefix, on every plane that has them."""
    return {
        (plane, obj.name): values(obj.status)["conditions"]
        for plane in (*cell_planes(on), "hub", f"project/{on.settings.project}")
        for obj in await list_on_planes(on, compute.INSTANCES, plane)
        if obj.name.startswith(name)
    }


async def gone(on: Stage, name: str) -> str:
    try:
        await on.project.get(compute.WORKLOADS, name, NAMESPACE)
    except errors.NotFound:
        return ""
    return "it is there"


# Rules for the requests of processes.


def in_cell(rules: list[Rule], *, plane: str = "") -> Wrap:
    """Apply these rules to the cell manager's requests to planes with this name prefix."""

    def wrap(transport: Transport, process: str, to: str) -> Transport:
        concerned = process == CELL and to.startswith(plane)
        return InterceptedTransport(transport, rules) if concerned else transport

    return wrap


def in_managers(rules: list[Rule]) -> Wrap:
    """Apply these rules to the requests of all our managers."""

    def wrap(transport: Transport, process: str, plane: str) -> Transport:
        concerned = process.startswith("compute-")
        return InterceptedTransport(transport, rules) if concerned else transport

    return wrap


def refuse_kinds(code: int, plurals: Sequence[str]) -> Rule:
    """Refuse all requests on these kinds."""
    reason = {403: "Forbidden", 500: "InternalError"}[code]
    return Rule(refuse(code, reason), names_kind(*plurals))


def random_conflicts(seed: int, share: float) -> Rule:
    """A share of the writes gets a conflict."""
    random = Random(seed)

    def strikes(request: HttpRequest) -> bool:
        return request.method in ("PATCH", "PUT", "DELETE") and random.random() < share

    return Rule(refuse(409, "Conflict"), strikes)
