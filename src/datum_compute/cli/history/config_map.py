"""Histories in ConfigMaps: one beside each workload, which owns it.

Each revision is a key, its number, with the entry as JSON; the annotation current-revision
names the newest. Every write carries the resourceVersion that was read, so of two writers one gets
a conflict, reads again and appends after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.constants import ANNOTATION_CURRENT_REVISION
from datum_compute.api.core import CONFIG_MAPS
from datum_compute.cli.history.entries import (
    Entry,
    Revisions,
    append_entries,
    history_name,
    is_history_of,
    last_number,
    missing_entry,
    revisions_of,
    with_outcome,
)
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.env import Environment

Json = Mapping[str, Any]

TRIES = 20
"""Attempts of a write that conflicts with another. A guess: each attempt lets one other writer
pass, and few people write at once."""


class ConfigMapHistory:
    """The histories of one project."""

    def __init__(self, client: Client, env: Environment) -> None:
        self._client = client
        self._env = env

    async def read(self, workload: Json) -> Revisions:
        """The entries of this workload, and not of an earlier one of its name."""
        found = await self._found(workload)
        return Revisions() if found is None else revisions_of(found, workload)

    async def record(
        self, workload: Json, entry: Entry | None, *, before: Json | None
    ) -> Revisions:
        """Append the entry of the change from ``before`` (None: it was created) to
        ``workload``, after an entry for any change of ``before`` that has none. Without
        ``entry`` only the latter, if the workload has not changed since. An entry that exists
        already is not added again."""
        for _ in range(TRIES):
            try:
                return await self._try(workload, entry, before)
            except (errors.Conflict, errors.AlreadyExists, errors.NotFound) as error:
                overtaken = error
        raise overtaken

    async def _try(self, workload: Json, entry: Entry | None, before: Json | None) -> Revisions:
        found = await self._found(workload)
        if found is not None and not is_history_of(found, workload):
            # Of a deleted workload, not garbage-collected yet.
            await self._client.delete(
                CONFIG_MAPS, history_name(workload), NAMESPACE, uid=found["metadata"]["uid"]
            )
            found = None
        current = Revisions() if found is None else revisions_of(found, workload)
        missing = None
        if before is not None and not _knows(current, entry):
            missing = missing_entry(current, before, self._env.now())
        if entry is None and (missing is None or not await self._is_current(workload)):
            return current  # a change that came since may be recorded already
        last = 0 if found is None else last_number(found)
        wanted = append_entries(current, [missing], last=last)
        if entry is not None and before is not None:
            wanted = append_entries(with_outcome(wanted, before, entry), [entry], last=last)
        elif entry is not None:
            wanted = append_entries(wanted, [entry], last=last)
        if found is None:
            await self._create(workload, wanted)
        elif wanted != current:
            await self._change(workload, found, wanted)
        return wanted

    async def _found(self, workload: Json) -> dict[str, Any] | None:
        try:
            return to_dict(await self._client.get(CONFIG_MAPS, history_name(workload), NAMESPACE))
        except errors.NotFound:
            return None

    async def _is_current(self, workload: Json) -> bool:
        """Whether the spec is still this one, now that the history has been read."""
        name, metadata = workload["metadata"]["name"], workload["metadata"]
        try:
            now = (await self._client.get(compute.WORKLOADS, name, NAMESPACE)).metadata
        except errors.NotFound:
            return False
        return (now.uid, now.generation) == (metadata["uid"], metadata["generation"])

    async def _create(self, workload: Json, wanted: Revisions) -> None:
        owner = {
            "apiVersion": compute.WORKLOADS.api_version,
            "kind": compute.WORKLOADS.kind,
            "name": workload["metadata"]["name"],
            "uid": workload["metadata"]["uid"],
        }
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": history_name(workload),
                "ownerReferences": [owner],
                "annotations": {ANNOTATION_CURRENT_REVISION: str(wanted.number)},
            },
            "data": {str(each.rev): each.to_json() for each in wanted.entries},
        }
        await self._client.create(CONFIG_MAPS, body, NAMESPACE)

    async def _change(self, workload: Json, found: Json, wanted: Revisions) -> None:
        data: dict[str, str | None] = {str(each.rev): each.to_json() for each in wanted.entries}
        old = {str(each.rev): each.to_json() for each in revisions_of(found, workload).entries}
        changed = {key: value for key, value in data.items() if old.get(key) != value}
        dropped: dict[str, None] = {key: None for key in old if key not in data}
        body = {
            "metadata": {
                "resourceVersion": found["metadata"]["resourceVersion"],
                "annotations": {ANNOTATION_CURRENT_REVISION: str(wanted.number)},
            },
            "data": {**changed, **dropped},
        }
        await self._client.patch(CONFIG_MAPS, history_name(workload), merge(body), NAMESPACE)


def _knows(current: Revisions, entry: Entry | None) -> bool:
    return entry is not None and any(entry.is_same_change(each) for each in current.entries)
