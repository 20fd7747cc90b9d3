"""Changes a workload and records the change in its history.

The spec is written with an annotation that describes the change; then the entry is appended. If the
history cannot be written, the change does not fail: the user is warned, and a later command adds
the entry from the annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.constants import (
    ANNOTATION_ROLLOUT_ABORTED,
    ANNOTATION_ROLLOUT_PROMOTED,
    ANNOTATION_ROLLOUT_SKIPPED,
)
from datum_compute.cli.context import Context
from datum_compute.cli.explain import client_errors
from datum_compute.cli.history.config_map import ConfigMapHistory
from datum_compute.cli.history.entries import (
    Entry,
    Revisions,
    change_annotation,
    entry_from_annotation,
    labels_of,
    missing_entry,
    new_entry,
    rollout_generation,
)
from datum_compute.cli.history.spec_patch import change_spec
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.decisions.instances.revisions import template_hash

Json = Mapping[str, Any]
Workload = dict[str, Any]


_ABOUT_TEMPLATE = (
    ANNOTATION_ROLLOUT_ABORTED,
    ANNOTATION_ROLLOUT_PROMOTED,
    ANNOTATION_ROLLOUT_SKIPPED,
)
"""What a person has said of the rollout of one template."""


class Recorder:
    def __init__(self, context: Context, client: ApiClient) -> None:
        self._context = context
        self._client = client
        self.history = ConfigMapHistory(client, context.env)
        self._actor: str | None = None

    async def revisions(self, workload: Json) -> Revisions:
        """The recorded revisions; none if the history may not be read."""
        try:
            return await self.history.read(workload)
        except errors.StatusError:
            return Revisions()

    async def entry(self, spec: Json, changes: str, *, rollback_to: int = 0) -> Entry:
        """The entry of a change that this command is about to make."""
        message = getattr(self._context.args, "message", None) or ""
        return new_entry(
            spec,
            now=self._context.env.now(),
            changes=changes,
            actor=await self.actor(),
            message=message,
            rollback_to=rollback_to,
        )

    async def actor(self) -> str:
        """The user as the server knows it; empty if it does not tell."""
        if self._actor is None:
            try:
                review = await self._client.create(core.SELF_SUBJECT_REVIEWS, {})
                self._actor = review.view(core.SelfSubjectReview).status.user_info.username
            except (errors.StatusError, errors.Malformed, msgspec.DecodeError):
                self._actor = ""
        return self._actor

    async def create(self, wanted: Json, entry: Entry) -> Workload:
        metadata = wanted["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **change_annotation(entry)}
        body = {**wanted, "metadata": {**metadata, "annotations": annotations}}
        return to_dict(await self._client.create(compute.WORKLOADS, body, NAMESPACE))

    async def change(
        self, live: Json, spec: Json, entry: Entry, *, metadata: Json | None = None
    ) -> Workload:
        """``metadata`` has the labels and annotations to set; others stay, but for what steered the
        rollout of another template: it would steer a later one of the same template too. A change
        of ``live`` that has no entry is recorded first."""
        await self._catch_up(live)
        wanted = metadata or live["metadata"]
        annotations = dict(wanted.get("annotations") or {})
        if entry.template_hash != template_hash(live["spec"]["template"]):
            present = live["metadata"].get("annotations") or {}
            for each in _ABOUT_TEMPLATE:
                if annotations.get(each) == present.get(each):
                    annotations.pop(each, None)
        annotations |= change_annotation(entry)
        return to_dict(
            await change_spec(
                self._client,
                live,
                spec,
                labels=wanted.get("labels") or {},
                annotations=annotations,
            )
        )

    async def _catch_up(self, live: Json) -> None:
        try:
            revisions = await self.history.read(live)
            if missing_entry(revisions, live, self._context.env.now()) is not None:
                await self.history.record(live, None, before=live)
        except errors.StatusError:
            pass  # retried with the change itself, which warns

    async def record(self, before: Json | None, written: Workload, entry: Entry) -> int | None:
        """The revision of the change, if it could be recorded."""
        stored = entry._replace(
            spec=written["spec"], labels=labels_of(written), rollout=rollout_generation(written)
        )
        return await self._recorded(written, stored, before)

    async def finish(self, live: Workload) -> int | None:
        """Record what an interrupted command wrote and did not record; external changes are left
        for the next change."""
        revisions = await self.revisions(live)
        now = self._context.env.now()
        if revisions.active is not None and missing_entry(revisions, live, now) is None:
            return revisions.number
        if entry_from_annotation(live, now) is None:
            return None
        return await self._recorded(live, None, live)

    async def _recorded(
        self, workload: Workload, entry: Entry | None, before: Json | None
    ) -> int | None:
        try:
            return (await self.history.record(workload, entry, before=before)).number or None
        except errors.ClientError as error:
            self._context.say(
                "Warning: the change was made but is not in the history yet: "
                f"{client_errors.to_command_error(error).message}"
            )
            return None


def revision_numbers(revisions: Revisions, live: Json) -> str:
    """``revision #3 → #4``: the revision of ``live`` and that of the next change."""
    active = revisions.active
    if active is None:
        return "first recorded revision"
    if not active.matches_spec(live["spec"]):  # another entry will come between
        return f"revision #{active.rev + 1} → #{active.rev + 2}"
    return f"revision #{active.rev} → #{active.rev + 1}"
