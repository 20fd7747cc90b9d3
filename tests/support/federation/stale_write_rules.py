"""What a write that was decided on a stale view must not do.

A create is wrong if what it is made for existed at no time in the view's range; that nothing is
created twice, the server ensures by names. A delete is wrong if the object has been wanted ever
since it exists. A finalizer is released, and a gate opened, only if that is right at present.
No other field is lost, and a copied spec is one that its source had.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client, EventType
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.cache_history import CacheHistory
from tests.support.federation.stage import NAMESPACE

PROJECT, HUB, CELL = "demo", "hub", "single"
"""The clusters, as the controllers name them."""
CITY = "DFW"

Wanted = Callable[[Object | None], bool | None]
"""Given the source of an object as it was at some time: whether it wanted the object. None if
either decision is right."""


class StaleWriteRules:
    def __init__(
        self, history: CacheHistory, clients: Mapping[str, Client], hub_namespace: str
    ) -> None:
        self._history = history
        self._clients = clients
        self._hub_namespace = hub_namespace

    async def faults(
        self, cluster: str, oldest: int, before: Object | None, after: Object | None
    ) -> AsyncIterator[str]:
        """``oldest`` is the number of events that the oldest of the views has seen."""
        if after is None:
            assert before is not None
            since = max(oldest, self._created_at(cluster, before))
            if all(self._wanted(cluster, before, since)):
                yield "deleted, and wanted ever since it exists"
        elif before is None:
            if not any(each is not False for each in self._wanted(cluster, after, oldest)):
                yield "created, and never wanted"
        else:
            for fault in self._lost(cluster, oldest, before, after):
                yield fault
            async for fault in self._released(cluster, before, after):
                yield fault

    # Creates and deletes.

    def _wanted(self, cluster: str, obj: Object, since: int) -> Iterator[bool | None]:
        match cluster, obj.kind:
            case "demo", "WorkloadDeployment":
                owner = obj.metadata.controller()
                assert owner is not None
                source = (PROJECT, compute.WORKLOADS, owner.name, obj.namespace)
                yield from map(_of_workload(obj), self._states(*source, since))
            case "hub", "WorkloadDeployment":
                source = (PROJECT, compute.WORKLOAD_DEPLOYMENTS, obj.name, NAMESPACE)
                yield from map(_unless_deleting, self._states(*source, since))
            case "single", "Instance":
                owner = obj.metadata.controller()
                assert owner is not None
                source = (CELL, compute.WORKLOAD_DEPLOYMENTS, owner.name, obj.namespace)
                yield from map(_of_deployment(obj), self._states(*source, since))
            case "hub", "Instance":
                source = (CELL, compute.INSTANCES, obj.name, obj.namespace)
                yield from map(_of_original(obj), self._states(*source, since))
            case "demo", "Instance":
                source = (HUB, compute.INSTANCES, obj.name, self._hub_namespace)
                yield from map(_of_original(obj), self._states(*source, since))
            case "demo", "ResourceClaim":
                instance = names.instance_of_claim(obj.name)
                source = (CELL, compute.INSTANCES, instance, self._hub_namespace)
                yield from map(_of_instance(obj), self._states(*source, since))
            case _:
                yield None

    def _states(
        self, cluster: str, resource: Resource, name: str, namespace: str, since: int
    ) -> Iterator[Object | None]:
        """The object after ``since`` events and after each event from then on."""
        state: Object | None = None
        for number, each in enumerate(self._history.events):
            if number == since:
                yield state
            found = each.event.object
            if (each.cluster, each.resource) != (cluster, resource):
                continue
            if (found.name, found.namespace) == (name, namespace):
                state = None if each.event.type is EventType.DELETED else found
                if number >= since:
                    yield state
        if since >= len(self._history.events):
            yield state

    def _created_at(self, cluster: str, obj: Object) -> int:
        for number, each in enumerate(self._history.events):
            if each.cluster == cluster and each.event.object.metadata.uid == obj.metadata.uid:
                return number
        return len(self._history.events)

    # Patches.

    def _lost(self, cluster: str, oldest: int, before: Object, after: Object) -> Iterator[str]:
        for part in ("labels", "annotations"):
            if lost := getattr(before.metadata, part).keys() - getattr(after.metadata, part).keys():
                yield f"{part} {sorted(lost)} are lost"
        if set(before.metadata.owner_references) - set(after.metadata.owner_references):
            yield "an owner is lost"
        # On other planes a report is a copy as a whole.
        is_original = cluster == CELL or before.kind == compute.WORKLOADS.kind
        if is_original and (lost := _condition_types(before) - _condition_types(after)):
            yield f"conditions {sorted(lost)} are lost"
        if values(before.spec) != values(after.spec) and not self._is_copied(
            cluster, oldest, after
        ):
            yield "its source never had this spec"

    def _is_copied(self, cluster: str, oldest: int, copy: Object) -> bool:
        part: Callable[[Object], Any] = _spec
        match cluster, copy.kind:
            case "demo", "WorkloadDeployment":
                owner = copy.metadata.controller()
                assert owner is not None
                source = (PROJECT, compute.WORKLOADS, owner.name, copy.namespace)
                part = _template  # the rest is of its placement
            case "hub", "WorkloadDeployment":
                source = (PROJECT, compute.WORKLOAD_DEPLOYMENTS, copy.name, NAMESPACE)
                part = _template  # a copy that drains has no replicas
            case "hub", "Instance":
                source = (CELL, compute.INSTANCES, copy.name, copy.namespace)
            case "demo", "Instance":
                source = (HUB, compute.INSTANCES, copy.name, self._hub_namespace)
            case _:
                return True
        states = self._states(*source, oldest)
        return any(each is not None and part(each) == part(copy) for each in states)

    async def _released(self, cluster: str, before: Object, after: Object) -> AsyncIterator[str]:
        for finalizer in set(before.metadata.finalizers) - set(after.metadata.finalizers):
            if left := await self._left(finalizer, cluster, before):
                yield f"released from {finalizer} while there is {left!r}"
        if cluster == CELL and before.kind == compute.INSTANCES.kind:
            opened = set(before.view(compute.Instance).gates) - set(
                after.view(compute.Instance).gates
            )
            if compute.GATE_QUOTA in opened and not await self._is_granted(before):
                yield "through the Quota gate without a grant"

    async def _left(self, finalizer: str, cluster: str, obj: Object) -> Object | None:
        """An object that the finalizer holds this one for."""
        # The Workload controller and the one of deployments in a cell use the same finalizer.
        match finalizer:
            case compute.FINALIZER_WORKLOAD if cluster == PROJECT:
                label = f"{compute.LABEL_WORKLOAD_UID}={obj.metadata.uid}"
                return await self._first(PROJECT, compute.WORKLOAD_DEPLOYMENTS, label)
            case compute.FINALIZER_FEDERATOR:
                kind = compute.WORKLOAD_DEPLOYMENTS
                return await self._find(HUB, kind, obj.name, self._hub_namespace)
            case compute.FINALIZER_WORKLOAD_DEPLOYMENT:
                label = f"{compute.LABEL_WORKLOAD_DEPLOYMENT_UID}={obj.metadata.uid}"
                return await self._first(CELL, compute.INSTANCES, label)
            case compute.FINALIZER_INSTANCE:
                found = await self._find(HUB, compute.INSTANCES, obj.name, obj.namespace)
                return found if found is not None and _of_original(found)(obj) else None
            case compute.FINALIZER_QUOTA_CLAIM if not await self._has_successor(obj):
                return await self._find(
                    PROJECT, quota.RESOURCE_CLAIMS, names.claim_name(obj.name), NAMESPACE
                )
        return None

    async def _has_successor(self, instance: Object) -> bool:
        """Whether the claim stays, for the next Instance of this ordinal."""
        owner = instance.metadata.controller()
        assert owner is not None
        kind = compute.WORKLOAD_DEPLOYMENTS
        found = await self._find(CELL, kind, owner.name, instance.namespace)
        return _of_deployment(instance)(found) is not False

    async def _is_granted(self, instance: Object) -> bool:
        name = names.claim_name(instance.name)
        claim = await self._find(PROJECT, quota.RESOURCE_CLAIMS, name, NAMESPACE)
        return claim is not None and conditions.is_true(
            claim.view(quota.ResourceClaim).status.conditions, quota.CONDITION_GRANTED
        )

    async def _find(
        self, cluster: str, resource: Resource, name: str, namespace: str
    ) -> Object | None:
        try:
            return await self._clients[cluster].get(resource, name, namespace)
        except errors.NotFound:
            return None

    async def _first(self, cluster: str, resource: Resource, label: str) -> Object | None:
        found = await self._clients[cluster].list(resource, label_selector=label, limit=1)
        return found.items[0] if found.items else None


def _of_workload(deployment: Object) -> Wanted:
    owner = deployment.metadata.controller()
    spec = deployment.view(compute.WorkloadDeployment).spec

    def wanted(workload: Object | None) -> bool | None:
        if workload is None or owner is None or workload.metadata.uid != owner.uid:
            return False
        if workload.metadata.deleting:
            return None
        return any(
            each.name == spec.placement_name and spec.city_code in each.city_codes
            for each in workload.view(compute.Workload).spec.placements
        )

    return wanted


def _of_deployment(instance: Object) -> Wanted:
    owner = instance.metadata.controller()
    ordinal = int(instance.metadata.labels[compute.LABEL_INSTANCE_INDEX])
    revision = instance.view(compute.Instance).template_hash

    def wanted(deployment: Object | None) -> bool | None:
        if deployment is None or owner is None or deployment.metadata.uid != owner.uid:
            return False
        scale = deployment.view(compute.WorkloadDeployment).spec.scale_settings
        if deployment.metadata.deleting or ordinal >= scale.min_replicas:
            return False
        return True if template_hash(_template(deployment)) == revision else None

    return wanted


def _of_original(copy: Object) -> Wanted:
    """Of an Instance in the cell, or of its copy on the hub."""
    key = compute.ANNOTATION_INSTANCE_UID
    shown = copy.metadata.annotations.get(key)

    def wanted(original: Object | None) -> bool | None:
        if original is None:
            return False
        if original.metadata.annotations.get(key, original.metadata.uid) != shown:
            return False
        return None if original.metadata.deleting else True

    return wanted


def _of_instance(claim: Object) -> Wanted:
    granted = conditions.is_true(
        claim.view(quota.ResourceClaim).status.conditions, quota.CONDITION_GRANTED
    )

    def wanted(instance: Object | None) -> bool | None:
        if instance is None:
            return False
        # A claim that is not granted may be replaced by a new one.
        return True if granted and not instance.metadata.deleting else None

    return wanted


def _unless_deleting(source: Object | None) -> bool | None:
    if source is None:
        return False
    return None if source.metadata.deleting else True


def _condition_types(obj: Object) -> set[str]:
    return {each["type"] for each in values(obj.status).get("conditions") or []}


def _spec(obj: Object) -> Any:
    return values(obj.spec)


def _template(obj: Object) -> Any:
    return values(obj.spec).get("template") or {}
