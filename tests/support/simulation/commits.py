"""All planes as last committed, and every change of them, for the rules.

A rule sees each change in the order of the log, with the planes at that time. A write decided
on a view that was true within the grace is no fault: so a rule asks for the values within the
grace (:class:`Timeline`), or for the age of an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from datum_compute.apiserver.storage.protocol import PlaneStore, Store, StoreEvent, Table

Values = dict[str, Any]
T = TypeVar("T")

KINDS = frozenset(
    {
        "allowancebuckets",
        "clusters",
        "configmaps",
        "instances",
        "namespaces",
        "propagationpolicies",
        "resourcebindings",
        "resourceclaims",
        "secrets",
        "subnets",
        "workloaddeployments",
        "workloads",
        "works",
    }
)
"""Plurals of the kinds that are kept."""


@dataclass(frozen=True)
class Change:
    plane: str
    kind: str
    namespace: str
    name: str
    time: int
    old: Values | None
    """None when it was created."""
    new: Values | None
    """None when it is gone."""

    @property
    def obj(self) -> Values:
        """As it is, or as it was last."""
        obj = self.new if self.new is not None else self.old
        assert obj is not None
        return obj

    @property
    def is_in_cell(self) -> bool:
        return self.plane.startswith("cell/")

    @property
    def is_end(self) -> bool:
        """Whether this change deletes the object, or marks it for deletion."""
        if self.old is None or is_deleting(self.old):
            return False
        return self.new is None or is_deleting(self.new)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name} on {self.plane}"


def is_deleting(obj: Values) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def labels_of(obj: Values) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Values) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def status_of(obj: Values) -> Values:
    return obj.get("status") or {}


def is_true(obj: Values, condition: str) -> bool:
    found = status_of(obj).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in found)


@dataclass
class CommittedPlanes:
    """Objects of :data:`KINDS`, each with the time of its creation."""

    grace: int
    now: int = 0
    _held: dict[tuple[str, str], dict[tuple[str, str], tuple[int, Values]]] = field(
        default_factory=dict
    )

    def take(self, plane: str, kind: str, time: int, obj: Values, *, gone: bool) -> list[Change]:
        """One commit's change of one object; two changes where the object was recreated."""
        self.now = time
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        here = self._held.setdefault((plane, kind), {})
        since, old = here.pop((namespace, name), (time, None))
        changes: list[Change] = []
        if old is not None and old["metadata"]["uid"] != metadata["uid"]:
            changes.append(Change(plane, kind, namespace, name, time, old, None))
            since, old = time, None
        if not gone:
            here[namespace, name] = (since, obj)
        changes.append(Change(plane, kind, namespace, name, time, old, None if gone else obj))
        return changes

    def find(self, plane: str, kind: str, namespace: str, name: str) -> Values | None:
        return self._held.get((plane, kind), {}).get((namespace, name), (0, None))[1]

    def all(self, plane: str, kind: str, namespace: str | None = None) -> Iterator[Values]:
        for (space, _), (_, obj) in self._held.get((plane, kind), {}).items():
            if namespace in (None, space):
                yield obj

    def cells(self) -> list[str]:
        return sorted({plane for plane, _ in self._held if plane.startswith("cell/")})

    def is_old(
        self, plane: str, kind: str, namespace: str, name: str, *, than: int | None = None
    ) -> bool:
        """Whether it exists for longer than the grace, or than ``than``: a decision must
        have taken it into account."""
        since, obj = self._held.get((plane, kind), {}).get((namespace, name), (0, None))
        return obj is not None and since < self.now - (self.grace if than is None else than)

    def is_ending(self, plane: str, namespace: str) -> bool:
        """Whether a namespace is being deleted, or gone."""
        found = self.find(plane, "namespaces", "", namespace)
        return found is None or is_deleting(found)

    def project_of(self, plane: str, namespace: str) -> tuple[str, str]:
        """The project's plane, and its namespace, of a namespace on hub or cell."""
        found = self.find(plane, "namespaces", "", namespace)
        labels = labels_of(found) if found else {}
        cluster = labels.get("meta.datumapis.com/upstream-cluster-name", "")
        project = cluster.rpartition("_")[2].removeprefix("cluster-")
        return f"project/{project}", labels.get("meta.datumapis.com/upstream-namespace", "")

    def hub_namespace(self, plane: str, namespace: str) -> str:
        """The namespace on hub and cells of a project's namespace; "" where unknown."""
        found = self.find(plane, "namespaces", "", namespace)
        return f"ns-{found['metadata']['uid']}" if found else ""


@dataclass
class Timeline(Generic[T]):
    """The values of something over time."""

    steps: list[tuple[int, T]] = field(default_factory=list)

    def set(self, time: int, value: T) -> None:
        if not self.steps or self.steps[-1][1] != value:
            self.steps.append((time, value))

    def within(self, now: int, grace: int) -> list[T]:
        """The current value, and those within the grace, oldest first."""
        until = [time for time, _ in self.steps[1:]] + [now]
        found = zip(self.steps, until, strict=True) if self.steps else ()
        return [value for (_, value), end in found if end >= now - grace]


class RuleSet(Protocol):
    """Rules of one subject, with their state."""

    def check(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        """A description of each rule that this change breaks."""
        ...


@dataclass
class RuleChecker:
    """Receives every change of a store, and checks it when it is committed."""

    rules: list[RuleSet]
    grace: int
    broken: list[str] = field(default_factory=list)
    judged: int = 0
    planes: CommittedPlanes = field(init=False)
    _pending: list[Callable[[], list[Change]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.planes = CommittedPlanes(self.grace)

    def begin(self, store: Store) -> None:
        """Take the content of a store as the initial state."""
        for plane in store.planes.values():
            for table in plane.all_tables():
                kind = table.resource.partition(".")[0]
                for stored in table.in_order(None) if kind in KINDS else ():
                    obj = msgspec.json.decode(store.value(stored))
                    for change in self.planes.take(plane.name, kind, 0, obj, gone=False):
                        self.check(change)

    def forget(self) -> None:
        """After a power cut: drop what was not committed."""
        self._pending.clear()

    def changed(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        kind = table.resource.partition(".")[0]
        if kind in KINDS:
            obj = msgspec.json.decode(event.after.raw)
            take, name, gone, time = self.planes.take, plane.name, event.deleted, event.time
            self._pending.append(lambda: take(name, kind, time, obj, gone=gone))

    def committed(self) -> None:
        pending, self._pending = self._pending, []
        for take in pending:
            for change in take():
                self.check(change)

    def check(self, change: Change) -> None:
        self.judged += 1
        for rules in self.rules:
            self.broken += [
                f"at {change.time}: {text}" for text in rules.check(self.planes, change)
            ]
