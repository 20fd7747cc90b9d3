"""The storage engines, and small objects to store in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from datum_compute.apiserver import storage
from datum_compute.apiserver.storage.protocol import (
    PlaneStore,
    Store,
    StoredObject,
    StoreEvent,
    Table,
)
from datum_compute.env import Environment

OpenStore = Callable[[Environment, str], Store]
"""Opens the store at a path, created if it is not there."""

ENGINES: Mapping[str, OpenStore] = {
    name: partial(storage.open_store, name) for name in storage.ENGINES
}
"""Every engine passes ``tests/conformance/storage``."""

THINGS = "things"


class Crash(BaseException):
    """A process that ends in the middle of something."""


def crash() -> None:
    raise Crash


class Recorder:
    """A sink that keeps what it was offered, and what it was offered before the commit."""

    def __init__(self, plane: PlaneStore, table: Table) -> None:
        self.events: list[StoreEvent] = []
        self.early: list[StoreEvent] = []
        self.ended = False
        self._plane = plane
        self._table = table
        table.add_sink(self)

    def offer(self, event: StoreEvent, shared: dict[Any, bytes]) -> None:
        self.events.append(event)
        if event.revision > self._plane.committed:
            self.early.append(event)

    def end(self) -> None:
        self.ended = True
        self._table.remove_sink(self)


def thing(name: str, *, size: int = 0, uid: str = "", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", **metadata},
        "size": size,
    }


def put(plane: PlaneStore, name: str, size: int = 0, **metadata: Any) -> StoredObject:
    before = plane.get((THINGS, "ns", name))
    return plane.put(THINGS, thing(name, size=size, **metadata), before)


def remove(plane: PlaneStore, name: str) -> StoredObject:
    before = plane.get((THINGS, "ns", name))
    assert before is not None
    return plane.remove(THINGS, thing(name), before)


def contents(plane: PlaneStore) -> dict[str, bytes]:
    return {row.name: plane.value(row) for row in plane.table(THINGS).in_order(None)}
