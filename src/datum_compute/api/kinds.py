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
from datum_compute.api.planes import (
    ALLOWANCES,
    COMPUTE,
    NETWORKS,
    PLANE_TYPES,
    PROJECTS,
    PROPAGATION,
    SUBNETS,
    PlaneType,
)
from datum_compute.api.printer_columns import (
    ACTIVE,
    AGE,
    AVAILABLE,
    CITY,
    READY,
    REPLICAS,
    PrinterColumn,
    condition,
    count,
)
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind, and everything its definition and its reference are made from."""

    resource: Resource
    view: type[msgspec.Struct]
    kind_set: str
    """The planes whose type names this set serve it."""
    conditions: tuple[DeclaredCondition, ...] = ()
    context: str = ""
    """In which of Milo's contexts discovery shows it; everywhere when empty."""
    default_status: dict[str, Any] = field(default_factory=dict)
    """What the server puts into a new object's status."""
    nested: tuple[tuple[str, tuple[DeclaredCondition, ...]], ...] = ()
    """Conditions that parts of the status have: where, and which."""
    columns: tuple[PrinterColumn, ...] = (AGE,)
    """What ``kubectl get`` shows after the name, in order."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def planes(self) -> tuple[PlaneType, ...]:
        """The types of plane that serve it."""
        return tuple(each for each in PLANE_TYPES if self.kind_set in each.kinds)


_PROJECT = "Project"
_PLATFORM = "Platform"

COMPUTE_KINDS = (
    Kind(
        compute.WORKLOADS,
        compute.Workload,
        COMPUTE,
        compute.WORKLOAD_CONDITIONS,
        _PROJECT,
        nested=(("status.placements[]", compute.PLACEMENT_CONDITIONS),),
        short_names=("wl",),
        categories=("all",),
        columns=(AGE, *AVAILABLE, count("Deployments", "deployments"), *REPLICAS),
    ),
    Kind(
        compute.WORKLOAD_DEPLOYMENTS,
        compute.WorkloadDeployment,
        COMPUTE,
        compute.WORKLOAD_DEPLOYMENT_CONDITIONS,
        _PROJECT,
        short_names=("wd",),
        categories=("all",),
        columns=(
            AGE,
            *AVAILABLE,
            *REPLICAS,
            PrinterColumn("Location Namespace", ".status.location.namespace", priority=1),
            PrinterColumn("Location Name", ".status.location.name", priority=1),
        ),
    ),
    Kind(
        compute.INSTANCES,
        compute.Instance,
        COMPUTE,
        compute.INSTANCE_CONDITIONS,
        _PROJECT,
        compute.default_status(),
        short_names=("inst",),
        categories=("all",),
        columns=(
            AGE,
            *READY,
            PrinterColumn("Network IP", ".status.networkInterfaces[0].assignments.networkIP"),
            PrinterColumn("External IP", ".status.networkInterfaces[0].assignments.externalIP"),
            condition("Message", "Ready", "message", priority=1),
            condition("Quota", "QuotaGranted", "reason", priority=1),
        ),
    ),
)

NETWORKING_KINDS = (
    Kind(
        networking.NETWORKS,
        networking.Network,
        NETWORKS,
        networking.NETWORK_CONDITIONS,
        _PROJECT,
        networking.default_network_status(),
        columns=(AGE, *READY),
    ),
    Kind(
        networking.NETWORK_CONTEXTS,
        networking.NetworkContext,
        SUBNETS,
        networking.NETWORK_CONTEXT_CONDITIONS,
        columns=(
            AGE,
            PrinterColumn("Network", ".spec.network.name"),
            PrinterColumn("Location", ".spec.location.name"),
            *READY,
        ),
    ),
    Kind(
        networking.NETWORK_BINDINGS,
        networking.NetworkBinding,
        SUBNETS,
        networking.NETWORK_BINDING_CONDITIONS,
        columns=(
            AGE,
            PrinterColumn("Network", ".spec.network.name"),
            PrinterColumn("Location", ".spec.location.name"),
            *READY,
        ),
    ),
    Kind(
        networking.SUBNET_CLAIMS,
        networking.SubnetClaim,
        SUBNETS,
        networking.SUBNET_CLAIM_CONDITIONS,
        default_status=networking.default_subnet_status(),
        columns=(AGE, PrinterColumn("Subnet", ".status.subnetRef.name"), *READY),
    ),
    Kind(
        networking.SUBNETS,
        networking.Subnet,
        SUBNETS,
        networking.SUBNET_CONDITIONS,
        default_status=networking.default_subnet_status(),
        columns=(
            AGE,
            PrinterColumn("Start", ".status.startAddress"),
            PrinterColumn("Prefix", ".status.prefixLength", "integer"),
            *READY,
        ),
    ),
    Kind(
        networking.LOCATIONS,
        networking.Location,
        NETWORKS,
        networking.LOCATION_CONDITIONS,
        _PROJECT,
        columns=(AGE, CITY, *READY),
    ),
    Kind(
        networking.LOCATION_BINDINGS,
        networking.LocationBinding,
        NETWORKS,
        networking.LOCATION_BINDING_CONDITIONS,
        _PROJECT,
        columns=(AGE, CITY, *AVAILABLE),
    ),
)

MILO_KINDS = (
    Kind(
        resourcemanager.ORGANIZATIONS,
        resourcemanager.Organization,
        PROJECTS,
        resourcemanager.ORGANIZATION_CONDITIONS,
        _PLATFORM,
        columns=(PrinterColumn("Type", ".spec.type"), *READY, AGE),
    ),
    Kind(
        resourcemanager.PROJECTS,
        resourcemanager.Project,
        PROJECTS,
        resourcemanager.PROJECT_CONDITIONS,
        "Organization",
        columns=(AGE, *READY),
    ),
    Kind(
        quota.RESOURCE_REGISTRATIONS,
        quota.ResourceRegistration,
        PROJECTS,
        quota.RESOURCE_REGISTRATION_CONDITIONS,
        _PLATFORM,
        columns=(
            PrinterColumn("Resource", ".spec.resourceType"),
            PrinterColumn("Type", ".spec.type"),
            *ACTIVE,
            AGE,
        ),
    ),
    Kind(
        quota.GRANT_CREATION_POLICIES,
        quota.GrantCreationPolicy,
        PROJECTS,
        quota.GRANT_CREATION_POLICY_CONDITIONS,
        _PLATFORM,
        columns=(
            PrinterColumn("Trigger", ".spec.trigger.resource.kind"),
            PrinterColumn("Disabled", ".spec.disabled", "boolean"),
            *READY,
            AGE,
        ),
    ),
    Kind(
        quota.RESOURCE_GRANTS,
        quota.ResourceGrant,
        ALLOWANCES,
        quota.RESOURCE_GRANT_CONDITIONS,
        "Organization,Project",
        columns=(PrinterColumn("Consumer", ".spec.consumerRef.name"), *ACTIVE, AGE),
    ),
    Kind(
        quota.ALLOWANCE_BUCKETS,
        quota.AllowanceBucket,
        ALLOWANCES,
        context="Organization,Project",
        columns=(
            PrinterColumn("Resource", ".spec.resourceType"),
            count("Limit", "limit"),
            count("Allocated", "allocated"),
            count("Available", "available"),
            count("Claims", "claimCount"),
            AGE,
        ),
    ),
    Kind(
        quota.RESOURCE_CLAIMS,
        quota.ResourceClaim,
        ALLOWANCES,
        quota.RESOURCE_CLAIM_CONDITIONS,
        "Organization,Project",
        quota.default_claim_status(),
        columns=(
            PrinterColumn("Consumer", ".spec.consumerRef.name"),
            condition("Granted", "Granted"),
            condition("Reason", "Granted", "reason"),
            AGE,
        ),
    ),
    Kind(
        services.SERVICES,
        services.Service,
        PROJECTS,
        services.SERVICE_CONDITIONS,
        _PLATFORM,
        columns=(
            PrinterColumn("Service", ".spec.serviceName"),
            PrinterColumn("Phase", ".spec.phase"),
            AGE,
        ),
    ),
    Kind(
        services.SERVICE_CONFIGURATIONS,
        services.ServiceConfiguration,
        PROJECTS,
        services.SERVICE_CONFIGURATION_CONDITIONS,
        _PLATFORM,
        columns=(
            PrinterColumn("Service", ".status.serviceName"),
            PrinterColumn("Version", ".spec.version"),
            PrinterColumn("Phase", ".spec.phase"),
            AGE,
        ),
    ),
    Kind(
        services.SERVICE_ENTITLEMENTS,
        services.ServiceEntitlement,
        ALLOWANCES,
        services.SERVICE_ENTITLEMENT_CONDITIONS,
        _PROJECT,
        columns=(
            PrinterColumn("Service", ".spec.serviceRef.name"),
            PrinterColumn("Phase", ".status.phase"),
            PrinterColumn("Origin", ".status.origin"),
            condition("Suspended", "Suspended"),
            AGE,
        ),
    ),
)

KARMADA_KINDS = (
    # Karmada itself serves Cluster from an aggregated server; the local hub from this.
    Kind(
        karmada.CLUSTERS,
        karmada.Cluster,
        PROPAGATION,
        karmada.CLUSTER_CONDITIONS,
        columns=(
            PrinterColumn("Version", ".status.kubernetesVersion"),
            PrinterColumn("Mode", ".spec.syncMode"),
            condition("Ready", "Ready"),
            AGE,
        ),
    ),
    Kind(
        karmada.PROPAGATION_POLICIES,
        karmada.PropagationPolicy,
        PROPAGATION,
        columns=(
            PrinterColumn("Conflict-Resolution", ".spec.conflictResolution"),
            PrinterColumn("Priority", ".spec.priority", "integer"),
            AGE,
        ),
    ),
    Kind(
        karmada.RESOURCE_BINDINGS,
        karmada.ResourceBinding,
        PROPAGATION,
        karmada.RESOURCE_BINDING_CONDITIONS,
        columns=(
            condition("Scheduled", "Scheduled"),
            condition("FullyApplied", "FullyApplied"),
            AGE,
        ),
    ),
    Kind(
        karmada.WORKS,
        karmada.Work,
        PROPAGATION,
        karmada.WORK_CONDITIONS,
        columns=(
            PrinterColumn("Workload-Kind", ".spec.workload.manifests[0].kind"),
            PrinterColumn("Workload-Name", ".spec.workload.manifests[0].metadata.name"),
            condition("Applied", "Applied"),
            AGE,
        ),
    ),
    Kind(
        karmada.INTERPRETER_CUSTOMIZATIONS,
        karmada.InterpreterCustomization,
        PROPAGATION,
        columns=(
            PrinterColumn("Target-API-Version", ".spec.target.apiVersion"),
            PrinterColumn("Target-Kind", ".spec.target.kind"),
            AGE,
        ),
    ),
)

KINDS: tuple[Kind, ...] = COMPUTE_KINDS + NETWORKING_KINDS + MILO_KINDS + KARMADA_KINDS
"""Every one, grouped by whose it is."""
