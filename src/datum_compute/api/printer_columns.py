"""The columns ``kubectl get`` shows for each kind, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute.constants import LABEL_TOPOLOGY_CITY_CODE


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    """Columns above 0 are printed only in the wide form."""

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.json_path,
        }
        if self.priority:
            wire["priority"] = self.priority
        return wire


AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date")


def condition(name: str, type: str, field: str = "status", priority: int = 0) -> PrinterColumn:
    """A column with one field of the condition of a type."""
    return PrinterColumn(
        name, f'.status.conditions[?(@.type=="{type}")].{field}', "string", priority
    )


_READY = (condition("Ready", "Ready"), condition("Reason", "Ready", "reason"))
_ACTIVE = (condition("Active", "Active"), condition("Reason", "Active", "reason"))
_AVAILABLE = (
    condition("Available", "Available"),
    condition("Reason", "Available", "reason"),
)
_CITY = PrinterColumn("City", ".spec.topology." + LABEL_TOPOLOGY_CITY_CODE.replace(".", r"\."))


def _count(name: str, field: str) -> PrinterColumn:
    return PrinterColumn(name, f".status.{field}", "integer")


_REPLICAS = (
    _count("Replicas", "replicas"),
    _count("Ready", "readyReplicas"),
    _count("Desired", "desiredReplicas"),
    _count("Up-to-date", "updatedReplicas"),
)

COLUMNS: dict[str, tuple[PrinterColumn, ...]] = {
    "Workload": (AGE, *_AVAILABLE, _count("Deployments", "deployments"), *_REPLICAS),
    "WorkloadDeployment": (
        AGE,
        *_AVAILABLE,
        *_REPLICAS,
        PrinterColumn("Location Namespace", ".status.location.namespace", priority=1),
        PrinterColumn("Location Name", ".status.location.name", priority=1),
    ),
    "Instance": (
        AGE,
        *_READY,
        PrinterColumn("Network IP", ".status.networkInterfaces[0].assignments.networkIP"),
        PrinterColumn("External IP", ".status.networkInterfaces[0].assignments.externalIP"),
        condition("Message", "Ready", "message", priority=1),
        condition("Quota", "QuotaGranted", "reason", priority=1),
    ),
    "Network": (AGE, *_READY),
    "NetworkContext": (
        AGE,
        PrinterColumn("Network", ".spec.network.name"),
        PrinterColumn("Location", ".spec.location.name"),
        *_READY,
    ),
    "NetworkBinding": (
        AGE,
        PrinterColumn("Network", ".spec.network.name"),
        PrinterColumn("Location", ".spec.location.name"),
        *_READY,
    ),
    "SubnetClaim": (AGE, PrinterColumn("Subnet", ".status.subnetRef.name"), *_READY),
    "Subnet": (
        AGE,
        PrinterColumn("Start", ".status.startAddress"),
        PrinterColumn("Prefix", ".status.prefixLength", "integer"),
        *_READY,
    ),
    "Location": (AGE, _CITY, *_READY),
    "LocationBinding": (AGE, _CITY, *_AVAILABLE),
    "Organization": (PrinterColumn("Type", ".spec.type"), *_READY, AGE),
    "Project": (AGE, *_READY),
    "ResourceRegistration": (
        PrinterColumn("Resource", ".spec.resourceType"),
        PrinterColumn("Type", ".spec.type"),
        *_ACTIVE,
        AGE,
    ),
    "GrantCreationPolicy": (
        PrinterColumn("Trigger", ".spec.trigger.resource.kind"),
        PrinterColumn("Disabled", ".spec.disabled", "boolean"),
        *_READY,
        AGE,
    ),
    "ResourceGrant": (PrinterColumn("Consumer", ".spec.consumerRef.name"), *_ACTIVE, AGE),
    "AllowanceBucket": (
        PrinterColumn("Resource", ".spec.resourceType"),
        _count("Limit", "limit"),
        _count("Allocated", "allocated"),
        _count("Available", "available"),
        _count("Claims", "claimCount"),
        AGE,
    ),
    "ResourceClaim": (
        PrinterColumn("Consumer", ".spec.consumerRef.name"),
        condition("Granted", "Granted"),
        condition("Reason", "Granted", "reason"),
        AGE,
    ),
    "Service": (
        PrinterColumn("Service", ".spec.serviceName"),
        PrinterColumn("Phase", ".spec.phase"),
        AGE,
    ),
    "ServiceConfiguration": (
        PrinterColumn("Service", ".status.serviceName"),
        PrinterColumn("Version", ".spec.version"),
        PrinterColumn("Phase", ".spec.phase"),
        AGE,
    ),
    "ServiceEntitlement": (
        PrinterColumn("Service", ".spec.serviceRef.name"),
        PrinterColumn("Phase", ".status.phase"),
        PrinterColumn("Origin", ".status.origin"),
        condition("Suspended", "Suspended"),
        AGE,
    ),
    "Cluster": (
        PrinterColumn("Version", ".status.kubernetesVersion"),
        PrinterColumn("Mode", ".spec.syncMode"),
        condition("Ready", "Ready"),
        AGE,
    ),
    "PropagationPolicy": (
        PrinterColumn("Conflict-Resolution", ".spec.conflictResolution"),
        PrinterColumn("Priority", ".spec.priority", "integer"),
        AGE,
    ),
    "ResourceBinding": (
        condition("Scheduled", "Scheduled"),
        condition("FullyApplied", "FullyApplied"),
        AGE,
    ),
    "Work": (
        PrinterColumn("Workload-Kind", ".spec.workload.manifests[0].kind"),
        PrinterColumn("Workload-Name", ".spec.workload.manifests[0].metadata.name"),
        condition("Applied", "Applied"),
        AGE,
    ),
    "ResourceInterpreterCustomization": (
        PrinterColumn("Target-API-Version", ".spec.target.apiVersion"),
        PrinterColumn("Target-Kind", ".spec.target.kind"),
        AGE,
    ),
}


def columns_of(kind: str) -> tuple[PrinterColumn, ...]:
    """The columns of a kind after its name; a kind without an entry shows its age."""
    return COLUMNS.get(kind, (AGE,))
