"""Changes a workload's spec on the condition that the spec, not the status, is unchanged.

A rollout writes the workload's status many times a second, and each write changes its
resourceVersion, so a change conditional on that would conflict with the rollout itself. The
condition is on the generation instead, which changes with the spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.protocol import Client, json_patch


async def change_spec(
    client: Client,
    live: Mapping[str, Any],
    spec: Mapping[str, Any],
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Object:
    """Replace the spec, if it is still that of ``live``; only what differs is sent. Labels and
    annotations are replaced where they are given.

    Raises ``Conflict`` when it was changed or replaced concurrently.
    """
    name, uid = live["metadata"]["name"], live["metadata"]["uid"]
    generation = live["metadata"]["generation"]
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/generation", "value": generation},
        *patch_operations(live["spec"], spec, "/spec"),
        *_metadata_operations(live, "labels", labels),
        *_metadata_operations(live, "annotations", annotations),
    ]
    strict = any(each["path"] == "/metadata/resourceVersion" for each in patch)
    try:
        return await client.patch(
            compute.WORKLOADS, name, json_patch(patch), NAMESPACE, dry_run=dry_run
        )
    except errors.Invalid:
        # A read tells a failed test from a bad value: servers answer both alike.
        current = (await client.get(compute.WORKLOADS, name, NAMESPACE)).metadata
        unmoved = (current.uid, current.generation) == (uid, generation)
        if unmoved and not (strict and current.resource_version != _version(live)):
            raise
        raise errors.Conflict(409, "Conflict", f'workload "{name}" was changed meanwhile') from None


def _metadata_operations(
    live: Mapping[str, Any], kind: str, wanted: Mapping[str, str] | None
) -> list[dict[str, Any]]:
    present = live["metadata"].get(kind)
    if wanted is None or wanted == (present or {}):
        return []
    path = f"/metadata/{kind}"
    if present:
        return patch_operations(present, wanted, path)
    # There is no map to add to: valid only while the object is the one that was read.
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": _version(live)},
        {"op": "add", "path": path, "value": dict(wanted)},
    ]


def _version(live: Mapping[str, Any]) -> str:
    return str(live["metadata"]["resourceVersion"])


def patch_operations(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str
) -> list[dict[str, Any]]:
    """The JSON patch that makes ``new`` of ``old``, which is at ``path``. It touches
    only what differs; lists are whole."""
    found: list[dict[str, Any]] = []
    for key in old:
        if key not in new:
            found.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
    for key, value in new.items():
        place, before = f"{path}/{_escaped(key)}", old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            found += patch_operations(before, value, place)
        elif key not in old or before != value:
            found.append({"op": "add", "path": place, "value": value})
    return found


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
