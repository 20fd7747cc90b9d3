"""Carries out the plan for a deployment's Instances: creates, deletes and labels them."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, owner_reference
from datum_compute.api.references import LocationReference
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.decisions.instances import plan
from datum_compute.decisions.instances.revisions import TEMPLATE_DEFAULTS, without_defaults
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import readable
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_or_wait
from datum_compute.runtime.writes.ownership import ensure_owner
from datum_compute.runtime.writes.patch import values
from datum_compute.runtime.writes.spec_copies import SpecCopies

INSTANCES_BY_DEPLOYMENT = "workload-deployment-uid"

_OWN_FIELDS: Sequence[str] = ("location", "controller")
"""What the spec of an Instance has beside its template's."""
_OWN_ANNOTATIONS = (compute.ANNOTATION_SUSPENDED,)
"""What an Instance never has from its template."""


def deployment_uid_of(instance: Object) -> list[str]:
    """The deployment uids of an Instance, as index keys: of its label and of its owner, so that
    an Instance whose label was removed is found, and labelled again."""
    uids = {instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_UID)}
    owner = instance.metadata.controller()
    if owner is not None and owner.kind == compute.WORKLOAD_DEPLOYMENTS.kind:
        uids.add(owner.uid)
    return sorted(f"{instance.namespace}/{uid}" for uid in uids if uid)


def instances_of(cell: Cluster, deployment: Object) -> list[Object]:
    key = f"{deployment.namespace}/{deployment.metadata.uid}"
    return cell.cache(compute.INSTANCES).by_index(INSTANCES_BY_DEPLOYMENT, key)


def controller_labels(deployment: Object) -> Callable[[int], Mapping[str, str]]:
    """The labels by which the Instance of an ordinal is found on every plane."""
    spec = deployment.view(compute.WorkloadDeployment).spec
    reference = spec.workload_ref
    return _labels_by_ordinal(
        (compute.LABEL_WORKLOAD_UID, reference.uid),
        (compute.LABEL_WORKLOAD_DEPLOYMENT_UID, deployment.metadata.uid),
        (compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, deployment.name),
        (compute.LABEL_CITY_CODE, spec.city_code),
        (compute.LABEL_WORKLOAD_NAME, reference.name),
        (compute.LABEL_PLACEMENT_NAME, spec.placement_name),
    )


@lru_cache(maxsize=256)  # every reconcile compares the labels of all Instances
def _labels_by_ordinal(*shared: tuple[str, str]) -> Callable[[int], Mapping[str, str]]:
    @lru_cache(maxsize=1024)
    def labels(ordinal: int) -> Mapping[str, str]:
        return MappingProxyType({**dict(shared), compute.LABEL_INSTANCE_INDEX: str(ordinal)})

    return labels


@dataclass(frozen=True, slots=True)
class InstanceParameters:
    """What all Instances created in one reconcile have in common."""

    deployment: Object
    template_hash: str
    location: LocationReference | None
    gates: tuple[str, ...]


def build_instance(parameters: InstanceParameters, ordinal: int, name: str) -> dict[str, Any]:
    deployment = parameters.deployment
    template = values(deployment.spec).get("template") or {}
    metadata = template.get("metadata") or {}
    spec: dict[str, Any] = dict(template.get("spec") or {})
    if parameters.location is not None:
        spec["location"] = {
            "name": parameters.location.name,
            "namespace": parameters.location.namespace,
        }
    spec["controller"] = {
        "templateHash": parameters.template_hash,
        "schedulingGates": [{"name": gate} for gate in parameters.gates],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": deployment.namespace,
            "labels": {**(metadata.get("labels") or {}), **controller_labels(deployment)(ordinal)},
            "annotations": _without(metadata.get("annotations"), _OWN_ANNOTATIONS),
            # Both from the start: an Instance without them could be deleted without cleanup.
            "finalizers": [compute.FINALIZER_INSTANCE, compute.FINALIZER_QUOTA_CLAIM],
            "ownerReferences": [owner_reference(deployment, controller=True)],
        },
        "spec": spec,
    }


def content_of(instance: Object) -> str:
    """What an Instance has of its template's spec, without defaults, as text to compare."""
    return _content(bytes(instance.spec))


@lru_cache(maxsize=4096)  # the Instances of a deployment have the same spec
def _content(spec: bytes) -> str:
    found = json.loads(spec or b"{}")
    return _canonical(found if isinstance(found, dict) else {})


@lru_cache(maxsize=256)
def _template_content(deployment_spec: bytes) -> str:
    template = (json.loads(deployment_spec or b"{}") or {}).get("template") or {}
    return _canonical(template.get("spec") or {})


def _canonical(spec: Mapping[str, Any]) -> str:
    content = {key: value for key, value in spec.items() if key not in _OWN_FIELDS}
    return json.dumps(without_defaults({"spec": content}, TEMPLATE_DEFAULTS), sort_keys=True)


