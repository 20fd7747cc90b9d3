"""Every field that a process of a platform wrote, and what another writer may do to it.

No list of fields is kept: :class:`WrittenFields` listens to the store and notes which process wrote
each field last. So a field that a controller begins to write is tampered with by itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from datum_compute.api import core
from datum_compute.api.kinds import KINDS
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.client import errors
from datum_compute.client.protocol import Client, json_patch
from datum_compute.testing.expectations import eventually
from tests.support.simulation.commit_checker import NoRules
from tests.support.simulation.writers import current_writer

Wire = dict[str, Any]
Path = tuple[str, ...]
"""Keys from the object inwards; an item of a list by its type or name, or else by its position."""

RESOURCES = {each.resource.group_resource: each.resource for each in KINDS} | {
    core.NAMESPACES.group_resource: core.NAMESPACES
}
"""The kinds whose fields are state. Events are records, and Leases are renewed for ever."""

RESTORED_SECONDS = 15.0
RECREATED_SECONDS = 120.0
"""How long a field may stay changed, and how long it may take until all runs again after an object
was deleted."""
COPIED_SECONDS = 1.0
"""How long a change may take to the copies on other planes."""

_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_ITEM_KEYS = ("type", "name")
_MOVING = ("lastTransitionTime", "observedGeneration")
"""Fields that have another value when their writer restores what is beside them."""


class Place(NamedTuple):
    plane: str
    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.plane} {self.resource.plural} {self.name}"


class WrittenFields(NoRules):
    """Which process wrote each field of the objects in a store, and which created the object."""

    def __init__(self) -> None:
        super().__init__()
        self.writers: dict[Place, dict[Path, str]] = {}
        self.creators: dict[Place, str] = {}
        self._known: dict[Place, dict[Path, Any]] = {}

    def changed(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        resource = RESOURCES.get(table.resource)
        if resource is None:
            return
        place = Place(plane.name, resource, event.after.namespace, event.after.name)
        if event.deleted or event.before is None:
            for kept in (self.writers, self.creators, self._known):
                kept.pop(place, None)
        if event.deleted:
            return
        writer = current_writer()
        self.creators.setdefault(place, writer)
        found = leaves(msgspec.json.decode(event.after.raw))
        before, writers = self._known.get(place, {}), self.writers.get(place, {})
        self.writers[place] = {
            path: writer if path not in before or before[path] != value else writers[path]
            for path, value in found.items()
        }
        self._known[place] = found

    def owned_by(self, prefixes: tuple[str, ...]) -> dict[Place, list[Path]]:
        """The fields whose last writer is a process of one of these prefixes."""
        owned = {
            place: [path for path, writer in writers.items() if writer.startswith(prefixes)]
            for place, writers in sorted(self.writers.items(), key=str)
        }
        return {place: paths for place, paths in owned.items() if paths}


def leaves(obj: Wire) -> dict[Path, Any]:
    """The fields of an object that are state, without those that the server sets."""
    metadata = {key: obj["metadata"][key] for key in _METADATA if key in obj["metadata"]}
    parts = {key: obj[key] for key in ("spec", "status", "data") if key in obj}
    return dict(_leaves({"metadata": metadata, **parts}, ()))


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    inner = _items(value)
    if not inner:
        yield path, value
    for key, each in inner:
        yield from _leaves(each, (*path, key))


def _items(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return [(key, value[at]) for at, key in enumerate(_keys(value))]


def _keys(value: Any) -> list[str]:
    """The keys of the items of a list."""
    return [_item_key(item, at) for at, item in enumerate(value if isinstance(value, list) else ())]


def _item_key(item: Any, position: int) -> str:
    if isinstance(item, str):
        return item
    named = [item[key] for key in _ITEM_KEYS if key in item] if isinstance(item, dict) else []
    return str(named[0]) if named else str(position)


class Tampering(NamedTuple):
    title: str
    operations: list[Wire]
    """A JSON patch; none to delete the object."""
    path: Path = ()

    @property
    def subresource(self) -> str:
        return "status" if self.path[:1] == ("status",) else ""


def tamperings(obj: Wire, owned: Sequence[Path], *, deletes: bool) -> Iterator[Tampering]:
    """Change and remove each of these fields, then remove whole groups of them, then delete."""
    found = leaves(obj)
    owned = [path for path in owned if path in found]  # an empty one may be back as none at all
    for path in owned:
        pointer, title = _pointer(obj, path), ".".join(path)
        if path[:2] != ("metadata", "finalizers"):
            change = {"op": "replace", "path": pointer, "value": _other(found[path])}
            yield Tampering(f"other {title}", [change], path)
        yield Tampering(f"without {title}", [{"op": "remove", "path": pointer}], path)
    for group in sorted({path[:2] if path[0] == "metadata" else path[:1] for path in owned}):
        members = [path for path in owned if path[: len(group)] == group]
        whole = group == ("status",) or group[1:] == ("ownerReferences",)
        removed = [group] if whole else members[::-1]
        operations = [{"op": "remove", "path": _pointer(obj, path)} for path in removed]
        yield Tampering(f"without {'.'.join(group)}", operations, group)
    if deletes:
        yield Tampering("deleted", [])


def _other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if value in ("True", "False"):
        return "False" if value == "True" else "True"
    if isinstance(value, str):
        return f"2001{value[4:]}" if value[:2] == "20" and value.endswith("Z") else f"{value}x"
    return [*value, "x"] if isinstance(value, list) else {"x": "x"}


def _pointer(obj: Wire, path: Path) -> str:
    steps: list[str] = []
    value: Any = obj
    for key in path:
        step: Any = _keys(value).index(key) if isinstance(value, list) else key
        steps.append(str(step).replace("~", "~0").replace("/", "~1"))
        value = value[step]
    return "".join(f"/{step}" for step in steps)


class Left(NamedTuple):
    """A tampering that is deliberately not put back."""

    reason: str
    unreported: Callable[[], Awaitable[str]] | None = None
    """What is missing of the report on it; None where there is none, and it is not tried."""


Settled = Callable[[], Awaitable[str]]
"""What does not match yet on any plane, or an empty text."""


@dataclass
class Outcome:
    restored: Counter[str] = field(default_factory=Counter)
    """Tamperings that were put back, by plane type."""
    refused: Counter[str] = field(default_factory=Counter)
    """Tamperings that the server refused, by plane type."""
    left: Counter[str] = field(default_factory=Counter)
    """Tamperings that are deliberately left, by the reason."""
    faults: list[str] = field(default_factory=list)
    """Tamperings that stayed, and were not reported."""


@dataclass
class Tamperer:
    """Tampers with one field after the other, and notes what becomes of it."""

    client: Callable[[str], Client]
    settled: Settled
    left: Callable[[Place, Tampering], Left | None]
    whole_parts: bool = False
    """Whether to remove only whole parts of objects, and the objects themselves."""
    time_factor: float = 1.0
    """By how much the bounds on time are longer, where time is real."""
    outcome: Outcome = field(default_factory=Outcome)

    async def tamper(self, place: Place, owned: Sequence[Path], *, deletes: bool) -> None:
        planned = tamperings(await self._read(place), owned, deletes=deletes)
        for title in [e.title for e in planned if not self.whole_parts or e.path not in owned]:
            try:
                before = await self._read(place)
            except errors.NotFound:
                self.outcome.faults.append(f"{place}: before {title} it does not exist")
                return
            found = [e for e in tamperings(before, owned, deletes=deletes) if e.title == title]
            if found:
                await self._try(place, owned, before, found[0])
            else:
                self.outcome.faults.append(f"{place}: {title} cannot be tried")
        await self._expect("settled again", self.settled, RECREATED_SECONDS, place)
        # Copies on other planes may be of the object that was there before.
        await asyncio.sleep(COPIED_SECONDS)
        await self._expect("still settled", self.settled, RECREATED_SECONDS, place)

    async def _try(
        self, place: Place, owned: Sequence[Path], before: Wire, change: Tampering
    ) -> None:
        plane = place.plane.partition("/")[0]
        left = self.left(place, change)
        if left is not None and left.unreported is None:
            self.outcome.left[left.reason] += 1
            return
        try:
            await self._carry_out(place, change)
        except errors.Invalid:
            self.outcome.refused[plane] += 1
            return
        if left is not None and left.unreported is not None:
            if await self._expect(change.title, left.unreported, RESTORED_SECONDS, place):
                self.outcome.left[left.reason] += 1
            await self._put_back(place, before, change)
        elif not change.operations:
            if await self._expect(change.title, self.settled, RECREATED_SECONDS, place):
                self.outcome.restored[plane] += 1
        else:
            missing = partial(self._missing, place, owned, before, change)
            if await self._expect(change.title, missing, RESTORED_SECONDS, place):
                self.outcome.restored[plane] += 1
            else:
                await self._put_back(place, before, change)

    async def _expect(self, what: str, missing: Settled, within: float, place: Place) -> bool:
        try:
            await eventually(what, missing, within=within * self.time_factor)
        except AssertionError as error:
            self.outcome.faults.append(f"{place}: {str(error)[:500]}")
            return False
        return True

    async def _put_back(self, place: Place, before: Wire, change: Tampering) -> None:
        """So that the next tampering finds what the first one did."""
        group = change.path[: 2 if change.path[0] == "metadata" else 1]
        value = before
        for key in group:
            value = value[key]
        operations = [{"op": "add", "path": _pointer(before, group), "value": value}]
        with suppress(errors.NotFound):  # it is being created again
            await self._carry_out(place, Tampering("put back", operations, group))
        await asyncio.sleep(RESTORED_SECONDS)

    async def _read(self, place: Place) -> Wire:
        found = await self.client(place.plane).get(place.resource, place.name, place.namespace)
        wire: Wire = msgspec.json.decode(found.to_wire())
        return wire

    async def _carry_out(self, place: Place, change: Tampering) -> None:
        client, (_, resource, namespace, name) = self.client(place.plane), place
        if not change.operations:
            await client.delete(resource, name, namespace)
            return
        body = json_patch(change.operations)
        await client.patch(resource, name, body, namespace, subresource=change.subresource)

    async def _missing(
        self, place: Place, owned: Sequence[Path], before: Wire, change: Tampering
    ) -> str:
        """What is not as it was: of the owned fields, and of a spec anything at all."""
        try:
            found = leaves(await self._read(place))
        except errors.NotFound:
            return "it does not exist"
        was = leaves(before)
        wrong = []
        for path in {*was, *found}:
            old, new = was.get(path) or None, found.get(path) or None
            if path[-1] in _MOVING:
                tampered = path == change.path and new in (None, change.operations[0].get("value"))
                differs = tampered and old is not None
            else:
                differs = old != new and (path in owned or path[0] == "spec")
            if differs:
                wrong.append(f"{'.'.join(path)} is {new!r}, not {old!r}")
        return "; ".join(sorted(wrong))
