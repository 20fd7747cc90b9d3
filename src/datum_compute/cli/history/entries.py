"""Entries of a revision history: their form, what they are made from, and which are kept.

Pure: plain JSON values in, entries out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from datum_compute.api.compute.constants import (
    ANNOTATION_CURRENT_REVISION,
    ANNOTATION_LAST_CHANGE,
    ANNOTATION_ROLLOUT,
    CONDITION_PROGRESSING,
    GROUP,
)
from datum_compute.cli.explain import states
from datum_compute.cli.render.spec_diff import diff_specs, normalize_spec, summarize_changes
from datum_compute.decisions.instances.revisions import template_hash

Json = Mapping[str, Any]

NAME_PREFIX = f"{GROUP}-revision-history."
"""The name of a history's ConfigMap is this and the workload's name."""
MAX_ENTRIES = 20
MAX_BYTES = 900_000
"""The size of all entries together: a server accepts a ConfigMap of at most 1 MiB."""

CREATED = "created"
EXTERNAL = "external change"
"""The changes of an entry whose change was made without recording it begin with this."""
UNKNOWN_ACTOR = ""
"""The actor of an external change: the server does not tell who made it."""


class Entry(NamedTuple):
    rev: int
    """0 while it has no place in a history."""
    timestamp: str
    image: str
    changes: str
    actor: str
    template_hash: str
    spec: dict[str, Any] | None
    """None where it alone is larger than a history may be."""
    message: str = ""
    rollback_to: int = 0
    """The revision whose spec it restores; 0 for any other change."""
    labels: dict[str, str] | None = None
    """Of the workload; None in entries that older versions wrote."""
    rollout: int = 0
    """The workload's generation where it has a rollout policy; otherwise 0, as in entries that
    older versions wrote."""
    outcome: str = ""
    """How far the rollout in waves was that it began, when the next one began: the reason of
    Progressing. Empty while it is the newest, and where that is not known."""

    def to_json(self) -> str:
        value: dict[str, Any] = {
            "rev": self.rev,
            "timestamp": self.timestamp,
            "image": self.image,
            "changes": self.changes,
            "actor": self.actor,
            "templateHash": self.template_hash,
            "spec": self.spec,
        }
        if self.message:
            value["message"] = self.message
        if self.rollback_to:
            value["rollbackTo"] = self.rollback_to
        if self.labels is not None:
            value["labels"] = self.labels
        if self.rollout:
            value["rollout"] = self.rollout
        if self.outcome:
            value["outcome"] = self.outcome
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    @property
    def size(self) -> int:
        return len(str(self.rev)) + len(self.to_json().encode())

    def matches_spec(self, spec: Json) -> bool:
        """Whether this spec is the one of the entry."""
        if self.spec is None:
            return self.template_hash == template_hash(spec.get("template") or {})
        return not diff_specs(self.spec, spec)

    def is_same_change(self, other: Entry) -> bool:
        """Whether both record the same change, at any position."""
        if (self.timestamp, self.actor, self.changes) != (
            other.timestamp,
            other.actor,
            other.changes,
        ):
            return False
        return self.template_hash == other.template_hash


class Revisions(NamedTuple):
    """The entries of a workload, oldest first."""

    entries: tuple[Entry, ...] = ()

    @property
    def active(self) -> Entry | None:
        return self.entries[-1] if self.entries else None

    @property
    def number(self) -> int:
        return self.entries[-1].rev if self.entries else 0

    def find(self, rev: int) -> Entry | None:
        return next((each for each in self.entries if each.rev == rev), None)


def history_name(workload: Json) -> str:
    return NAME_PREFIX + str(workload["metadata"]["name"])


def is_history_of(config_map: Json, workload: Json) -> bool:
    """False for the history of a deleted workload of the same name."""
    owners = config_map["metadata"].get("ownerReferences") or []
    return any(owner["uid"] == workload["metadata"]["uid"] for owner in owners)


def revisions_of(config_map: Json, workload: Json) -> Revisions:
    """The entries in a ConfigMap; none where it is another workload's."""
    if not is_history_of(config_map, workload):
        return Revisions()
    entries = [parse_entry(text) for text in (config_map.get("data") or {}).values()]
    return Revisions(tuple(sorted((e for e in entries if e is not None), key=lambda e: e.rev)))