class InstanceRestorer:
    """Puts back what another writer changed of Instances that no roll will replace: the owner,
    and of those of the newest template also its spec, labels and annotations. One that cannot be
    read is written again from the template: no provider could run it or stop it."""

    def __init__(self) -> None:
        self._copies = SpecCopies()
        self._intact: dict[str, tuple[tuple[str, ...], dict[str, Object]]] = {}
        """By deployment: its revision, and the Instances found intact for it by name; most
        reconciles look at one changed Instance."""

    async def ensure(
        self, cell: Cluster, parameters: InstanceParameters, found: Sequence[Object]
    ) -> tuple[list[Object], errors.ClientError | None]:
        """The Instances as stored, without those that still cannot be read, and why one of them
        could not be restored, which keeps none of the others from it."""
        deployment = parameters.deployment
        revision = (parameters.template_hash, str(deployment.metadata.generation))
        known_revision, known = self._intact.get(deployment.metadata.uid, ((), {}))
        if known_revision != revision:
            known = {}
        stored: list[Object] = []
        intact: dict[str, Object] = {}
        failure: errors.ClientError | None = None
        for instance in found:
            name = instance.metadata.name
            # A cache keeps the very object until another version comes.
            if known.get(name) is not instance:
                try:
                    instance = await self._restore(cell, parameters, instance)
                except errors.ClientError as error:
                    failure = failure or error
                    stored += readable((instance,), compute.Instance)
                    continue
                if not readable((instance,), compute.Instance):
                    continue
            intact[name] = instance
            stored.append(instance)
        self._intact[deployment.metadata.uid] = revision, intact
        return stored, failure

    def forget(self, deployment: Object) -> None:
        self._intact.pop(deployment.metadata.uid, None)

    async def _restore(
        self, cell: Cluster, parameters: InstanceParameters, instance: Object
    ) -> Object:
        broken = not readable((instance,), compute.Instance)
        if instance.metadata.deleting and not broken:
            return instance
        deployment = parameters.deployment
        try:
            instance = await ensure_owner(
                cell.client, compute.INSTANCES, instance, deployment, controller=True
            )
            if not broken and instance.view(compute.Instance).template_hash != (
                parameters.template_hash
            ):
                return instance  # a roll replaces it
            wanted = build_instance(parameters, 0, instance.name)
            change: Mapping[str, Any] = {}
            present = {} if broken else values(instance.spec)
            # One created before its location was known stays without.
            moved = present.get("location") not in (None, wanted["spec"].get("location"))
            if broken or moved or content_of(instance) != _template_content(bytes(deployment.spec)):
                kept = _OWN_FIELDS if parameters.location is None else ("controller",)
                wanted["spec"] |= {key: present[key] for key in kept if key in present}
                change = self._copies.due_patch(instance, wanted["spec"])
            template = values(deployment.spec).get("template") or {}
            metadata = template.get("metadata") or {}
            written = await patch.ensure_metadata(
                cell.client,
                compute.INSTANCES,
                instance,
                labels=_without(metadata.get("labels"), controller_labels(deployment)(0)),
                annotations=_without(metadata.get("annotations"), _OWN_ANNOTATIONS),
                spec=change,
            )
            if change:
                self._copies.record_write(written, wanted["spec"])
            return written
        except errors.NotFound:
            return instance


def _without(entries: Mapping[str, str] | None, others: Container[str]) -> dict[str, str]:
    return {key: value for key, value in (entries or {}).items() if key not in others}


async def apply_actions(
    cell: Cluster,
    env: Environment,
    parameters: InstanceParameters,
    actions: Sequence[plan.Action],
) -> None:
    """Carry out the actions in order, up to the first failure; the next reconcile decides again."""
    namespace = parameters.deployment.namespace
    for action in actions:
        env.fault("workload-deployment.action")
        if isinstance(action, plan.Create):
            await _create(cell, parameters, action)
        elif isinstance(action, plan.Delete):
            await patch.delete_by_uid(
                cell.client, compute.INSTANCES, action.name, namespace, action.uid
            )
        elif isinstance(action, plan.PatchLabels):
            await _label(cell, namespace, action)
        elif isinstance(action, plan.Suspend):
            await _mark(cell, namespace, action, compute.SUSPENDED)
        elif isinstance(action, plan.Resume):
            await _mark(cell, namespace, action, None)


async def _create(cell: Cluster, parameters: InstanceParameters, action: plan.Create) -> None:
    body = build_instance(parameters, action.ordinal, action.name)
    namespace = parameters.deployment.namespace
    await create_or_wait(cell.client, compute.INSTANCES, body, namespace)


async def _mark(
    cell: Cluster, namespace: str, action: plan.Suspend | plan.Resume, mark: str | None
) -> None:
    instance = cell.cache(compute.INSTANCES).get(action.name, namespace)
    if instance is None or instance.metadata.uid != action.uid:
        return  # its successor is marked by the next reconcile
    try:
        await patch.ensure_metadata(
            cell.client,
            compute.INSTANCES,
            instance,
            annotations={compute.ANNOTATION_SUSPENDED: mark},
        )
    except errors.NotFound:
        pass


async def _label(cell: Cluster, namespace: str, action: plan.PatchLabels) -> None:
    labels: Mapping[str, str] = action.labels
    body = {"metadata": {"uid": action.uid, "labels": dict(labels)}}
    try:
        await cell.client.patch(compute.INSTANCES, action.name, merge(body), namespace)
    except errors.NotFound:
        pass
