"""A deployment's objects on the hub: its namespace, the policy that routes it, its copy."""

from __future__ import annotations

from typing import Any

from datum_compute.api import core, karmada
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.result import Waiting
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_if_absent
from datum_compute.runtime.writes.spec_copies import SpecCopies, is_subset

COPIED_ANNOTATIONS = (
    compute.ANNOTATION_SUSPENDED,
    compute.ANNOTATION_EXPECTED_REFERENCED_DATA,
    compute.ANNOTATION_REFERENCED_DATA_ERROR,
    compute.ANNOTATION_HTTP_PORT,
)
"""What the hub copy has of the deployment's annotations; what the deployment lacks is removed."""


async def ensure_namespace(hub: Cluster, name: str, project: str, namespace: str) -> None:
    """Ensure the hub namespace of a project's namespace. Karmada copies its labels to cells."""
    labels = _upstream_labels(project, namespace)
    found = hub.cache(core.NAMESPACES).get(name)
    if found is None:
        try:
            await hub.client.create(core.NAMESPACES, {"metadata": {"name": name, "labels": labels}})
            return
        except errors.AlreadyExists:
            # Created meanwhile for another deployment of this namespace.
            found = await hub.client.get(core.NAMESPACES, name)
    if found.metadata.deleting:
        raise Waiting(f"hub namespace {name} is being deleted", 5.0)
    await patch.ensure_metadata(hub.client, core.NAMESPACES, found, labels=labels)


def _upstream_labels(project: str, namespace: str) -> dict[str, str]:
    return {
        compute.LABEL_UPSTREAM_CLUSTER_NAME: names.encode_cluster(project),
        compute.LABEL_UPSTREAM_NAMESPACE: namespace,
    }


async def ensure_policy(hub: Cluster, hub_namespace: str, city: str) -> None:
    """Ensure the policy that routes the deployments of a city to one cell there."""
    name = names.policy_name(city)
    spec = _policy_spec(city, hub_namespace)
    policy = hub.cache(karmada.PROPAGATION_POLICIES).get(name, hub_namespace)
    if policy is None:
        body = {"metadata": {"name": name, "namespace": hub_namespace}, "spec": spec}
        # All deployments of a city create the same policy.
        await create_if_absent(hub.client, karmada.PROPAGATION_POLICIES, body, hub_namespace)
        return
    if policy.metadata.deleting:
        # Karmada holds a finalizer; the deletion triggers the next reconcile.
        raise Waiting(f"policy {name} is being deleted", 5.0)
    if not is_subset(spec, patch.values(policy.spec)):
        # A merge patch: fields that Karmada has added stay.
        await patch.ensure_metadata(hub.client, karmada.PROPAGATION_POLICIES, policy, spec=spec)


def _policy_spec(city: str, hub_namespace: str) -> dict[str, Any]:
    selector = {"matchLabels": {compute.LABEL_TOPOLOGY_CITY_CODE: city}}
    return {
        "resourceSelectors": [
            {
                "apiVersion": compute.WORKLOAD_DEPLOYMENTS.api_version,
                "kind": compute.WORKLOAD_DEPLOYMENTS.kind,
                "namespace": hub_namespace,
                "labelSelector": selector,
            }
        ],
        "placement": {
            "clusterAffinity": {"labelSelector": selector},
            # A deployment runs in exactly one cell, and stays there.
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        },
        # Without it Karmada never again updates or deletes a cell's object that has lost Karmada's
        # labels. A cell's ``ns-<uid>`` holds only what the federator sends, so nothing of others
        # is overwritten.
        "conflictResolution": "Overwrite",
        # The companions of ConfigMaps and Secrets that a deployment names follow it.
        "propagateDeps": True,
    }


async def ensure_deployment(
    hub_client: Client,
    copied: SpecCopies,
    project: str,
    deployment: Object,
    hub_namespace: str,
    hub_deployment: Object | None,
) -> Object:
    """Ensure the hub copy: the spec unchanged, and its source generation in the same write. Its
    labels name the project, so that a cell knows it although its namespace lost them."""
    labels = {
        compute.LABEL_TOPOLOGY_CITY_CODE: city_of(deployment),
        **_upstream_labels(project, deployment.namespace),
    }
    notes: dict[str, str | None] = {
        compute.ANNOTATION_SOURCE_GENERATION: str(deployment.metadata.generation)
    }
    notes |= {key: deployment.metadata.annotations.get(key) for key in COPIED_ANNOTATIONS}
    if hub_deployment is None:
        body = {
            "metadata": {
                "name": deployment.name,
                "namespace": hub_namespace,
                "labels": labels,
                "annotations": {key: text for key, text in notes.items() if text is not None},
            },
            "spec": deployment.spec,
        }
        created = await hub_client.create(compute.WORKLOAD_DEPLOYMENTS, body, hub_namespace)
        copied.record_write(created, deployment.spec)
        return created
    if hub_deployment.metadata.deleting:
        raise Waiting("an earlier hub copy of this name is being deleted", 5.0)
    return await copied.ensure(
        hub_client,
        compute.WORKLOAD_DEPLOYMENTS,
        hub_deployment,
        deployment.spec,
        labels=labels,
        annotations=notes,
    )


def city_of(deployment: Object) -> str:
    return deployment.view(compute.WorkloadDeployment).spec.city_code


def city_of_policy(policy: Object) -> str:
    """The city whose deployments a policy routes; empty for a policy of others."""
    spec = policy.view(karmada.PropagationPolicy).spec
    selectors = [each.label_selector for each in spec.resource_selectors]
    labels = selectors[0].match_labels if len(selectors) == 1 and selectors[0] else {}
    city = labels.get(compute.LABEL_TOPOLOGY_CITY_CODE, "")
    return city if city and names.policy_name(city) == policy.name else ""
