"""What the columns that ``kubectl get`` shows of a kind are made of; ``kinds.py`` names them."""

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


READY = (condition("Ready", "Ready"), condition("Reason", "Ready", "reason"))
ACTIVE = (condition("Active", "Active"), condition("Reason", "Active", "reason"))
AVAILABLE = (
    condition("Available", "Available"),
    condition("Reason", "Available", "reason"),
)
CITY = PrinterColumn("City", ".spec.topology." + LABEL_TOPOLOGY_CITY_CODE.replace(".", r"\."))


def count(name: str, field: str) -> PrinterColumn:
    """A column with a number of the status."""
    return PrinterColumn(name, f".status.{field}", "integer")


REPLICAS = (
    count("Replicas", "replicas"),
    count("Ready", "readyReplicas"),
    count("Desired", "desiredReplicas"),
    count("Up-to-date", "updatedReplicas"),
)
