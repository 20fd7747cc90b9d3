"""The resources that plain reads name, without the types of their kinds.

Generated from the API by ``make generate``; do not edit.
"""

from __future__ import annotations

from datum_compute.api.scheme import Resource

NAMESPACE = "default"
"""Where a project's workloads are."""

SERVICE_COMPUTE = "compute"
"""The Service object that an entitlement names."""

CONFIG_MAPS = Resource(
    group="",
    version="v1",
    plural="configmaps",
    kind="ConfigMap",
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
SECRETS = Resource(
    group="",
    version="v1",
    plural="secrets",
    kind="Secret",
    namespaced=True,
    metadata_only=False,
)
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
NETWORKS = Resource(
    group="networking.datumapis.com",
    version="v1alpha",
    plural="networks",
    kind="Network",
    namespaced=True,
    metadata_only=False,
)
NETWORK_CONTEXTS = Resource(
    group="networking.datumapis.com",
    version="v1alpha",
    plural="networkcontexts",
    kind="NetworkContext",
    namespaced=True,
    metadata_only=False,
)
NETWORK_BINDINGS = Resource(
    group="networking.datumapis.com",
    version="v1alpha",
    plural="networkbindings",
    kind="NetworkBinding",
    namespaced=True,
    metadata_only=False,
)
SUBNET_CLAIMS = Resource(
    group="networking.datumapis.com",
    version="v1alpha",
    plural="subnetclaims",
    kind="SubnetClaim",
    namespaced=True,
    metadata_only=False,
)
SUBNETS = Resource(
    group="networking.datumapis.com",
    version="v1alpha",
    plural="subnets",
    kind="Subnet",
    namespaced=True,
    metadata_only=False,
)
LOCATIONS = Resource(
    group="networking.datumapis.com",
    version="v1alpha",
    plural="locations",
    kind="Location",
    namespaced=False,
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
ORGANIZATIONS = Resource(
    group="resourcemanager.miloapis.com",
    version="v1alpha1",
    plural="organizations",
    kind="Organization",
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
RESOURCE_REGISTRATIONS = Resource(
    group="quota.miloapis.com",
    version="v1alpha1",
    plural="resourceregistrations",
    kind="ResourceRegistration",
    namespaced=False,
    metadata_only=False,
)
RESOURCE_GRANTS = Resource(
    group="quota.miloapis.com",
    version="v1alpha1",
    plural="resourcegrants",
    kind="ResourceGrant",
    namespaced=True,
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
GRANT_CREATION_POLICIES = Resource(
    group="quota.miloapis.com",
    version="v1alpha1",
    plural="grantcreationpolicies",
    kind="GrantCreationPolicy",
    namespaced=False,
    metadata_only=False,
)
RESOURCE_CLAIMS = Resource(
    group="quota.miloapis.com",
    version="v1alpha1",
    plural="resourceclaims",
    kind="ResourceClaim",
    namespaced=True,
    metadata_only=False,
)
SERVICES = Resource(
    group="services.miloapis.com",
    version="v1alpha1",
    plural="services",
    kind="Service",
    namespaced=False,
    metadata_only=False,
)
SERVICE_CONFIGURATIONS = Resource(
    group="services.miloapis.com",
    version="v1alpha1",
    plural="serviceconfigurations",
    kind="ServiceConfiguration",
    namespaced=False,
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
CLUSTERS = Resource(
    group="cluster.karmada.io",
    version="v1alpha1",
    plural="clusters",
    kind="Cluster",
    namespaced=False,
    metadata_only=False,
)
PROPAGATION_POLICIES = Resource(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="propagationpolicies",
    kind="PropagationPolicy",
    namespaced=True,
    metadata_only=False,
)
RESOURCE_BINDINGS = Resource(
    group="work.karmada.io",
    version="v1alpha2",
    plural="resourcebindings",
    kind="ResourceBinding",
    namespaced=True,
    metadata_only=False,
)
WORKS = Resource(
    group="work.karmada.io",
    version="v1alpha1",
    plural="works",
    kind="Work",
    namespaced=True,
    metadata_only=False,
)
INTERPRETER_CUSTOMIZATIONS = Resource(
    group="config.karmada.io",
    version="v1alpha1",
    plural="resourceinterpretercustomizations",
    kind="ResourceInterpreterCustomization",
    namespaced=False,
    metadata_only=False,
)
