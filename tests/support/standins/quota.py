"""A project with the controllers of quota, and its grants, claims and buckets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.milo_quota import quota_controllers
from datum_compute.standins.milo_quota.budget import Consumer
from tests.support.objects import condition, until
from tests.support.standins.platform import (
    StandinPlatform,
    claim,
    grant,
    register,
    running,
    standin_platform,
)

CLAIMS = quota.RESOURCE_CLAIMS
GRANTS = quota.RESOURCE_GRANTS
BUCKETS = quota.ALLOWANCE_BUCKETS
REGISTRATIONS = quota.RESOURCE_REGISTRATIONS
POLICIES = quota.GRANT_CREATION_POLICIES
INSTANCES = "compute.datumapis.com/instances"
MEMORY = "compute.datumapis.com/memory"
AVAILABLE = ("True", quota.REASON_QUOTA_AVAILABLE)
EXCEEDED = ("False", quota.REASON_QUOTA_EXCEEDED)


def controllers(found: StandinPlatform) -> list[Controller]:
    return quota_controllers(found.project_fleet(), found.root_fleet(), found.env)


@asynccontextmanager
async def project(*, judged: bool = False, **granted: int) -> AsyncIterator[StandinPlatform]:
    """A project with its grant; ``judged`` as for :func:`standin_platform`."""
    async with standin_platform(judged=judged) as found:
        await found.set_project_ready()
        await register(found.root)
        async with running(found.env, controllers(found)):
            if granted:
                await give(found, "given", **granted)
            yield found


async def give(found: StandinPlatform, name: str, **granted: int) -> Object:
    amounts = {f"compute.datumapis.com/{kind}": amount for kind, amount in granted.items()}
    await found.project.create(quota.RESOURCE_GRANTS, grant(name, amounts), "milo-system")
    return await until(
        found.project,
        quota.RESOURCE_GRANTS,
        name,
        "milo-system",
        lambda one: condition(one, "Active") == ("True", quota.REASON_GRANT_ACTIVE),
    )


async def create_claim(found: StandinPlatform, name: str, **requests: int) -> None:
    amounts = {f"compute.datumapis.com/{kind}": amount for kind, amount in requests.items()}
    await found.project.create(quota.RESOURCE_CLAIMS, claim(name, amounts), "default")


async def answer(found: StandinPlatform, name: str) -> Object:
    return await until(
        found.project,
        quota.RESOURCE_CLAIMS,
        name,
        "default",
        lambda one: condition(one, "Granted")[1] != quota.REASON_PENDING_EVALUATION,
    )


async def bucket(found: StandinPlatform, kind: str, **expected: int) -> dict[str, Any]:
    name = Consumer("Project", "demo").bucket_name(kind)
    obj = await until(
        found.project,
        quota.ALLOWANCE_BUCKETS,
        name,
        "milo-system",
        lambda one: expected.items() <= values(one.status).items(),
    )
    return values(obj.status)
