"""What is left elsewhere of an Instance that is gone: its copy on the hub, its claim.

It was released while a plane was away, or somebody took its finalizers off. A reconcile of an
Instance that is not there looks for exactly that, by what the watches have seen, and each
plane is given its own back as soon as it answers, whether the other does or not.
"""

from __future__ import annotations

from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.controllers.cell.instance.quota import ClaimManager
from datum_compute.controllers.cell.instance.removal import cleanup_outcome, find_deployment
from datum_compute.controllers.cell.instance.write_back import WriteBack
from datum_compute.controllers.planes import project_namespace_of
from datum_compute.decisions.connectivity import Leftovers, PlaneReachability, decide_sweep
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.request import Request
from datum_compute.runtime.writes import patch


class Sweep:
    def __init__(self, desk: ClaimManager, write_back: WriteBack) -> None:
        self._desk = desk
        self._write_back = write_back

    async def sweep(self, cell: Cluster, hub: Cluster | None, request: Request) -> bool:
        """Whether nothing is left; otherwise a plane is away. Raises when one answers no."""
        name, namespace = request.name, request.namespace
        if not self._leftovers(cell, hub, name, namespace):
            return True
        try:
            await cell.client.get(compute.INSTANCES, name, namespace)
        except errors.NotFound:
            return await self._remove(cell, hub, name, namespace)
        return True  # not gone: its own pass is on its way

    async def _remove(self, cell: Cluster, hub: Cluster | None, name: str, namespace: str) -> bool:
        left = self._leftovers(cell, hub, name, namespace)
        outcomes = []
        if left.copy and hub is not None:
            outcomes.append(await cleanup_outcome(self._write_back.clean_up(hub, name, namespace)))
        if left.claim:
            outcomes.append(await cleanup_outcome(self._give_up_claim(cell, name, namespace)))
        for outcome in outcomes:
            if outcome.refusal is not None:
                raise outcome.refusal
        return all(outcome.contact is PlaneReachability.ANSWERED for outcome in outcomes)

    def _leftovers(
        self, cell: Cluster, hub: Cluster | None, name: str, namespace: str
    ) -> Leftovers:
        """By what the caches have seen."""
        copy = self._write_back.copies_on(hub).get(name, namespace) if hub else None
        _, claim = self._cached_claim(cell, name, namespace)
        deployment_name, _, _ = name.rpartition("-")
        return decide_sweep(
            source_cluster=self._desk.cluster_name,
            namespace=namespace,
            copy=copy.metadata.labels if copy else None,
            claim=claim.view(quota.ResourceClaim) if claim else None,
            deployment=find_deployment(cell, deployment_name, namespace),
        )

    def _cached_claim(
        self, cell: Cluster, name: str, namespace: str
    ) -> tuple[Cluster | None, Object | None]:
        """With the project it lies in."""
        tenant = project_namespace_of(cell, namespace)
        if tenant is None:
            # The namespace has left the cell, but a claim names it.
            return self._desk.find_claim_for(namespace, names.claim_name(name))
        plane = self._desk.plane_of(tenant)
        if plane is None:
            return None, None
        return plane, self._desk.claims_in(plane).get(names.claim_name(name), tenant.namespace)

    async def _give_up_claim(self, cell: Cluster, name: str, namespace: str) -> PlaneReachability:
        plane, claim = self._cached_claim(cell, name, namespace)
        if plane is not None and claim is not None:
            await patch.delete_if_present(plane.client, quota.RESOURCE_CLAIMS, claim)
        return PlaneReachability.ANSWERED
