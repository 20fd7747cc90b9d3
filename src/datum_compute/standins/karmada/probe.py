"""Probing a member: whether it is ready, and which kinds it serves.

Readiness has hysteresis. The first answer counts at once, and so does the first good answer of
a member that was never ready. After that a change counts only when it has lasted: 30 s of
failure make a ready member not ready, 30 s of success bring it back.

The real system lists everything a member serves. Here only the groups of propagated kinds are
listed, with each probe, so that a kind installed later is found by the next one. A group that the
member does not have is not served; a group whose read fails keeps its last result, and the list
then counts as incomplete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from datum_compute.api import conditions, karmada
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.discovery import served_kinds
from datum_compute.client.protocol import Client
from datum_compute.runtime.writes.conditions import ConditionChange

PROBE_SECONDS = 10.0
"""Karmada's ``--cluster-status-update-frequency``."""
THRESHOLD_SECONDS = 30.0
"""Karmada's failure threshold and its success threshold."""
PROBE_TIMEOUT_SECONDS = 5.0
"""A guess, below the probing interval."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one member, from probe to probe."""

    ready: bool
    """The reported readiness."""
    observed: bool
    """The result of the last probe."""
    since: float
    """Loop time of the first consecutive probe with that result."""
    ever_ready: bool


def decide_health(before: Health | None, *, good: bool, at: float) -> Health:
    """The health after another probe, at this loop time."""
    if before is None or (good and not before.ever_ready):
        return Health(ready=good, observed=good, since=at, ever_ready=good)
    since = before.since if good == before.observed else at
    lasted = at - since >= THRESHOLD_SECONDS
    ready = good if good == before.ready or lasted else before.ready
    return replace(before, ready=ready, observed=good, since=since)


async def probe_readiness(member_client: Client | None) -> ConditionChange:
    """The Ready condition after one probe. Without a client the member is not reachable."""
    if member_client is None:
        return _not_ready(
            karmada.REASON_CLUSTER_NOT_REACHABLE, "no connection to the cluster is configured"
        )
    for path in ("/readyz", "/healthz"):
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await member_client.raw(path)
        except (errors.NotFound, errors.NotServed):
            continue  # an API server that has only the older endpoint
        except (errors.TransportFailure, TimeoutError) as error:
            reason = karmada.REASON_CLUSTER_NOT_REACHABLE
            return _not_ready(reason, f"cluster is not reachable: {error}")
        except errors.ClientError as error:
            return _not_ready(karmada.REASON_CLUSTER_NOT_READY, f"cluster is not healthy: {error}")
        return ConditionChange(
            karmada.CONDITION_READY,
            conditions.TRUE,
            karmada.REASON_CLUSTER_READY,
            "cluster is healthy and ready to accept workloads",
        )
    return _not_ready(karmada.REASON_CLUSTER_NOT_READY, "cluster has no health endpoint")


def _not_ready(reason: str, message: str) -> ConditionChange:
    return ConditionChange(karmada.CONDITION_READY, conditions.FALSE, reason, message)


@dataclass(frozen=True, slots=True)
class Enablements:
    groups: list[dict[str, Any]]
    """As a Cluster's status has them, by group and version."""
    complete: bool


async def read_enablements(
    member_client: Client, kinds: Iterable[Resource], known: list[dict[str, Any]]
) -> Enablements:
    """What the member serves of the groups of these kinds; ``known``, incomplete, where it does
    not answer in time."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
            return await _read_enablements(member_client, kinds, known)
    except TimeoutError:
        return Enablements(known, complete=False)


async def _read_enablements(
    member_client: Client, kinds: Iterable[Resource], known: Iterable[dict[str, Any]]
) -> Enablements:
    before = {one["groupVersion"]: one for one in known}
    groups, complete = [], True
    for group_version in sorted({kind.api_version for kind in kinds}):
        try:
            served = await served_kinds(member_client, group_version)
        except (errors.NotFound, errors.NotServed):
            continue
        except (errors.ClientError, msgspec.DecodeError):
            complete = False
            groups += [before[group_version]] if group_version in before else []
            continue
        resources = [{"name": one.name, "kind": one.kind} for one in served]
        groups.append({"groupVersion": group_version, "resources": resources})
    return Enablements(groups, complete)
