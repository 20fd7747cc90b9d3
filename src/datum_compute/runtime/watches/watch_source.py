"""What a controller watches, and what it only reads.

====================================  ==================================================
``Watch.each(fleet, resource)``       a change requests the object itself (``For``)
``Watch.owned(fleet, resource, by)``  a change requests the owner that manages the object,
                                      on the same cluster (``Owns``)
``Watch(fleet, resource, map)``       a change requests what ``map`` returns, on any cluster
                                      (``Watches``)
``Read(fleet, resource)``             a change requests nothing; reconciles read the cache
====================================  ==================================================

A change is dropped as early as can be: by ``label_selector`` on the server, before it is
sent; by ``predicate`` before it is mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.runtime.cache.index import IndexKeys
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.watches.mapping import Map, controller_owner, itself
from datum_compute.runtime.watches.predicates import Predicate

Delay = Callable[[Object | None, Object | None], float]
"""Given the old and the new state: seconds until a change requests a run."""


class WatchOptions(TypedDict, total=False):
    """The options of every watch; see :class:`Watch`."""

    label_selector: str
    predicate: Predicate | None
    indexes: Mapping[str, IndexKeys]
    required: bool
    awaited: bool
    own_writes: bool
    delay: Delay | None


@dataclass(frozen=True)
class Watch:
    """Changes of a kind on every cluster of a fleet, and which requests follow from one."""

    fleet: Fleet
    resource: Resource
    map: Map
    """Old and new state are both mapped: an object that changed owners concerns both."""
    label_selector: str = ""
    predicate: Predicate | None = None
    """Given the old and the new state: whether the change matters at all."""
    indexes: Mapping[str, IndexKeys] = field(default_factory=dict)
    required: bool = True
    """Reconciles wait until this cache is synced. False where the plane may be unreachable."""
    awaited: bool = True
    """The process is not ready before a required cache is synced. False where one of many planes
    may not serve the kind: reconciles for that plane wait, and it is named where readiness is
    reported, but the process is ready for all others."""
    own_writes: bool = True
    """Whether the controller's own changes request a run. False where a reconcile writes only
    what maps to its own request, at the revision it has read, and continues with the server's
    answer."""
    delay: Delay | None = None
    """For changes that are worth no run of their own because others are about to follow: each run
    sees all changes until then. None where every change requests a run at once."""

    @classmethod
    def each(cls, fleet: Fleet, resource: Resource, **options: Unpack[WatchOptions]) -> Watch:
        """A change of an object requests that object."""
        return cls(fleet, resource, itself, **options)

    @classmethod
    def owned(
        cls, fleet: Fleet, resource: Resource, by: Resource, **options: Unpack[WatchOptions]
    ) -> Watch:
        """A change of an object requests the owner of kind ``by`` that manages it."""
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
    awaited: bool = True


Source = Watch | Read
