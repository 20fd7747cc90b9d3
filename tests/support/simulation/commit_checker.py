"""Checks every commit of a platform, over all its runs, against rules.

A rule is checked against committed state, while a controller decides on an earlier read, and
its request takes time. So a state that was true within the grace still counts.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from datum_compute.api import core
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.decisions.instances import revisions

GRACE_MILLISECONDS = 1000

Change = tuple[PlaneStore, Table, StoreEvent, dict[str, Any]]
Key = tuple[str, str, str]
"""Plane, namespace, name."""


@dataclass(frozen=True)
class DesiredState:
    """What a cell's deployment desires from some time on."""

    time: int
    desired: int
    template: str


NOTHING = (0, "")


@dataclass
class InstanceState:
    """An Instance in a cell, as last committed."""

    uid: str
    deployment: Key
    ordinal: int
    template: str
    deleting: bool
    ready_at: int = -(10**15)
    available: bool = False
    programmed: bool = False


EXPIRED_EVENTS = "events that went"
"""No process of ours deletes Events: they expire, or are deleted with their namespace."""


@dataclass
class CommitChecker:
    broken: list[str] = field(default_factory=list)
    """Rules that were broken, with the time."""
    ordered: set[str] = field(default_factory=set)
    """Instances that a user deleted in a cell, by uid."""
    quota_is_kept: bool = True
    """False where a user deletes claims: a grant is sticky, so more Instances may run."""
    grants_are_kept: bool = True
    """False where a limit may be lowered while a claim on it is granted."""
    grace: int = GRACE_MILLISECONDS
    """How old the view behind a write may be, including the request's time to the server."""
    changes: Counter[str] = field(default_factory=Counter)
    recent: list[str] = field(default_factory=list)
    _trace: Any = field(default_factory=hashlib.sha256)
    _pending: list[Change] = field(default_factory=list)
    _orders: dict[Key, list[DesiredState]] = field(default_factory=dict)
    _instances: dict[Key, InstanceState] = field(default_factory=dict)
    _terminated: set[tuple[str, str]] = field(default_factory=set)
    """Namespaces of cells that are being deleted."""
    _projects: dict[tuple[str, str], str] = field(default_factory=dict)
    """The project of each namespace in a cell."""
    _limits: dict[str, int] = field(default_factory=dict)
    """The current limit of Instances of each project."""
    _allocated: dict[tuple[str, str], int] = field(default_factory=dict)
    """What each bucket of each project had allocated."""
    _ready: dict[tuple[Key, int], int] = field(default_factory=dict)
    """When the Instance of this deployment and ordinal was last Ready."""
    _last: int = 0

    @property
    def trace(self) -> str:
        """A digest over all commits: plane, resource, key and type of each change."""
        return str(self._trace.hexdigest())

    @property
    def now(self) -> datetime:
        """The time of the last commit."""
        return datetime.fromtimestamp(self._last / 1000, UTC)

    def begin(self) -> None:
        """A new run: drop what the last one had not committed."""
        self._pending.clear()

    def changed(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        self._pending.append((plane, table, event, msgspec.json.decode(event.after.raw)))

    def committed(self) -> None:
        pending, self._pending = self._pending, []
        for plane, table, event, obj in pending:
            self._note(plane, table, event)
            cell = plane.name.startswith("cell/")
            key = (plane.name, event.after.namespace, event.after.name)
            if cell and table.resource == compute.WORKLOAD_DEPLOYMENTS.group_resource:
                self._deployment(key, event, obj)
            elif cell and table.resource == core.NAMESPACES.group_resource:
                self._namespace((plane.name, event.after.name), event)
            elif cell and table.resource == compute.INSTANCES.group_resource:
                self._instance(key, event, obj)
            elif table.resource == "allowancebuckets.quota.miloapis.com" and not event.deleted:
                self._bucket(plane.name.partition("/")[2], event, obj)

    def _note(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        kind = "deleted" if event.deleted else "changed" if event.before else "created"
        line = f"{plane.name} {table.resource} {event.after.namespace}/{event.after.name} {kind}"
        self._last = event.time
        self._trace.update(line.encode() + b"\n")
        expired = event.deleted and table.resource == core.EVENTS.group_resource
        self.changes[EXPIRED_EVENTS if expired else table.resource] += 1
        self.recent.append(line)
        del self.recent[:-50]

    def _namespace(self, place: tuple[str, str], event: StoreEvent) -> None:
        if event.after.deleting:
            self._terminated.add(place)
        elif event.before is None:
            self._terminated.discard(place)
        label = event.after.labels.get(compute.LABEL_UPSTREAM_CLUSTER_NAME, "")
        self._projects[place] = names.decode_project(label)

    def _deployment(self, key: Key, event: StoreEvent, obj: dict[str, Any]) -> None:
        desired, template = NOTHING
        if not event.deleted and not event.after.deleting:
            desired = int(obj["spec"]["scaleSettings"].get("minReplicas") or 0)
            template = revisions.template_hash(obj["spec"]["template"])
        orders = self._orders.setdefault(key, [])
        if not orders or (orders[-1].desired, orders[-1].template) != (desired, template):
            orders.append(DesiredState(event.time, desired, template))

    def _in_force(self, key: Key, now: int) -> Iterator[DesiredState]:
        """The desired state of a deployment, and earlier ones within the grace."""
        orders = self._orders.get(key, [])
        for position, order in enumerate(orders):
            until = orders[position + 1].time if position + 1 < len(orders) else now
            if until >= now - self.grace:
                yield order

    def _instance(self, key: Key, event: StoreEvent, obj: dict[str, Any]) -> None:
        before = self._instances.get(key)
        if event.deleted:
            if before is not None and not before.deleting:
                self._judge_deletion(key, before, event)
            self._instances.pop(key, None)
            return
        after = self._read(key, event, obj, before)
        if before is None or before.uid != after.uid:
            self._judge_creation(key, after, event)
        elif after.deleting and not before.deleting:
            self._judge_deletion(key, before, event)
        self._instances[key] = after
        if after.programmed and (obj["spec"].get("controller") or {}).get("schedulingGates"):
            self._break(event, f"{key} is programmed while a gate is on")
        if after.programmed and self.quota_is_kept:
            self._judge_running(self._projects.get(key[:2], ""), event)

    def _judge_running(self, project: str, event: StoreEvent) -> None:
        running = sum(
            each.programmed
            for key, each in self._instances.items()
            if self._projects.get(key[:2]) == project
        )
        limit = self._limits.get(project, 0)
        if running > limit:
            self._break(event, f"{running} Instances of {project} run, the limit is {limit}")

    def _read(
        self, key: Key, event: StoreEvent, obj: dict[str, Any], before: InstanceState | None
    ) -> InstanceState:
        labels = event.after.labels
        deployment = labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
        conditions = (obj.get("status") or {}).get("conditions") or []
        true = {each["type"] for each in conditions if each["status"] == "True"}
        copy = InstanceState(
            event.after.uid,
            (key[0], key[1], deployment),
            int(labels.get(compute.LABEL_INSTANCE_INDEX, "-1")),
            (obj["spec"].get("controller") or {}).get("templateHash", ""),
            event.after.deleting,
            available="Available" in true,
            programmed="Programmed" in true,
        )
        if "Ready" in true:
            copy.ready_at = self._ready[copy.deployment, copy.ordinal] = event.time
        elif before is not None and before.uid == copy.uid:
            # It was ready until this write; from here on it counts as ready only for the grace.
            copy.ready_at = before.ready_at
        return copy

    def _judge_creation(self, key: Key, new: InstanceState, event: StoreEvent) -> None:
        siblings = [
            each
            for other, each in self._instances.items()
            if each.deployment == new.deployment and other != key
        ]
        desired = max(
            (each.desired for each in self._in_force(new.deployment, event.time)), default=0
        )
        if any(each.ordinal == new.ordinal for each in siblings):
            self._break(event, f"{key} was created beside another number {new.ordinal}")
        staying = [each for each in siblings if each.ordinal < desired]
        if new.ordinal >= desired or len(staying) + 1 > desired + 1:
            self._break(event, f"{key} was created as number {new.ordinal}, wanted are {desired}")
        for ordinal in range(new.ordinal):
            found = [each for each in siblings if each.ordinal == ordinal]
            if (not found or found[0].ready_at < 0) and not self._was_ready(new, ordinal, event):
                state = "not Ready" if found else "missing"
                self._break(event, f"{key} was created while number {ordinal} was {state}")

    def _was_ready(self, new: InstanceState, ordinal: int, event: StoreEvent) -> bool:
        """Within a grace that is longer than the usual one."""
        last = self._ready.get((new.deployment, ordinal), -(10**15))
        return last >= event.time - (self.grace - GRACE_MILLISECONDS)

    def _judge_deletion(self, key: Key, copy: InstanceState, event: StoreEvent) -> None:
        if copy.uid in self.ordered or key[:2] in self._terminated:
            return
        orders = list(self._in_force(copy.deployment, event.time))
        self._judge_replacement(key, copy, event, min(each.desired for each in orders))
        if not copy.available:
            return
        if all(each.desired > copy.ordinal and each.template == copy.template for each in orders):
            self._break(event, f"{key} was Available and current, and was deleted")

    def _judge_replacement(
        self, key: Key, copy: InstanceState, event: StoreEvent, desired: int
    ) -> None:
        """A wanted Instance is deleted only while no other is being replaced."""
        siblings = {
            each.ordinal: each
            for each in self._instances.values()
            if each.deployment == copy.deployment and each.ordinal != copy.ordinal
        }
        going = [
            number
            for number in range(desired)
            if number != copy.ordinal
            and (
                siblings[number].deleting
                if number in siblings
                else number < max(siblings, default=0)
            )
        ]
        if copy.ordinal < desired and going:
            self._break(event, f"{key} was deleted while {going} of {desired} were being replaced")

    def _bucket(self, project: str, event: StoreEvent, obj: dict[str, Any]) -> None:
        status = obj.get("status") or {}
        bucket, allocated = (project, event.after.name), status.get("allocated", 0)
        # Lowering a limit takes nothing from granted claims.
        over = allocated > max(status.get("limit", 0), self._allocated.get(bucket, 0))
        if over and self.grants_are_kept:
            self._break(event, f"bucket {event.after.name} is over its limit: {status}")
        if event.before is not None:  # a lost bucket is recreated, and counts again
            self._allocated[bucket] = allocated
        self.know_limit(project, obj["spec"]["resourceType"], status.get("limit", 0))

    def know_limit(self, project: str, resource_type: str, limit: int) -> None:
        """Record the limit of a bucket, also of those from before the first commit."""
        if resource_type == "compute.datumapis.com/instances":
            self._limits[project] = limit

    def _break(self, event: StoreEvent, what: str) -> None:
        self.broken.append(f"at {event.time}: {what}")


class NoRules(CommitChecker):
    """Checks nothing: for tests that store what breaks the rules by itself."""

    def changed(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None: ...

    def committed(self) -> None: ...
