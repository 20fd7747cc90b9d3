"""Which changes of an object request a reconcile.

A predicate is given the old and the new state; None means "did not exist" and "is
deleted". It runs before anything is mapped.
"""

from __future__ import annotations

from collections.abc import Callable

from datum_compute.api.meta import Object

Predicate = Callable[[Object | None, Object | None], bool]


def metadata_or_spec_changed(old: Object | None, new: Object | None) -> bool:
    """Anything but the status: for the kind whose status the controller writes itself, so that
    its own report does not trigger it."""
    if old is None or new is None:
        return True
    return content_changed(old, new) or old.metadata.finalizers != new.metadata.finalizers


def content_changed(old: Object | None, new: Object | None) -> bool:
    """Anything but status and finalizers: spec, data, labels, annotations, owners, deletion."""
    if old is None or new is None:
        return True
    before, now = old.metadata, new.metadata
    return (
        before.uid != now.uid
        or before.generation != now.generation
        or before.deletion_timestamp != now.deletion_timestamp
        or before.labels != now.labels
        or before.annotations != now.annotations
        or before.owner_references != now.owner_references
        # Kinds with data have no generation.
        or bytes(old.data) != bytes(new.data)
        or _other_parts(old) != _other_parts(new)
    )


def _other_parts(obj: Object) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in obj.extra.items()}


def created(old: Object | None, new: Object | None) -> bool:
    return old is None and new is not None


def deleted(_: Object | None, new: Object | None) -> bool:
    return new is None


def created_or_deleted(old: Object | None, new: Object | None) -> bool:
    return old is None or new is None


def changed(value: Callable[[Object], object]) -> Predicate:
    """Creation, deletion, and every change of a value derived from the object."""

    def differs(old: Object | None, new: Object | None) -> bool:
        return old is None or new is None or value(old) != value(new)

    return differs


def matches(test: Callable[[Object], bool]) -> Predicate:
    """Every change after which the object exists and passes the test."""

    def passes(_: Object | None, new: Object | None) -> bool:
        return new is not None and test(new)

    return passes
