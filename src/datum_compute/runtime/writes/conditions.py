"""Reporting conditions: the status of an object with some of its conditions replaced.

Like every write of :mod:`.patch` it is compared first, so reporting the same again writes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from datum_compute.api import conditions
from datum_compute.api.compute.reasons import REASON_UNREADABLE
from datum_compute.api.meta import Object, Unreadable
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.runtime.writes.patch import Values, status_values, write_status


class ConditionChange(NamedTuple):
    type: str
    status: str
    reason: str
    message: str


def status_with(
    obj: Object, *changes: ConditionChange, now: datetime, observed: bool = True
) -> Values:
    """The object's status with these conditions in place of their predecessors. With
    ``observed`` they carry the object's generation, as ours and Milo's do; Karmada's do not."""
    status = status_values(obj)
    current = conditions.of_status(obj.status)
    generation = obj.metadata.generation if observed else None
    for change in changes:
        current = conditions.with_condition(
            current, *change, now=now, observed_generation=generation
        )
    return {**status, "conditions": conditions.to_wire(current)}


async def write_conditions(
    client: Client,
    resource: Resource,
    obj: Object,
    *changes: ConditionChange,
    now: datetime,
    observed: bool = True,
    fields: Mapping[str, Any] | None = None,
) -> Object:
    """Write these conditions, and other fields of the status, in one write if anything
    differs. Raises ``Conflict`` as :func:`.patch.write_status` does."""
    status = {**status_with(obj, *changes, now=now, observed=observed), **(fields or {})}
    return await write_status(client, resource, obj, status)


async def write_unreadable(
    client: Client, resource: Resource, obj: Object, error: Unreadable, *types: str, now: datetime
) -> None:
    """Report in these conditions that the object cannot be read. A server that refuses, because the
    object is not what its schema says either, leaves the Event to tell."""
    reported = (
        ConditionChange(type, conditions.FALSE, REASON_UNREADABLE, error.problem) for type in types
    )
    try:
        await write_conditions(client, resource, obj, *reported, now=now)
    except errors.Invalid:
        pass
