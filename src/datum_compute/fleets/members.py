"""The member clusters of a hub, found through its Karmada Cluster objects.

A member is engaged when it first reports Ready, under the name of its Cluster, and stays
engaged until that object is gone: a cell that is out of reach keeps what is known of it. A
Cluster that was deleted and made again is another one, and is engaged anew.

The hub is read through the fleet that others use too, so its Clusters are watched once. When
the hub itself goes and comes back, its members stay as they are until it has been listed.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from datum_compute.api import conditions, karmada
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.fleets.engagement import ChangedNames, sync_engagements
from datum_compute.log import get_logger
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import TaskGroup

logger = get_logger(__name__)


class MemberFleet(Fleet):
    def __init__(
        self,
        name: str,
        hub: Fleet,
        client_for: Callable[[str], Client],
        env: Environment,
    ) -> None:
        super().__init__(name, env)
        self.sources = (hub,)
        self._hub = hub
        self._client_for = client_for

    async def discover(self, tasks: TaskGroup) -> None:
        changes = ChangedNames()
        members = _Members(changes, self)
        unlisten = self._hub.listen(members.hub_engaged, members.hub_disengaged)
        try:
            await self._wait_known()
            await sync_engagements(self, changes, members.wanted, self._client_for)
        finally:
            unlisten()
            members.stop()

    async def _wait_known(self) -> None:
        await self._hub.wait_discovered()
        while unsynced := [c for c in map(_cache, self._hub.clusters()) if not c.synced]:
            await unsynced[0].wait_synced()
            # The hub may have been engaged anew while its cache was waited for.
            await self._hub.wait_discovered()


class _Members:
    """What the hub says about its members."""

    def __init__(self, changes: ChangedNames, fleet: Fleet) -> None:
        self._changes = changes
        self._fleet = fleet
        self._caches: dict[str, Cache] = {}
        self._unsubscribe: dict[str, Callable[[], object]] = {}

    def hub_engaged(self, hub: Cluster) -> None:
        cache = self._caches[hub.name] = _cache(hub)
        self._unsubscribe[hub.name] = cache.subscribe(self._changed)
        # A new cache does not tell of those it has never known.
        cache.when_synced(self._reconsider)

    def hub_disengaged(self, hub: Cluster) -> None:
        self._unsubscribe.pop(hub.name)()
        del self._caches[hub.name]

    def stop(self) -> None:
        for unsubscribe in self._unsubscribe.values():
            unsubscribe()

    def wanted(self, name: str, engaged_uid: str) -> str:
        for cache in self._caches.values():
            member = cache.get(name)
            if member is not None:
                uid = member.metadata.uid
                return uid if uid == engaged_uid or _is_ready(member) else ""
        is_known = bool(self._caches) and all(cache.synced for cache in self._caches.values())
        return "" if is_known else engaged_uid

    def _changed(self, old: Object | None, new: Object | None) -> None:
        member = new or old
        if member is not None:
            self._changes.note(member.name)

    def _reconsider(self) -> None:
        for cluster in self._fleet.clusters():
            self._changes.note(cluster.name)


def _cache(hub: Cluster) -> Cache:
    return hub.cache(karmada.CLUSTERS)


def _is_ready(member: Object) -> bool:
    try:
        status = member.view(karmada.Cluster).status
    except msgspec.ValidationError as error:
        logger.warning("member cluster not understood", member=member.name, reason=str(error))
        return False
    return conditions.is_true(status.conditions, karmada.CONDITION_READY)
