"""The resources that plain reads name, without the types of their kinds.

Generated from the API by ``make generate``; do not edit.
"""

from __future__ import annotations

from datum_compute.api.scheme import Resource

NAMESPACE = "default"
"""Where a project's workloads are."""

SERVICE_COMPUTE = "compute"
"""The Service object that an entitlement names."""

WORKLOADS = Resource(
    group="compute.datumapis.com",
    version="v1alpha",
    plural="workloads",
    kind="Workload",
    namespaced=True,
    metadata_only=False,
)
WORKLOAD_DEPLOYMENTS = Resource(
    group="compute.datumapis.com",
    version="v1alpha",
    plural="workloaddeployments",
    kind="WorkloadDeployment",
    namespaced=True,
    metadata_only=False,
)
INSTANCES = Resource(
    group="compute.datumapis.com",
    version="v1alpha",
    plural="instances",
    kind="Instance",
    namespaced=True,
    metadata_only=False,
)
LOCATION_BINDINGS = Resource(
    group="networking.datumapis.com",
    version="v1alpha",
    plural="locationbindings",
    kind="LocationBinding",
    namespaced=False,
    metadata_only=False,
)
ALLOWANCE_BUCKETS = Resource(
    group="quota.miloapis.com",
    version="v1alpha1",
    plural="allowancebuckets",
    kind="AllowanceBucket",
    namespaced=True,
    metadata_only=False,
)
SERVICE_ENTITLEMENTS = Resource(
    group="services.miloapis.com",
    version="v1alpha1",
    plural="serviceentitlements",
    kind="ServiceEntitlement",
    namespaced=False,
    metadata_only=False,
)
PROJECTS = Resource(
    group="resourcemanager.miloapis.com",
    version="v1alpha1",
    plural="projects",
    kind="Project",
    namespaced=False,
    metadata_only=False,
)
CONFIG_MAPS = Resource(
    group="",
    version="v1",
    plural="configmaps",
    kind="ConfigMap",
    namespaced=True,
    metadata_only=False,
)
SECRETS = Resource(
    group="",
    version="v1",
    plural="secrets",
    kind="Secret",
    namespaced=True,
    metadata_only=False,
)
EVENTS = Resource(
    group="",
    version="v1",
    plural="events",
    kind="Event",
    namespaced=True,
    metadata_only=False,
)
