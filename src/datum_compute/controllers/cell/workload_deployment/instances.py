"""Carries out the plan for a deployment's Instances: creates, deletes and labels them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, owner_reference
from datum_compute.api.references import LocationReference
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.decisions.instances import plan
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_or_wait
from datum_compute.runtime.writes.patch import values

INSTANCES_BY_DEPLOYMENT = "workload-deployment-uid"


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


def controller_labels(deployment: Object) -> Callable[[int], dict[str, str]]:
    """The labels by which the Instance of an ordinal is found on every plane."""
    spec = deployment.view(compute.WorkloadDeployment).spec
    shared = {
        compute.LABEL_WORKLOAD_UID: spec.workload_ref.uid,
        compute.LABEL_WORKLOAD_DEPLOYMENT_UID: deployment.metadata.uid,
        compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: deployment.name,
        compute.LABEL_CITY_CODE: spec.city_code,
        compute.LABEL_WORKLOAD_NAME: spec.workload_ref.name,
        compute.LABEL_PLACEMENT_NAME: spec.placement_name,
    }
    return lambda ordinal: {**shared, compute.LABEL_INSTANCE_INDEX: str(ordinal)}


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
            "annotations": dict(metadata.get("annotations") or {}),
            # Both from the start: an Instance without them could be deleted without cleanup.
            "finalizers": [compute.FINALIZER_INSTANCE, compute.FINALIZER_QUOTA_CLAIM],
            "ownerReferences": [owner_reference(deployment, controller=True)],
        },
        "spec": spec,
    }


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


async def _create(cell: Cluster, parameters: InstanceParameters, action: plan.Create) -> None:
    body = build_instance(parameters, action.ordinal, action.name)
    namespace = parameters.deployment.namespace
    await create_or_wait(cell.client, compute.INSTANCES, body, namespace)


async def _label(cell: Cluster, namespace: str, action: plan.PatchLabels) -> None:
    labels: Mapping[str, str] = action.labels
    body = {"metadata": {"uid": action.uid, "labels": dict(labels)}}
    try:
        await cell.client.patch(compute.INSTANCES, action.name, merge(body), namespace)
    except errors.NotFound:
        pass
