"""The kinds we define: how each is served, typed and printed, and on which planes it exists.

Real deployments get the foreign ones from Milo, Karmada and network services; the local
platform serves all of them from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.planes import CELL, HUB, PROJECT, ROOT, PlaneType
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind, and everything its definition and its reference are made from."""

    resource: Resource
    view: type[msgspec.Struct]
    planes: tuple[PlaneType, ...]
    conditions: tuple[DeclaredCondition, ...] = ()
    context: str = ""
    """In which of Milo's contexts discovery shows it; everywhere when empty."""
    default_status: dict[str, Any] = field(default_factory=dict)
    """What the server puts into a new object's status."""
    nested: tuple[tuple[str, tuple[DeclaredCondition, ...]], ...] = ()
    """Conditions that parts of the status have: where, and which."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


_COMPUTE: tuple[PlaneType, ...] = (PROJECT, HUB, CELL)
_PROJECT = "Project"
_PLATFORM = "Platform"

COMPUTE_KINDS = (
    Kind(
        compute.WORKLOADS,
        compute.Workload,
        _COMPUTE,
        compute.WORKLOAD_CONDITIONS,
        _PROJECT,
        nested=(("status.placements[]", compute.PLACEMENT_CONDITIONS),),
        short_names=("wl",),
        categories=("all",),
    ),
    Kind(
        compute.WORKLOAD_DEPLOYMENTS,
        compute.WorkloadDeployment,
        _COMPUTE,
        compute.WORKLOAD_DEPLOYMENT_CONDITIONS,
        _PROJECT,
        short_names=("wd",),
        categories=("all",),
    ),
    Kind(
        compute.INSTANCES,
        compute.Instance,
        _COMPUTE,
        compute.INSTANCE_CONDITIONS,
        _PROJECT,
        compute.default_status(),
        short_names=("inst",),
        categories=("all",),
    ),
)

NETWORKING_KINDS = (
    Kind(
        networking.NETWORKS,
        networking.Network,
        (PROJECT, CELL),
        networking.NETWORK_CONDITIONS,
        _PROJECT,
        networking.default_network_status(),
    ),
    Kind(
        networking.NETWORK_CONTEXTS,
        networking.NetworkContext,
        (CELL,),
        networking.NETWORK_CONTEXT_CONDITIONS,
    ),
    Kind(
        networking.NETWORK_BINDINGS,
        networking.NetworkBinding,
        (CELL,),
        networking.NETWORK_BINDING_CONDITIONS,
    ),
    Kind(
        networking.SUBNET_CLAIMS,
        networking.SubnetClaim,
        (CELL,),
        networking.SUBNET_CLAIM_CONDITIONS,
        default_status=networking.default_subnet_status(),
    ),
    Kind(
        networking.SUBNETS,
        networking.Subnet,
        (CELL,),
        networking.SUBNET_CONDITIONS,
        default_status=networking.default_subnet_status(),
    ),
    Kind(
        networking.LOCATIONS,
        networking.Location,
        (PROJECT, CELL),
        networking.LOCATION_CONDITIONS,
        _PROJECT,
    ),
    Kind(
        networking.LOCATION_BINDINGS,
        networking.LocationBinding,
        (PROJECT, CELL),
        networking.LOCATION_BINDING_CONDITIONS,
        _PROJECT,
    ),
)

MILO_KINDS = (
    Kind(
        resourcemanager.ORGANIZATIONS,
        resourcemanager.Organization,
        (ROOT,),
        resourcemanager.ORGANIZATION_CONDITIONS,
        _PLATFORM,
    ),
    Kind(
        resourcemanager.PROJECTS,
        resourcemanager.Project,
        (ROOT,),
        resourcemanager.PROJECT_CONDITIONS,
        "Organization",
    ),
    Kind(
        quota.RESOURCE_REGISTRATIONS,
        quota.ResourceRegistration,
        (ROOT,),
        quota.RESOURCE_REGISTRATION_CONDITIONS,
        _PLATFORM,
    ),
    Kind(
        quota.GRANT_CREATION_POLICIES,
        quota.GrantCreationPolicy,
        (ROOT,),
        quota.GRANT_CREATION_POLICY_CONDITIONS,
        _PLATFORM,
    ),
    Kind(
        quota.RESOURCE_GRANTS,
        quota.ResourceGrant,
        (PROJECT,),
        quota.RESOURCE_GRANT_CONDITIONS,
        "Organization,Project",
    ),
    Kind(
        quota.ALLOWANCE_BUCKETS,
        quota.AllowanceBucket,
        (PROJECT,),
        context="Organization,Project",
    ),
    Kind(
        quota.RESOURCE_CLAIMS,
        quota.ResourceClaim,
        (PROJECT,),
        quota.RESOURCE_CLAIM_CONDITIONS,
        "Organization,Project",
        quota.default_claim_status(),
    ),
    Kind(
        services.SERVICES,
        services.Service,
        (ROOT,),
        services.SERVICE_CONDITIONS,
        _PLATFORM,
    ),
    Kind(
        services.SERVICE_CONFIGURATIONS,
        services.ServiceConfiguration,
        (ROOT,),
        services.SERVICE_CONFIGURATION_CONDITIONS,
        _PLATFORM,
    ),
    Kind(
        services.SERVICE_ENTITLEMENTS,
        services.ServiceEntitlement,
        (PROJECT,),
        services.SERVICE_ENTITLEMENT_CONDITIONS,
        _PROJECT,
    ),
)

KARMADA_KINDS = (
    # Karmada itself serves Cluster from an aggregated server; the local hub from this.
    Kind(karmada.CLUSTERS, karmada.Cluster, (HUB,), karmada.CLUSTER_CONDITIONS),
    Kind(karmada.PROPAGATION_POLICIES, karmada.PropagationPolicy, (HUB,)),
    Kind(
        karmada.RESOURCE_BINDINGS,
        karmada.ResourceBinding,
        (HUB,),
        karmada.RESOURCE_BINDING_CONDITIONS,
    ),
    Kind(karmada.WORKS, karmada.Work, (HUB,), karmada.WORK_CONDITIONS),
    Kind(karmada.INTERPRETER_CUSTOMIZATIONS, karmada.InterpreterCustomization, (HUB,)),
)

KINDS: tuple[Kind, ...] = COMPUTE_KINDS + NETWORKING_KINDS + MILO_KINDS + KARMADA_KINDS
"""Every one, grouped by whose it is."""
