"""The columns ``kubectl get`` shows for each kind, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    """Columns above 0 are shown only in the wide form."""

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.json_path,
        }
        if self.priority:
            wire["priority"] = self.priority
        return wire


AGE = Column("Age", ".metadata.creationTimestamp", "date")


def condition(name: str, type: str, field: str = "status", priority: int = 0) -> Column:
    """A column with one field of the condition of a type."""
    return Column(name, f'.status.conditions[?(@.type=="{type}")].{field}', "string", priority)


_READY = (condition("Ready", "Ready"), condition("Reason", "Ready", "reason"))
_ACTIVE = (condition("Active", "Active"), condition("Reason", "Active", "reason"))
_AVAILABLE = (
    condition("Available", "Available"),
    condition("Reason", "Available", "reason"),
)
_CITY = Column("City", r".spec.topology.topology\.datum\.net/city-code")


def _count(name: str, field: str) -> Column:
    return Column(name, f".status.{field}", "integer")


_REPLICAS = (
    _count("Replicas", "replicas"),
    _count("Ready", "readyReplicas"),
    _count("Desired", "desiredReplicas"),
    _count("Up-to-date", "updatedReplicas"),
)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "Workload": (AGE, *_AVAILABLE, _count("Deployments", "deployments"), *_REPLICAS),
    "WorkloadDeployment": (
        AGE,
        *_AVAILABLE,
        *_REPLICAS,
        Column("Location Namespace", ".status.location.namespace", priority=1),
        Column("Location Name", ".status.location.name", priority=1),
    ),
    "Instance": (
        AGE,
        *_READY,
        Column("Network IP", ".status.networkInterfaces[0].assignments.networkIP"),
        Column("External IP", ".status.networkInterfaces[0].assignments.externalIP"),
        condition("Message", "Ready", "message", priority=1),
        condition("Quota", "QuotaGranted", "reason", priority=1),
    ),
    "Network": (AGE, *_READY),
    "NetworkContext": (
        AGE,
        Column("Network", ".spec.network.name"),
        Column("Location", ".spec.location.name"),
        *_READY,
    ),
    "NetworkBinding": (
        AGE,
        Column("Network", ".spec.network.name"),
        Column("Location", ".spec.location.name"),
        *_READY,
    ),
    "SubnetClaim": (AGE, Column("Subnet", ".status.subnetRef.name"), *_READY),
    "Subnet": (
        AGE,
        Column("Start", ".status.startAddress"),
        Column("Prefix", ".status.prefixLength", "integer"),
        *_READY,
    ),
    "Location": (AGE, _CITY, *_READY),
    "LocationBinding": (AGE, _CITY, *_AVAILABLE),
    "Organization": (Column("Type", ".spec.type"), *_READY, AGE),
    "Project": (AGE, *_READY),
    "ResourceRegistration": (
        Column("Resource", ".spec.resourceType"),
        Column("Type", ".spec.type"),
        *_ACTIVE,
        AGE,
    ),
    "GrantCreationPolicy": (
        Column("Trigger", ".spec.trigger.resource.kind"),
        Column("Disabled", ".spec.disabled", "boolean"),
        *_READY,
        AGE,
    ),
    "ResourceGrant": (Column("Consumer", ".spec.consumerRef.name"), *_ACTIVE, AGE),
    "AllowanceBucket": (
        Column("Resource", ".spec.resourceType"),
        _count("Limit", "limit"),
        _count("Allocated", "allocated"),
        _count("Available", "available"),
        _count("Claims", "claimCount"),
        AGE,
    ),
    "ResourceClaim": (
        Column("Consumer", ".spec.consumerRef.name"),
        condition("Granted", "Granted"),
        condition("Reason", "Granted", "reason"),
        AGE,
    ),
    "Service": (Column("Service", ".spec.serviceName"), Column("Phase", ".spec.phase"), AGE),
    "ServiceConfiguration": (
        Column("Service", ".status.serviceName"),
        Column("Version", ".spec.version"),
        Column("Phase", ".spec.phase"),
        AGE,
    ),
    "ServiceEntitlement": (
        Column("Service", ".spec.serviceRef.name"),
        Column("Phase", ".status.phase"),
        Column("Origin", ".status.origin"),
        condition("Suspended", "Suspended"),
        AGE,
    ),
    "Cluster": (
        Column("Version", ".status.kubernetesVersion"),
        Column("Mode", ".spec.syncMode"),
        condition("Ready", "Ready"),
        AGE,
    ),
    "PropagationPolicy": (
        Column("Conflict-Resolution", ".spec.conflictResolution"),
        Column("Priority", ".spec.priority", "integer"),
        AGE,
    ),
    "ResourceBinding": (
        condition("Scheduled", "Scheduled"),
        condition("FullyApplied", "FullyApplied"),
        AGE,
    ),
    "Work": (
        Column("Workload-Kind", ".spec.workload.manifests[0].kind"),
        Column("Workload-Name", ".spec.workload.manifests[0].metadata.name"),
        condition("Applied", "Applied"),
        AGE,
    ),
    "ResourceInterpreterCustomization": (
        Column("Target-API-Version", ".spec.target.apiVersion"),
        Column("Target-Kind", ".spec.target.kind"),
        AGE,
    ),
}
