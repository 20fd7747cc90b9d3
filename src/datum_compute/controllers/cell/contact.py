"""Whether a cell is in touch with the hub and with the project behind a namespace.

Told from watches that are kept open anyway: one that is open has an answering plane at its
other end, and one that was interrupted grows old.
"""

from __future__ import annotations

import asyncio

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.controllers.planes import HUB, project_namespace_of
from datum_compute.decisions.connectivity import PlaneReachability, decide_hold
from datum_compute.runtime.cache.cache import Cache, CacheState
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Read
from datum_compute.runtime.fleet import Fleet

LOOK_SECONDS = (1.0, 15.0)
"""How soon, and how seldom at most, somebody held back looks whether it may go on: contact is
made without an event. Most cuts are short, and who has waited long can wait as long again."""


class ContactMonitor:
    """``hub`` None: nothing is federated. ``projects`` None: quota is not enforced."""

    def __init__(
        self, hub: Fleet | None = None, projects: Fleet | None = None, cluster_name: str = ""
    ) -> None:
        self._hub = hub
        self._projects = projects
        self._claims_selector = f"{compute.LABEL_SOURCE_CLUSTER}={cluster_name}"
        self._held_since: dict[str, float] = {}  # by namespace

    def reads(self, cell: Fleet) -> list[Read]:
        """What is watched for it. Any kind would do; these are watched in any case."""
        reads: list[Read] = []
        if self._hub is not None:
            reads.append(Read(self._hub, core.NAMESPACES, required=False))
        if self._projects is not None:
            reads.append(Read(cell, core.NAMESPACES))
            reads.append(
                Read(
                    self._projects,
                    quota.RESOURCE_CLAIMS,
                    label_selector=self._claims_selector,
                    required=False,
                )
            )
        return reads

    def hold_rolls(self, cell: Cluster, namespace: str) -> str:
        """Why nothing of this namespace may be replaced; empty when it may be."""
        hold = decide_hold(hub=self._hub_contact(), project=self._project_contact(cell, namespace))
        if hold:
            self._held_since.setdefault(namespace, asyncio.get_running_loop().time())
        else:
            self._held_since.pop(namespace, None)
        return hold

    def requeue_after(self, namespace: str) -> float:
        """Seconds until whatever is held back in this namespace looks again."""
        now = asyncio.get_running_loop().time()
        soonest, at_most = LOOK_SECONDS
        return min(at_most, max(soonest, now - self._held_since.get(namespace, now)))

    def _hub_contact(self) -> PlaneReachability:
        if self._hub is None:
            return PlaneReachability.NOT_USED
        hub = self._hub.get(HUB)
        return (
            _contact_by(hub.cache(core.NAMESPACES))
            if hub is not None
            else PlaneReachability.UNREACHABLE
        )

    def _project_contact(self, cell: Cluster, namespace: str) -> PlaneReachability:
        if self._projects is None:
            return PlaneReachability.NOT_USED
        tenant = project_namespace_of(cell, namespace)
        if tenant is None:
            return PlaneReachability.UNKNOWN
        plane = self._projects.get(tenant.project)
        if plane is None:
            return PlaneReachability.UNREACHABLE
        return _contact_by(plane.cache(quota.RESOURCE_CLAIMS, label_selector=self._claims_selector))


def _contact_by(cache: Cache) -> PlaneReachability:
    if cache.state is CacheState.CURRENT:
        return PlaneReachability.ANSWERED
    return PlaneReachability.REFUSED if cache.refused else PlaneReachability.UNREACHABLE
