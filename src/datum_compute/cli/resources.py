"""The resources plain reads name, without importing their types.

The types need msgspec, whose import costs a plain read more than the read itself. A test
holds these equal to the declarations beside the kinds.
"""

from __future__ import annotations

from datum_compute.api.scheme import Resource

_GROUP = "compute.datumapis.com"

WORKLOADS = Resource(_GROUP, "v1alpha", "workloads", "Workload")
WORKLOAD_DEPLOYMENTS = Resource(_GROUP, "v1alpha", "workloaddeployments", "WorkloadDeployment")
INSTANCES = Resource(_GROUP, "v1alpha", "instances", "Instance")