def parse_entry(text: str) -> Entry | None:
    """None for anything that is not an entry: other clients can write to the ConfigMap too."""
    try:
        value = json.loads(text)
        spec = value["spec"]
        labels = value.get("labels")
        if not isinstance(spec, dict | None) or not isinstance(labels, dict | None):
            return None
        return Entry(
            rev=int(value["rev"]),
            timestamp=str(value["timestamp"]),
            image=str(value.get("image", "")),
            changes=str(value.get("changes", "")),
            actor=str(value.get("actor", "")),
            template_hash=str(value.get("templateHash", "")),
            spec=spec,
            message=str(value.get("message", "")),
            rollback_to=int(value.get("rollbackTo", 0)),
            labels=labels,
            rollout=int(value.get("rollout", 0)),
            outcome=str(value.get("outcome", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def last_number(config_map: Json) -> int:
    """The highest number ever given, as far as the object records."""
    annotations = config_map["metadata"].get("annotations") or {}
    numbers = [annotations.get(ANNOTATION_CURRENT_REVISION, ""), *(config_map.get("data") or {})]
    return max((int(text) for text in numbers if text.isascii() and text.isdecimal()), default=0)


def new_entry(
    spec: Json,
    *,
    now: datetime,
    changes: str,
    actor: str,
    message: str = "",
    timestamp: str = "",
    rollback_to: int = 0,
    labels: dict[str, str] | None = None,
    rollout: int = 0,
) -> Entry:
    return Entry(
        rev=0,
        timestamp=timestamp or now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        image=states.image({"spec": spec}) or "—",
        changes=changes,
        actor=actor,
        template_hash=template_hash(spec.get("template") or {}),
        spec=dict(spec),
        message=message,
        rollback_to=rollback_to,
        labels=labels,
        rollout=rollout,
    )


def labels_of(workload: Json) -> dict[str, str]:
    return dict(workload["metadata"].get("labels") or {})


def rollout_generation(workload: Json) -> int:
    """What an entry has as ``rollout``."""
    metadata = workload["metadata"]
    policy = (metadata.get("annotations") or {}).get(ANNOTATION_ROLLOUT) or "{}"
    return 0 if policy.strip() == "{}" else int(metadata.get("generation") or 0)


def rollout_reason(workload: Json) -> str:
    """How far the rollout in waves of a workload is; empty without one, and where its controller
    has not reported on its spec."""
    found = states.condition(workload, CONDITION_PROGRESSING)
    generation = rollout_generation(workload)
    known = generation and found.get("observedGeneration") == generation
    return str(found.get("reason", "")) if known else ""


def rollout_beginnings(revisions: Revisions) -> list[Entry]:
    """The entries that began a rollout: each change of the template, and the first entry that has
    a rollout policy. Those after it only scaled, for example, or restarted one city."""
    found: list[Entry] = []
    before: Entry | None = None
    for each in revisions.entries:
        if before is None or not (before.rollout and before.template_hash == each.template_hash):
            found.append(each)
        before = each
    return found


def with_outcome(revisions: Revisions, workload: Json, following: Entry) -> Revisions:
    """With what became of the newest rollout, if ``following`` ends it; ``workload`` is as the
    newest entry left it, or else nothing is known."""
    active = revisions.active
    if active is None or not active.matches_spec(workload["spec"]):
        return revisions
    if following.rollout and following.template_hash == active.template_hash:
        return revisions
    begun = rollout_beginnings(revisions)[-1]
    ended = begun._replace(outcome=rollout_reason(workload) or begun.outcome)
    return Revisions(tuple(ended if each is begun else each for each in revisions.entries))


def spec_hash(spec: Json) -> str:
    from hashlib import sha256  # reads hash only what is not recorded yet

    canonical = json.dumps(normalize_spec(spec), sort_keys=True, ensure_ascii=False)
    return sha256(canonical.encode()).hexdigest()[:16]


def change_annotation(entry: Entry) -> dict[str, str]:
    """The annotation that is written with a spec: the entry without the spec itself."""
    value: dict[str, Any] = {
        "timestamp": entry.timestamp,
        "changes": entry.changes,
        "actor": entry.actor,
        "spec": spec_hash(entry.spec or {}),
    }
    if entry.message:
        value["message"] = entry.message
    if entry.rollback_to:
        value["rollbackTo"] = entry.rollback_to
    return {ANNOTATION_LAST_CHANGE: json.dumps(value, ensure_ascii=False)}


def entry_from_annotation(workload: Json, now: datetime) -> Entry | None:
    """The entry from the workload's annotation, if that is about its current spec."""
    value = _annotated(workload)
    try:
        if value["spec"] != spec_hash(workload["spec"]):
            return None
        return new_entry(
            workload["spec"],
            now=now,
            timestamp=str(value["timestamp"]),
            changes=str(value["changes"]),
            actor=str(value["actor"]),
            message=str(value.get("message", "")),
            rollback_to=int(value.get("rollbackTo", 0)),
            labels=labels_of(workload),
            rollout=rollout_generation(workload),
        )
    except (KeyError, ValueError, TypeError):
        return None


def _annotated(workload: Json) -> Json:
    """The annotation that was written with a spec; empty without one that can be read."""
    annotations = workload["metadata"].get("annotations") or {}
    try:
        value = json.loads(annotations.get(ANNOTATION_LAST_CHANGE, "{}"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def noted_entry(revisions: Revisions, workload: Json, now: datetime) -> Entry | None:
    """The entry of the annotated change, where the history lacks it: of a command that wrote it and
    has not recorded it, or not yet."""
    value = _annotated(workload)
    change = tuple(value.get(key) for key in ("timestamp", "actor", "changes"))
    if any((each.timestamp, each.actor, each.changes) == change for each in revisions.entries):
        return None  # before anything is hashed
    noted, active = entry_from_annotation(workload, now), revisions.active
    if noted is None or active is None or noted.timestamp >= active.timestamp:
        return noted
    # An older annotation belongs to a change that has been dropped from the history since.
    return None if active.matches_spec(workload["spec"]) else noted


def missing_entry(revisions: Revisions, workload: Json, now: datetime) -> Entry | None:
    """The entry that the history lacks for the workload as it is: for its spec, or for an annotated
    change that left the spec alone, such as a restart in one city."""
    active = revisions.active
    noted = noted_entry(revisions, workload, now)
    if noted is not None or (active is not None and active.matches_spec(workload["spec"])):
        return noted
    changes, timestamp = EXTERNAL, ""
    if active is None:
        timestamp = str(workload["metadata"].get("creationTimestamp", ""))
    elif active.spec is not None:
        changes = f"{EXTERNAL}: {summarize_changes(diff_specs(active.spec, workload['spec']))}"
    return new_entry(
        workload["spec"],
        now=now,
        timestamp=timestamp,
        changes=changes,
        actor=UNKNOWN_ACTOR,
        labels=labels_of(workload),
        rollout=rollout_generation(workload),
    )


def append_entries(
    revisions: Revisions, additions: Iterable[Entry | None], *, last: int = 0
) -> Revisions:
    """The revisions with these entries appended, except those that exist already; ``last`` is a
    number that is used although no entry has it."""
    entries = list(revisions.entries)
    number = max(revisions.number, last)
    for entry in additions:
        if entry is None or any(entry.is_same_change(each) for each in entries):
            continue
        number += 1
        entries.append(entry._replace(rev=number))
    return Revisions(tuple(newest_fitting(entries)))


def newest_fitting(entries: Sequence[Entry]) -> list[Entry]:
    """The newest, as many as there is room for."""
    found: list[Entry] = []
    room = MAX_BYTES
    for entry in reversed(entries[-MAX_ENTRIES:]):
        fitting = entry
        if not found and entry.size > room:
            fitting = entry._replace(spec=None)
        room -= fitting.size
        if room < 0:
            break
        found.insert(0, fitting)
    return found
