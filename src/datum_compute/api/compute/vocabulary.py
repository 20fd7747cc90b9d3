"""The words of the compute API: labels, annotations, finalizers, gates, conditions, reasons.

They are the contract on the wire, so their values never change. A reason that several
conditions share is declared once, under the condition that owns it.
"""

from __future__ import annotations

GROUP = "compute.datumapis.com"
VERSION = "v1alpha"

# Labels of ours.
LABEL_WORKLOAD_UID = "compute.datumapis.com/workload-uid"
LABEL_WORKLOAD_DEPLOYMENT_UID = "compute.datumapis.com/workload-deployment-uid"
LABEL_INSTANCE_INDEX = "compute.datumapis.com/instance-index"
LABEL_WORKLOAD_DEPLOYMENT_NAME = "compute.datumapis.com/workload-deployment-name"
LABEL_CITY_CODE = "compute.datumapis.com/city-code"
LABEL_WORKLOAD_NAME = "compute.datumapis.com/workload-name"
LABEL_PLACEMENT_NAME = "compute.datumapis.com/placement-name"
LABEL_SOURCE_CLUSTER = "compute.datumapis.com/source-cluster"
LABEL_INSTANCE_NAMESPACE = "compute.datumapis.com/instance-namespace"

# Labels of the platform around us.
LABEL_TOPOLOGY_CITY_CODE = "topology.datum.net/city-code"
"""On hub deployments and Karmada Clusters; also a key of a Location's topology."""
LABEL_UPSTREAM_CLUSTER_NAME = "meta.datumapis.com/upstream-cluster-name"
LABEL_UPSTREAM_NAMESPACE = "meta.datumapis.com/upstream-namespace"

# Annotations.
ANNOTATION_SSH_KEYS = "compute.datumapis.com/ssh-keys"
ANNOTATION_RESTARTED_AT = "compute.datumapis.com/restartedAt"
ANNOTATION_FEDERATION_NAMESPACE = "compute.datumapis.com/federation-namespace"
ANNOTATION_SOURCE_GENERATION = "compute.datumapis.com/source-generation"
ANNOTATION_INSTANCE_UID = "compute.datumapis.com/instance-uid"
ANNOTATION_CURRENT_REVISION = "compute.datumapis.com/current-revision"

# Finalizers.
FINALIZER_WORKLOAD = "compute.datumapis.com/workload-controller"
FINALIZER_WORKLOAD_DEPLOYMENT = FINALIZER_WORKLOAD
"""The cell's deployment carries the same string as the Workload."""
FINALIZER_FEDERATOR = "compute.datumapis.com/federator"
FINALIZER_INSTANCE = "compute.datumapis.com/instance-controller"
FINALIZER_QUOTA_CLAIM = "quota.compute.datumapis.com/claim-cleanup"


def provider_finalizer(provider: str) -> str:
    """Held by a provider until nothing of the Instance is left running."""
    return f"{provider}.compute.datumapis.com/finalizer"


# Scheduling gates, in the order in which they are stamped.
GATE_NETWORK = "Network"
GATE_QUOTA = "Quota"

# How the Instances of a deployment are created, replaced and removed.
POLICY_ORDERED_READY = "OrderedReady"

# Instance conditions.
CONDITION_PROGRAMMED = "Programmed"
CONDITION_AVAILABLE = "Available"
"""Also of Workload, placement and WorkloadDeployment."""
CONDITION_READY = "Ready"
CONDITION_QUOTA_GRANTED = "QuotaGranted"

# WorkloadDeployment conditions besides Available.
CONDITION_REPLICAS_READY = "ReplicasReady"
CONDITION_CELL_REACHABLE = "CellReachable"
CONDITION_SCHEDULED = "Scheduled"

# Reasons of Programmed.
REASON_PENDING = "Pending"
REASON_PENDING_PROGRAMMING = "PendingProgramming"
REASON_PROGRAMMING_IN_PROGRESS = "ProgrammingInProgress"
REASON_PROGRAMMED = "Programmed"
REASON_PENDING_QUOTA = "PendingQuota"

# Failures a provider reports, on Programmed or Available.
REASON_IMAGE_UNAVAILABLE = "ImageUnavailable"
REASON_INSTANCE_CRASHING = "InstanceCrashing"
REASON_CONFIGURATION_ERROR = "ConfigurationError"

# Further reasons of Available on an Instance.
REASON_AVAILABLE = "Available"
REASON_STOPPED = "Stopped"
REASON_STARTING = "Starting"
REASON_STOPPING = "Stopping"
REASON_PROVISIONING = "Provisioning"
REASON_FAILED = "Failed"

# Further reasons of Ready.
REASON_SCHEDULING_GATES_PRESENT = "SchedulingGatesPresent"
REASON_NETWORK_FAILED_TO_CREATE = "NetworkFailedToCreate"

# Reasons of QuotaGranted.
REASON_PENDING_EVALUATION = "PendingEvaluation"
REASON_QUOTA_NO_BUDGET = "QuotaNoBudget"
REASON_QUOTA_AVAILABLE = "QuotaAvailable"
REASON_QUOTA_DISABLED = "QuotaDisabled"
REASON_QUOTA_EXCEEDED = "QuotaExceeded"
REASON_VALIDATION_FAILED = "ValidationFailed"
REASON_QUOTA_BACKEND_UNAVAILABLE = "QuotaBackendUnavailable"
REASON_QUOTA_PROJECT_NOT_FOUND = "QuotaProjectNotFound"
REASON_QUOTA_NAMESPACE_NOT_FOUND = "QuotaNamespaceNotFound"
REASON_QUOTA_MISCONFIGURED = "QuotaMisconfigured"
REASON_QUOTA_PROJECT_ID_UNRESOLVABLE = "QuotaProjectIDUnresolvable"
REASON_QUOTA_CLAIM_ORPHANED = "QuotaClaimOrphaned"
"""An event, never a condition: a claim was left behind on deletion."""

# Reasons of a WorkloadDeployment.
REASON_STABLE_INSTANCE_FOUND = "StableInstanceFound"
REASON_NO_MATCHING_LOCATION = "NoMatchingLocation"
REASON_PROVISIONING_NETWORK = "ProvisioningNetwork"
REASON_PROVISIONING_INSTANCES = "ProvisioningInstances"
REASON_REPLICAS_AVAILABLE = "ReplicasAvailable"
REASON_CELL_READY = "CellReady"
REASON_CELL_UNREACHABLE = "CellUnreachable"
REASON_CELL_DISCONNECTED = "CellDisconnected"
REASON_SCHEDULED = "Scheduled"
REASON_NO_CELL_FOR_CITY = "NoCellForCity"
REASON_AMBIGUOUS_CELL = "AmbiguousCell"

# Reasons of a Workload and its placements.
REASON_AVAILABLE_PLACEMENT_FOUND = "AvailablePlacementFound"
REASON_AVAILABLE_DEPLOYMENT_FOUND = "AvailableDeploymentFound"
REASON_NO_AVAILABLE_PLACEMENTS = "NoAvailablePlacements"
REASON_NO_AVAILABLE_DEPLOYMENTS = "NoAvailableDeployments"
REASON_NETWORK_NOT_FOUND = "NetworkNotFound"
REASON_PREVIOUS_DEPLOYMENT_TERMINATING = "PreviousDeploymentTerminating"

# Instance types.
INSTANCE_TYPE_D1_STANDARD_2 = "datumcloud/d1-standard-2"
