"""Which changes of an object are worth a look."""

from __future__ import annotations

from datum_compute.api.meta import Object


def metadata_or_spec_changed(old: Object | None, new: Object | None) -> bool:
    """Anything but its status: for the kind whose status we write ourselves, so that our
    own report does not wake us."""
    if old is None or new is None:
        return True
    before, now = old.metadata, new.metadata
    return (
        before.uid != now.uid
        or before.generation != now.generation
        or before.deletion_timestamp != now.deletion_timestamp
        or before.labels != now.labels
        or before.annotations != now.annotations
        or before.finalizers != now.finalizers
        or before.owner_references != now.owner_references
    )
