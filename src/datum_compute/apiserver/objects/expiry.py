"""Events expire: an Event is deleted an hour after it was last written.

They are kept in the order in which they were written, so the expired ones come first. The time is
not stored: after a restart all are kept for another hour.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from datum_compute.apiserver.kinds.builtin_rules import EVENTS
from datum_compute.apiserver.objects.lifecycle import DeleteOptions
from datum_compute.apiserver.objects.planes import PlaneRegistry
from datum_compute.apiserver.storage.protocol import PlaneStore, Store, StoreEvent, Table
from datum_compute.env import Environment

LIFETIME = timedelta(hours=1)
"""As in Kubernetes."""
SLICE = 1000
"""Deleted in one go. A guess: requests wait for some ten milliseconds at most."""


class EventExpiry:
    """Events of all planes, in the order in which they were last written."""

    def __init__(self, env: Environment, store: Store, planes: PlaneRegistry) -> None:
        self._env = env
        self._planes = planes
        self._written: dict[tuple[str, str, str], datetime] = {}
        store.subscribe(self._on_change)

    def scan(self) -> None:
        """Register the Events that are already stored."""
        now = self._env.now()
        for plane in self._planes.all():
            for stored in plane.store.table(EVENTS).in_order(None):
                self._written.setdefault((plane.store.name, stored.namespace, stored.name), now)

    def expire(self) -> bool:
        """Delete one slice of expired Events. Returns whether there may be more."""
        before = self._env.now() - LIFETIME
        for _ in range(SLICE):
            key = next(iter(self._written), None)
            if key is None or self._written[key] > before:
                return False
            del self._written[key]
            self._delete(*key)
        return True

    def _delete(self, plane_name: str, namespace: str, name: str) -> None:
        plane = self._planes.get(plane_name)
        stored = plane.store.get((EVENTS, namespace, name)) if plane is not None else None
        kind = plane.registry.any_version(EVENTS) if plane is not None else None
        if plane is not None and stored is not None and kind is not None:
            plane.writer.delete(kind, stored, DeleteOptions("Background", uid=stored.uid))

    def _on_change(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        if table.resource != EVENTS:
            return
        key = (plane.name, event.after.namespace, event.after.name)
        self._written.pop(key, None)
        if not event.deleted:
            self._written[key] = self._env.now()
