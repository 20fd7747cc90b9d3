"""What quota counts of compute, and in which units. Imports nothing heavy: the CLI reads it."""

from __future__ import annotations

from typing import NamedTuple

from datum_compute.api.compute.constants import GROUP


class QuotaResource(NamedTuple):
    name: str
    registration: str
    """The type of its ResourceRegistration."""
    base_unit: str
    """What claims and buckets count."""
    display_unit: str
    factor: int
    """Base units in one display unit."""
    metric_unit: str
    """The base unit in the notation of the service catalogue."""

    @property
    def resource_type(self) -> str:
        """Its name on the wire."""
        return f"{GROUP}/{self.name}"


WORKLOADS = QuotaResource("workloads", "Entity", "workload", "workload", 1, "{workload}")
INSTANCES = QuotaResource("instances", "Entity", "instance", "instance", 1, "{instance}")
VCPUS = QuotaResource("vcpus", "Allocation", "millicore", "core", 1000, "{millicore}")
MEMORY = QuotaResource("memory", "Allocation", "MiB", "GiB", 1024, "MiBy")

QUOTA_RESOURCES = {each.name: each for each in (WORKLOADS, INSTANCES, VCPUS, MEMORY)}
"""By name."""
