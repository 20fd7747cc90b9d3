"""What a controller wants to hear of, and what it wants to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.index import IndexKeys
from datum_compute.runtime.mapping import Map

Predicate = Callable[[Object | None, Object | None], bool]


@dataclass(frozen=True)
class Watch:
    """Changes of a kind on every cluster of a fleet, and which requests follow from one."""

    fleet: Fleet
    resource: Resource
    map: Map
    """Old and new state are both mapped: one that has moved on concerns both owners."""
    label_selector: str = ""
    predicate: Predicate | None = None
    """Given the old and the new state: whether the change matters at all."""
    indexes: Mapping[str, IndexKeys] = field(default_factory=dict)
    required: bool = True
    """Reconciles wait until this is known. False where a far plane may be away."""


@dataclass(frozen=True)
class Read:
    """A cache that reconciles read and that triggers nothing."""

    fleet: Fleet
    resource: Resource
    label_selector: str = ""
    indexes: Mapping[str, IndexKeys] = field(default_factory=dict)
    required: bool = True


Source = Watch | Read
