"""Whether a cell can reach the hub and the project behind a namespace.

A plane counts as reachable while a watch on it is open. No request is made for this: the cell
has these watches open for other reasons.
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

RETRY_SECONDS = (1.0, 10.0)
"""The shortest and longest delay between two checks of a held roll, since no event follows
when contact returns. Most partitions are short, so the delay grows with the time held."""


class ContactMonitor:
    """``hub`` is None where nothing is federated, ``projects`` where quota is not enforced."""

    def __init__(
        self, hub: Fleet | None = None, projects: Fleet | None = None, cluster_name: str = ""
    ) -> None:
        self._hub = hub
        self._projects = projects
        self._claims_selector = f"{compute.LABEL_SOURCE_CLUSTER}={cluster_name}"
        self._held_since: dict[str, float] = {}  # by namespace

    @property
    def quota_enforced(self) -> bool:
        return self._projects is not None

    def reads(self, cell: Fleet) -> list[Read]:
        """The caches whose watches it checks."""
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
        """Why Instances of this namespace may not be replaced; empty when they may."""
        hold = decide_hold(
            hub=self._hub_reachability(), project=self._project_reachability(cell, namespace)
        )
        if hold:
            self._held_since.setdefault(namespace, asyncio.get_running_loop().time())
        else:
            self._held_since.pop(namespace, None)
        return hold

    def requeue_after(self, namespace: str) -> float:
        """Seconds until a held roll of this namespace is checked again."""
        now = asyncio.get_running_loop().time()
        shortest, longest = RETRY_SECONDS
        return min(longest, max(shortest, now - self._held_since.get(namespace, now)))

    def _hub_reachability(self) -> PlaneReachability:
        if self._hub is None:
            return PlaneReachability.NOT_USED
        hub = self._hub.get(HUB)
        return (
            _reachability_by(hub.cache(core.NAMESPACES))
            if hub is not None
            else PlaneReachability.UNREACHABLE
        )

    def _project_reachability(self, cell: Cluster, namespace: str) -> PlaneReachability:
        if self._projects is None:
            return PlaneReachability.NOT_USED
        project_namespace = project_namespace_of(cell, namespace)
        if project_namespace is None:
            return PlaneReachability.UNKNOWN
        plane = self._projects.get(project_namespace.project)
        if plane is None:
            return PlaneReachability.UNREACHABLE
        return _reachability_by(
            plane.cache(quota.RESOURCE_CLAIMS, label_selector=self._claims_selector)
        )


def _reachability_by(cache: Cache) -> PlaneReachability:
    if cache.state is CacheState.CURRENT:
        return PlaneReachability.ANSWERED
    return PlaneReachability.REFUSED if cache.refused else PlaneReachability.UNREACHABLE
