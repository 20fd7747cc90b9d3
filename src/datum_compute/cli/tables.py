"""The resources plain reads name, without importing their types.

The types need msgspec, whose import costs a plain read more than the read itself. A test
holds these equal to the declarations beside the kinds.
"""

from __future__ import annotations

from datum_compute.api.scheme import Resource

NAMESPACE = "default"
"""Where the workloads of a project are."""

_GROUP = "compute.datumapis.com"

WORKLOADS = Resource(_GROUP, "v1alpha", "workloads", "Workload")
WORKLOAD_DEPLOYMENTS = Resource(_GROUP, "v1alpha", "workloaddeployments", "WorkloadDeployment")
INSTANCES = Resource(_GROUP, "v1alpha", "instances", "Instance")
LOCATION_BINDINGS = Resource(
    "networking.datumapis.com", "v1alpha", "locationbindings", "LocationBinding", namespaced=False
)
ALLOWANCE_BUCKETS = Resource(
    "quota.miloapis.com", "v1alpha1", "allowancebuckets", "AllowanceBucket"
)
SERVICE_ENTITLEMENTS = Resource(
    "services.miloapis.com",
    "v1alpha1",
    "serviceentitlements",
    "ServiceEntitlement",
    namespaced=False,
)
PROJECTS = Resource(
    "resourcemanager.miloapis.com", "v1alpha1", "projects", "Project", namespaced=False
)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("", "v1", "events", "Event")

QUOTA_NAMESPACE = "milo-system"
"""Where a project keeps its grants and buckets."""
