"""What a controller wants to hear of, and what it wants to read.

====================================  ==================================================
``Watch.each(fleet, resource)``       a change asks for the object itself (``For``)
``Watch.owned(fleet, resource, by)``  a change asks for the owner that manages the object,
                                      on the same cluster (``Owns``)
``Watch(fleet, resource, map)``       a change asks for whatever ``map`` says, on whichever
                                      cluster it names (``Watches``)
``Read(fleet, resource)``             a change asks for nothing; reconciles read the cache
====================================  ==================================================

A change is dropped as early as can be: by ``label_selector`` on the server, before it is
sent; by ``predicate`` before it is mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from datum_compute.api.scheme import Resource
from datum_compute.runtime.cache.index import IndexKeys
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.watches.mapping import Map, controller_owner, itself
from datum_compute.runtime.watches.predicates import Predicate


class WatchOptions(TypedDict, total=False):
    """What every watch may be told; see :class:`Watch`."""

    label_selector: str
    predicate: Predicate | None
    indexes: Mapping[str, IndexKeys]
    required: bool
    own_writes: bool


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
    own_writes: bool = True
    """Whether changes that the controller made itself ask for a run. False where a reconcile
    writes only what maps to its own request, at the revision it has read, and goes on with
    what the server answered."""

    @classmethod
    def each(cls, fleet: Fleet, resource: Resource, **options: Unpack[WatchOptions]) -> Watch:
        """A change of an object asks for that object."""
        return cls(fleet, resource, itself, **options)

    @classmethod
    def owned(
        cls, fleet: Fleet, resource: Resource, by: Resource, **options: Unpack[WatchOptions]
    ) -> Watch:
        """A change of an object asks for the owner of kind ``by`` that manages it."""
        owner = controller_owner(by.kind, group=by.group, namespaced=by.namespaced)
        return cls(fleet, resource, owner, **options)


@dataclass(frozen=True)
class Read:
    """A cache that reconciles read and that triggers nothing."""

    fleet: Fleet
    resource: Resource
    label_selector: str = ""
    indexes: Mapping[str, IndexKeys] = field(default_factory=dict)
    required: bool = True


Source = Watch | Read
