"""Reconciles of one object, where a missing object means that nothing is to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result

ObjectReconcile = Callable[[Cluster, Object], Awaitable[Result | None]]


def for_object(
    fleet: Fleet, resource: Resource, reconcile: ObjectReconcile, *, deleting: bool = False
) -> Callable[[Request], Awaitable[Result | None]]:
    """A reconcile that is given the engaged cluster and the cached object of its request.

    It is not called while the cluster is not engaged or the object does not exist, nor, unless
    ``deleting``, for an object that is being deleted.
    """

    async def reconcile_request(request: Request) -> Result | None:
        cluster = fleet.get(request.cluster)
        if cluster is None:
            return DONE
        obj = cluster.cache(resource).get(request.name, request.namespace)
        if obj is None or (obj.metadata.deleting and not deleting):
            return DONE
        return await reconcile(cluster, obj)

    return reconcile_request
