"""Deletes the hub copy and the claim of an Instance that no longer exists.

They are left when the Instance's finalizers were released while a plane was unreachable, or
removed by hand. A reconcile of the missing Instance finds them in the caches and deletes each as
soon as its plane is reachable, whether or not the other plane is.
"""

from __future__ import annotations

from datum_compute.api.compute import instance_names, names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.controllers.cell.instance.quota import ClaimManager
from datum_compute.controllers.cell.instance.removal import cleanup_outcome, find_deployment
from datum_compute.controllers.cell.instance.write_back import WriteBack
from datum_compute.controllers.planes import project_namespace_of
from datum_compute.decisions.connectivity import Orphans, PlaneReachability, decide_sweep
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.writes import patch


class Sweep:
    def __init__(self, claims: ClaimManager, write_back: WriteBack) -> None:
        self._claims = claims
        self._write_back = write_back

    async def sweep(self, cell: Cluster, hub: Cluster | None, request: Request) -> bool:
        """True when nothing is left, False when a plane is unreachable. Raises when one refuses."""
        name, namespace = request.name, request.namespace
        if not self._orphans(cell, hub, name, namespace):
            return True
        if await find_live(cell.client, compute.INSTANCES, name, namespace):
            return True  # it exists: its own event triggers the next reconcile
        return await self._remove(cell, hub, name, namespace)

    async def _remove(self, cell: Cluster, hub: Cluster | None, name: str, namespace: str) -> bool:
        left = self._orphans(cell, hub, name, namespace)
        outcomes = []
        if left.copy and hub is not None:
            outcomes.append(await cleanup_outcome(self._write_back.clean_up(hub, name, namespace)))
        if left.claim:
            outcomes.append(await cleanup_outcome(self._release_claim(cell, name, namespace)))
        for outcome in outcomes:
            if outcome.refusal is not None:
                raise outcome.refusal
        return all(outcome.contact is PlaneReachability.ANSWERED for outcome in outcomes)

    def _orphans(self, cell: Cluster, hub: Cluster | None, name: str, namespace: str) -> Orphans:
        """The orphans of the Instance, found in the caches."""
        copy = self._write_back.copies_on(hub).get(name, namespace) if hub else None
        _, claim = self._cached_claim(cell, name, namespace)
        return decide_sweep(
            source_cluster=self._claims.cluster_name,
            namespace=namespace,
            copy=copy.metadata.labels if copy else None,
            claim=claim.view(quota.ResourceClaim) if claim else None,
            deployment=find_deployment(cell, instance_names.deployment_of({}, name), namespace),
        )

    def _cached_claim(
        self, cell: Cluster, name: str, namespace: str
    ) -> tuple[Cluster | None, Object | None]:
        """The claim and its project."""
        project_namespace = project_namespace_of(cell, namespace)
        if project_namespace is None:
            # The namespace is no longer in the cell; the claim's label still names it.
            return self._claims.find_claim_for(namespace, names.claim_name(name))
        plane = self._claims.plane_of(project_namespace)
        if plane is None:
            return None, None
        return plane, self._claims.claims_in(plane).get(
            names.claim_name(name), project_namespace.namespace
        )

    async def _release_claim(self, cell: Cluster, name: str, namespace: str) -> PlaneReachability:
        plane, claim = self._cached_claim(cell, name, namespace)
        if plane is not None and claim is not None:
            await patch.delete_if_present(plane.client, quota.RESOURCE_CLAIMS, claim)
        return PlaneReachability.ANSWERED
