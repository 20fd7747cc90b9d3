"""The CustomResourceDefinitions of every kind, built from the types.

``deploy/crds`` holds the same as YAML, written by ``scripts/generate.py``; the embedded
server takes them from here. Which kinds a plane serves follows from its type.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.printing import COLUMNS
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.api.structural import schema_of

PlaneType = Literal["root", "project", "hub", "cell"]

PARENT_CONTEXTS = "discovery.miloapis.com/parent-contexts"
"""In which contexts Milo shows a kind."""

_ROOT, _PROJECT, _HUB, _CELL = "root", "project", "hub", "cell"


@dataclass(frozen=True, slots=True)
class _Kind:
    resource: Resource
    view: type[msgspec.Struct]
    planes: tuple[str, ...]
    context: str = ""
    default_status: dict[str, Any] = field(default_factory=dict)


_COMPUTE = (_PROJECT, _HUB, _CELL)

_KINDS = (
    _Kind(compute.WORKLOADS, compute.Workload, _COMPUTE, "Project"),
    _Kind(compute.WORKLOAD_DEPLOYMENTS, compute.WorkloadDeployment, _COMPUTE, "Project"),
    _Kind(compute.INSTANCES, compute.Instance, _COMPUTE, "Project", compute.default_status()),
    _Kind(networking.NETWORKS, networking.Network, (_PROJECT, _CELL), "Project"),
    _Kind(networking.NETWORK_CONTEXTS, networking.NetworkContext, (_CELL,)),
    _Kind(networking.NETWORK_BINDINGS, networking.NetworkBinding, (_CELL,)),
    _Kind(networking.SUBNET_CLAIMS, networking.SubnetClaim, (_CELL,)),
    _Kind(networking.SUBNETS, networking.Subnet, (_CELL,)),
    _Kind(networking.LOCATIONS, networking.Location, (_PROJECT, _CELL), "Project"),
    _Kind(networking.LOCATION_BINDINGS, networking.LocationBinding, (_PROJECT, _CELL), "Project"),
    _Kind(resourcemanager.PROJECTS, resourcemanager.Project, (_ROOT,)),
    _Kind(quota.RESOURCE_REGISTRATIONS, quota.ResourceRegistration, (_ROOT,)),
    _Kind(quota.RESOURCE_GRANTS, quota.ResourceGrant, (_PROJECT,), "Project"),
    _Kind(quota.ALLOWANCE_BUCKETS, quota.AllowanceBucket, (_PROJECT,), "Project"),
    _Kind(
        quota.RESOURCE_CLAIMS,
        quota.ResourceClaim,
        (_PROJECT,),
        "Project",
        quota.default_claim_status(),
    ),
    # Karmada itself serves Cluster from an aggregated server; the local hub from this.
    _Kind(karmada.CLUSTERS, karmada.Cluster, (_HUB,)),
    _Kind(karmada.PROPAGATION_POLICIES, karmada.PropagationPolicy, (_HUB,)),
    _Kind(karmada.RESOURCE_BINDINGS, karmada.ResourceBinding, (_HUB,)),
    _Kind(karmada.WORKS, karmada.Work, (_HUB,)),
    _Kind(karmada.INTERPRETER_CUSTOMIZATIONS, karmada.InterpreterCustomization, (_HUB,)),
)


def all_crds() -> list[dict[str, Any]]:
    """Every definition, fresh: the caller may change what it gets."""
    return [_definition(kind) for kind in _KINDS]


def crds_for(plane_type: PlaneType) -> list[dict[str, Any]]:
    """The definitions a plane of this type serves."""
    return [_definition(kind) for kind in _KINDS if plane_type in kind.planes]


def _definition(kind: _Kind) -> dict[str, Any]:
    resource = kind.resource
    metadata: dict[str, Any] = {"name": resource.group_resource}
    if kind.context:
        metadata["annotations"] = {PARENT_CONTEXTS: kind.context}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(kind)],
        },
    }


def _version(kind: _Kind) -> dict[str, Any]:
    schema = _root_schema(kind)
    version: dict[str, Any] = {
        "name": kind.resource.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [column.to_wire() for column in COLUMNS[kind.resource.kind]],
        "schema": {"openAPIV3Schema": schema},
    }
    if "status" in schema["properties"]:
        version["subresources"] = {"status": {}}
    return version


def _root_schema(kind: _Kind) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "apiVersion": {
            "description": "Group and version of the schema this object is written in.",
            "type": "string",
        },
        "kind": {"description": "What this object is.", "type": "string"},
        "metadata": {"type": "object"},
    }
    parts = {each.name: each.type for each in msgspec.structs.fields(kind.view)}
    properties["spec"] = {
        "description": f"What the {kind.resource.kind} is to be.",
        **schema_of(parts["spec"]),
    }
    if "status" in parts:
        properties["status"] = {
            "description": f"How the {kind.resource.kind} is doing.",
            **schema_of(parts["status"]),
        }
        if kind.default_status:
            properties["status"]["default"] = deepcopy(kind.default_status)
    return {
        "description": (kind.view.__doc__ or "").strip(),
        "type": "object",
        "properties": properties,
        "required": ["spec"],
    }
