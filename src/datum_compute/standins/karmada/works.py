"""Works: one manifest for one member, in the member's execution namespace on the hub.

A Work belongs to a binding (joined by the binding's permanent id, never by ownership) or,
for a namespace, to the hub's Namespace, which owns it.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api import conditions, karmada
from datum_compute.api.meta import Object, owner_reference
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client, merge
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_or_wait
from datum_compute.standins.karmada import names
from datum_compute.standins.karmada.manifest import Origin, build_manifest


async def ensure_work(
    hub_client: Client,
    env: Environment,
    template: Object,
    cluster: str,
    current: Object | None,
    *,
    binding: Object | None = None,
) -> Object:
    """The Work that carries this template to this member, as it is on the hub now.

    Without a binding the template is a Namespace, which then owns the Work. A Work that is
    being deleted is returned as it is: its successor is created when it is gone.
    """
    name = names.work_name(template.kind, template.name, template.namespace)
    namespace = karmada.execution_namespace(cluster)
    if current is not None and current.metadata.deleting:
        return current
    permanent_id = current.metadata.labels.get(karmada.LABEL_WORK_ID, "") if current else ""
    origin = _origin(namespace, name, permanent_id or env.new_uid(), binding)
    manifest = build_manifest(template, origin)
    if current is None:
        return await _create(hub_client, template, origin, manifest, binding)
    preserve = _is_preserved(binding)
    is_preserved = current.view(karmada.Work).spec.preserve_resources_on_deletion
    if _manifest_of(current) == manifest and is_preserved == preserve:
        return current
    spec: dict[str, Any] = {"workload": {"manifests": [manifest]}}
    if is_preserved != preserve:
        spec["preserveResourcesOnDeletion"] = preserve or None
    body = {
        "metadata": {
            "uid": current.metadata.uid,
            "resourceVersion": current.metadata.resource_version,
        },
        "spec": spec,
    }
    return await hub_client.patch(karmada.WORKS, name, merge(body), namespace)


def is_of_binding(work: Object) -> bool:
    return karmada.ANNOTATION_BINDING_NAME in work.metadata.annotations


def build_item(work: Object) -> dict[str, Any] | None:
    """The status of a Work as its binding aggregates it; None before it has one."""
    status = work.view(karmada.Work).status
    applied = conditions.find(status.conditions, karmada.CONDITION_APPLIED)
    if applied is None:
        return None
    item: dict[str, Any] = {
        "clusterName": names.cluster_of(work.namespace),
        "applied": applied.status == conditions.TRUE,
        "health": "Unknown",  # no health script is interpreted
    }
    if applied.status != conditions.TRUE:
        item["appliedMessage"] = applied.message
    if reported := member_status(work):
        item["status"] = reported
    return item


def member_status(work: Object) -> patch.Values:
    """The last reported status of the member's object; empty before there is one."""
    reported = work.view(karmada.Work).status.manifest_statuses[:1]
    return patch.values(reported[0].status) if reported else {}


def customizations_of(hub: Cluster, resource: Resource) -> karmada.Customizations:
    """The scripts that interpret this kind; without any, all of them are None."""
    found = hub.cache(karmada.INTERPRETER_CUSTOMIZATIONS).list()
    for spec in (each.spec for each in views(found, karmada.InterpreterCustomization)):
        if (spec.target.api_version, spec.target.kind) == (resource.api_version, resource.kind):
            return spec.customizations
    return karmada.Customizations()


async def _create(
    hub_client: Client,
    template: Object,
    origin: Origin,
    manifest: dict[str, Any],
    binding: Object | None,
) -> Object:
    metadata: dict[str, Any] = {
        "name": origin.work_name,
        "namespace": origin.work_namespace,
        "labels": {karmada.LABEL_WORK_ID: origin.work_id},
        "finalizers": [karmada.FINALIZER_EXECUTION],
    }
    if binding is None:
        metadata["ownerReferences"] = [owner_reference(template, controller=True)]
    else:
        metadata["labels"][karmada.LABEL_BINDING_ID] = origin.binding_id
        metadata["annotations"] = {
            karmada.ANNOTATION_BINDING_NAMESPACE: origin.binding_namespace,
            karmada.ANNOTATION_BINDING_NAME: origin.binding_name,
        }
    spec: dict[str, Any] = {"workload": {"manifests": [manifest]}}
    if _is_preserved(binding):
        spec["preserveResourcesOnDeletion"] = True
    # An existing Work belongs to a deleted template of the same name and is still being deleted.
    return await create_or_wait(
        hub_client, karmada.WORKS, {"metadata": metadata, "spec": spec}, origin.work_namespace
    )


def _origin(namespace: str, name: str, permanent_id: str, binding: Object | None) -> Origin:
    if binding is None:
        return Origin(namespace, name, permanent_id)
    return Origin(
        namespace,
        name,
        permanent_id,
        binding.namespace,
        binding.name,
        binding.metadata.labels.get(karmada.LABEL_BINDING_ID, ""),
        binding.view(karmada.ResourceBinding).spec.conflict_resolution == "Overwrite",
    )


def _is_preserved(binding: Object | None) -> bool:
    """Whether members keep the object when the template is deleted."""
    if binding is None:
        return False
    return binding.view(karmada.ResourceBinding).spec.preserve_resources_on_deletion


def _manifest_of(work: Object) -> Any:
    manifests = patch.values(work.spec).get("workload", {}).get("manifests", [])
    return manifests[0] if manifests else None
