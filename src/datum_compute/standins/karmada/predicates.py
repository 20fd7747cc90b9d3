"""Which changes of an object matter to whoever does not follow its status."""

from __future__ import annotations

from datum_compute.api.meta import Object


def is_content_changed(old: Object | None, new: Object | None) -> bool:
    """Whether more than the status differs."""
    if old is None or new is None:
        return True
    before, now = old.metadata, new.metadata
    return (
        before.generation != now.generation
        or before.uid != now.uid
        or before.labels != now.labels
        or before.annotations != now.annotations
        or before.owner_references != now.owner_references
        or before.deleting != now.deleting
    )
