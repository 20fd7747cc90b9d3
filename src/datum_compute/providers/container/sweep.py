"""The look at all that the engine has of a cell, every half minute.

It finds changes whose event was lost, containers and volumes whose Instance was deleted, and
networks whose Subnet was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors as client_errors
from datum_compute.log import get_logger
from datum_compute.providers.container import spec
from datum_compute.providers.container.engine import (
    ContainerEngine,
    EngineRefused,
    EngineUnreachable,
)
from datum_compute.providers.container.networks import EngineNetworks
from datum_compute.providers.container.run import Run
from datum_compute.providers.container.volumes import EngineVolumes
from datum_compute.providers.sandbox import LABEL_NAME, LABEL_NAMESPACE, LABEL_UID
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet

logger = get_logger(__name__)

SWEEP_SECONDS = 30.0


class EngineSweep:
    """``enqueue`` is called with the uid of an Instance that may have changed. ``networks`` is None
    in a cell without networks."""

    def __init__(
        self,
        cell: Fleet,
        engine: Callable[[], ContainerEngine],
        labels: Mapping[str, str],
        networks: EngineNetworks | None,
        volumes: EngineVolumes,
        runs: Mapping[str, Run],
        enqueue: Callable[[str], None],
    ) -> None:
        self._cell = cell
        self._engine = engine
        self._labels = labels
        self._networks = networks
        self._volumes = volumes
        self._runs = runs
        self._enqueue = enqueue
        self._orphans: set[str] = set()
        self._unused_networks: set[tuple[str, str]] = set()

    async def run(self) -> None:
        seen: dict[str, str] = {}
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                seen = await self._look(seen)
            except (EngineUnreachable, EngineRefused, client_errors.ClientError) as error:
                logger.debug("containers not listed", **self._labels, error=str(error))

    async def _look(self, seen: dict[str, str]) -> dict[str, str]:
        """Enqueue the Instances whose containers changed without an event. Returns the state of
        each container, by its id."""
        present: dict[str, str] = {}
        by_uid: dict[str, list[dict[str, Any]]] = {}
        for container in await self._engine().containers(self._labels):
            uid = _labels(container).get(LABEL_UID, "")
            if not uid:
                continue
            by_uid.setdefault(uid, []).append(container)
            identifier, state = str(container["Id"]), str(container.get("State"))
            present[identifier] = state
            if seen.get(identifier, state) == state == "running" or self._is_asleep(uid):
                continue
            self._enqueue(uid)
        for uid, run in list(self._runs.items()):
            if uid not in by_uid and run.available:
                self._enqueue(uid)
        await self._remove_orphans(by_uid)
        if self._networks is not None:
            await self._remove_unused_networks(self._networks)
        await self._dial_available()
        return present

    def _is_asleep(self, uid: str) -> bool:
        """Then it is known why it does not run, and what is wrong shows when it is woken."""
        return (run := self._runs.get(uid)) is not None and run.asleep

    async def _dial_available(self) -> None:
        """Enqueue the available Instances whose port does not accept connections any more."""
        for uid, run in list(self._runs.items()):
            if run.available and run.port and not await run.accepts(run.port):
                self._enqueue(uid)

    async def _remove_orphans(self, by_uid: dict[str, list[dict[str, Any]]]) -> None:
        """What belongs to Instances that do not exist: their finalizer was taken away. Removed
        when the server itself has said so in two looks."""
        cell = next(iter(self._cell.clusters()), None)
        if cell is None:
            return
        listed = [each for found in by_uid.values() for each in found]
        listed += await self._engine().volumes(self._labels)
        owners = {labels.get(LABEL_UID, ""): labels for labels in map(_labels, listed)}
        known = {obj.metadata.uid for obj in cell.cache(compute.INSTANCES).list()}
        missing = {uid for uid in owners if uid not in known and uid not in self._runs}
        for uid in missing & self._orphans:
            labels = owners[uid]
            name = labels.get(LABEL_NAME, "")
            if await _exists(cell, uid, name, labels.get(LABEL_NAMESPACE, "")):
                continue
            try:
                for identifier in spec.removal_order(by_uid.get(uid, ())):
                    await self._engine().remove(identifier)
                await self._volumes.remove(uid, name)
            except EngineRefused as error:  # it must not keep the others
                found = {"instance": name, "uid": uid, "error": str(error)}
                logger.warning("containers of a deleted instance stay", **found)
            else:
                logger.warning("containers of a deleted instance removed", instance=name, uid=uid)
        self._orphans = missing

    def has_subnet(self, namespace: str, name: str) -> bool:
        return any(
            cell.cache(networking.SUBNETS).get(name, namespace) is not None
            for cell in self._cell.clusters()
        )

    async def _remove_unused_networks(self, networks: EngineNetworks) -> None:
        """Those whose Subnet was deleted while no provider ran; one that was just claimed has
        none yet, so it must be missing in two looks."""
        missing = {key for key in await networks.subnets() if not self.has_subnet(*key)}
        for key in missing & self._unused_networks:
            await networks.remove(*key)
        self._unused_networks = missing


def _labels(found: Mapping[str, Any]) -> dict[str, str]:
    return found.get("Labels") or {}


async def _exists(cell: Cluster, uid: str, name: str, namespace: str) -> bool:
    try:
        live = await cell.client.get(compute.INSTANCES, name, namespace)
    except client_errors.NotFound:
        return False
    return live.metadata.uid == uid
