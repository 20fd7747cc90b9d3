"""Who writes what: every change of an object of ours is made by a process that may make it.

A process's transport carries its name to the server (:func:`signed_by`), and the store reports
a change while the request that makes it is carried out; so each change has a writer. Changes by
the server itself, such as garbage collection, have none.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import msgspec

from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.storage.protocol import PlaneStore, Store, StoreEvent, Table
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse
from tests.support.client.intercepted_transport import Rule

USER = "local-admin"
MANAGEMENT = "compute-management"
KARMADA = "standin-propagation"

_writer: ContextVar[str] = ContextVar("writer", default="")

Key = tuple[str, str, str, str]
"""Plane, kind, namespace, name."""

Values = dict[str, Any]

ABSENT: Values = {}

_KINDS = frozenset(
    kind.group_resource
    for kind in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES)
)


def signed_by(process: str) -> Rule:
    """Say whose requests these are."""

    async def carry(request: HttpRequest, forward: Handler) -> HttpResponse:
        token = _writer.set(process)
        try:
            return await forward(request)
        finally:
            _writer.reset(token)

    return Rule(carry)


def current_writer() -> str:
    """The process whose request is carried out; empty for the server itself."""
    return _writer.get()


class WriterChecker:
    """Listens to a store, and checks each change against the object before it."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.judged = 0
        self._known: dict[Key, Values] = {}

    def begin(self, store: Store) -> None:
        """Take the content of a store that was opened as the initial state."""
        self._known = {
            (plane.name, resource, stored.namespace, stored.name): msgspec.json.decode(
                store.value(stored)
            )
            for plane in store.planes.values()
            for resource in sorted(_KINDS)
            for stored in plane.table(resource).in_order(None)
        }

    def changed(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        if table.resource not in _KINDS:
            return
        key = (plane.name, table.resource, event.after.namespace, event.after.name)
        before = self._known.pop(key, ABSENT)
        if event.deleted:
            return
        obj = self._known[key] = msgspec.json.decode(event.after.raw)
        if before is not ABSENT and before["metadata"]["uid"] != event.after.uid:
            before = ABSENT
        if by := _writer.get():
            self.judged += 1
            if problem := _judge(by, key, before, obj):
                self.broken.append(f"at {event.time}: {problem}")


def _judge(by: str, key: Key, before: Values, obj: Values) -> str:
    """What is wrong with this change, or an empty text."""
    if by == USER:
        return ""  # a user may write anything; other tests check that it is corrected
    plane, kind, _, name = key
    keepers = _keepers(plane, kind, obj)
    for part, may in keepers.items():
        was, now = before.get(part) or ABSENT, obj.get(part) or ABSENT
        if was != now and by not in may:
            return f"{by} wrote {part} of {kind} {name} on {plane}"
    if kind == compute.INSTANCES.group_resource and plane.startswith("cell/"):
        return _judge_conditions(by, key, before, obj)
    return ""


def _judge_conditions(by: str, key: Key, before: Values, obj: Values) -> str:
    """In a cell the provider and the Instance controller share a status."""
    if before is ABSENT:
        return ""
    old, new = _conditions(before), _conditions(obj)
    gated = _is_gated(before) or _is_gated(obj)
    for kind in sorted(new):
        provided = kind in (compute.CONDITION_PROGRAMMED, compute.CONDITION_AVAILABLE)
        by_provider = by.startswith("provider-")
        if old.get(kind) != new[kind] and by_provider != provided and not (provided and gated):
            return f"{by} wrote {kind} of {key[3]} on {key[0]}"
    return ""


def _keepers(plane: str, kind: str, obj: Values) -> dict[str, set[str]]:
    """Who may write spec and status of a kind on a plane."""
    plane_type, _, cell = plane.partition("/")
    if plane_type == "hub":
        cell = obj["metadata"].get("labels", {}).get(compute.LABEL_SOURCE_CLUSTER, "")
    manager, provider = f"compute-cell-{cell}", f"provider-{cell}"
    spec, status = {
        ("project", "workloads"): ({USER}, {MANAGEMENT}),
        ("project", "workloaddeployments"): ({MANAGEMENT}, {MANAGEMENT}),
        ("project", "instances"): ({MANAGEMENT}, {MANAGEMENT}),
        ("hub", "workloaddeployments"): ({MANAGEMENT}, {KARMADA}),
        ("hub", "instances"): ({manager}, {manager}),
        ("cell", "workloaddeployments"): ({KARMADA}, {manager}),
        ("cell", "instances"): ({manager}, {manager, provider}),
    }[plane_type, kind.partition(".")[0]]
    return {"spec": spec, "status": status}


def _is_gated(obj: Values) -> bool:
    gates = (obj["spec"].get("controller") or {}).get("schedulingGates") or []
    return any(gate["name"] == compute.GATE_QUOTA for gate in gates)


def _conditions(obj: Values) -> dict[str, tuple[str, str]]:
    found = (obj.get("status") or {}).get("conditions") or []
    return {each["type"]: (each["status"], each["reason"]) for each in found}
