"""Reporting conditions: the status of an object with some of its conditions replaced.

Like every write of :mod:`.patch` it is compared first, so reporting the same again writes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client
from datum_compute.runtime.writes.patch import Values, values, write_status


class ConditionChange(NamedTuple):
    type: str
    status: str
    reason: str
    message: str


class _Conditioned(msgspec.Struct):
    conditions: conditions.Conditions = ()


def status_with(
    obj: Object, *changes: ConditionChange, now: datetime, observed: bool = True
) -> Values:
    """The object's status with these conditions in place of their predecessors. With
    ``observed`` they carry the object's generation, as ours and Milo's do; Karmada's do not."""
    status = values(obj.status)
    current = msgspec.convert(status, _Conditioned).conditions
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
