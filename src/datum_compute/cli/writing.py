"""Changing a workload's spec under a condition that its status does not break.

A rollout writes the workload's status many times a second, and each write moves its
resourceVersion; a change that insisted on that would lose against the very thing it is
about. What must not have moved meanwhile is the spec, and that is the generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.cli.plan import operations
from datum_compute.cli.resources import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.protocol import Client, json_patch


async def change_spec(
    client: Client, live: Mapping[str, Any], spec: Mapping[str, Any], *, dry_run: bool = False
) -> Object:
    """Make the spec this one, if it is still that of ``live``; only what differs is sent.

    Raises ``Conflict`` when somebody else has changed or replaced it.
    """
    name, uid = live["metadata"]["name"], live["metadata"]["uid"]
    generation = live["metadata"]["generation"]
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/generation", "value": generation},
        *operations(live["spec"], spec, "/spec"),
    ]
    try:
        return await client.patch(
            compute.WORKLOADS, name, json_patch(patch), NAMESPACE, dry_run=dry_run
        )
    except errors.Invalid:
        # A failed test and a bad value are told apart by looking: servers answer both alike.
        current = (await client.get(compute.WORKLOADS, name, NAMESPACE)).metadata
        if (current.uid, current.generation) == (uid, generation):
            raise
        raise errors.Conflict(409, "Conflict", f'workload "{name}" was changed meanwhile') from None
