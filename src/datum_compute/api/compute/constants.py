"""The words of the compute API: labels, annotations, finalizers, gates, conditions, reasons.

They are the contract on the wire, so their values never change. A reason that several
conditions share is declared once, under the condition that owns it. Which of them a kind
carries stands in that kind's module.
"""

from __future__ import annotations

GROUP = "compute.datumapis.com"
VERSION = "v1alpha"

# Labels of ours.
LABEL_WORKLOAD_UID = "compute.datumapis.com/workload-uid"
"""On deployments and Instances: UID of the Workload in its project."""
LABEL_WORKLOAD_DEPLOYMENT_UID = "compute.datumapis.com/workload-deployment-uid"
"""On Instances: UID of the WorkloadDeployment **of the same plane**."""
LABEL_INSTANCE_INDEX = "compute.datumapis.com/instance-index"
"""On Instances: the ordinal."""
LABEL_WORKLOAD_DEPLOYMENT_NAME = "compute.datumapis.com/workload-deployment-name"
"""On Instances: name of the WorkloadDeployment, the same on every plane."""
LABEL_CITY_CODE = "compute.datumapis.com/city-code"
"""On Instances: the city, as the placement spells it."""
LABEL_WORKLOAD_NAME = "compute.datumapis.com/workload-name"
"""On Instances: name of the Workload."""
LABEL_PLACEMENT_NAME = "compute.datumapis.com/placement-name"
"""On Instances: name of the placement."""
LABEL_SOURCE_CLUSTER = "compute.datumapis.com/source-cluster"
"""On claims and hub copies: the cell that wrote them and alone may change them."""
LABEL_INSTANCE_NAMESPACE = "compute.datumapis.com/instance-namespace"
"""On claims: the Instance's namespace in its cell."""

# Labels of the platform around us.
LABEL_TOPOLOGY_CITY_CODE = "topology.datum.net/city-code"
"""On hub deployments and Karmada Clusters; also a key of a Location's topology."""
LABEL_UPSTREAM_CLUSTER_NAME = "meta.datumapis.com/upstream-cluster-name"
"""On hub and cell namespaces and hub Instances: the project, encoded."""
LABEL_UPSTREAM_NAMESPACE = "meta.datumapis.com/upstream-namespace"
"""On hub and cell namespaces and hub copies: the project's namespace."""

# Annotations.
ANNOTATION_SSH_KEYS = "compute.datumapis.com/ssh-keys"
"""On a template: lines of ``user:key``, for virtual machines."""
ANNOTATION_RESTARTED_AT = "compute.datumapis.com/restartedAt"
"""On a template: the time of the last wanted restart; a later one rolls every Instance."""
ANNOTATION_FEDERATION_NAMESPACE = "compute.datumapis.com/federation-namespace"
"""On a project deployment: its namespace on the hub, written before the first hub write."""
ANNOTATION_SOURCE_GENERATION = "compute.datumapis.com/source-generation"
"""On a hub deployment: the project generation its spec was copied from."""
ANNOTATION_INSTANCE_UID = "compute.datumapis.com/instance-uid"
"""On copies of an Instance: the cell's UID, so that a successor is told apart."""
ANNOTATION_CURRENT_REVISION = "compute.datumapis.com/current-revision"
"""On a workload's revision history: the number of the active revision."""
ANNOTATION_LAST_CHANGE = "compute.datumapis.com/last-change"
"""On a Workload: who made its spec what it is, when and how, until its history says so."""

# Finalizers.
FINALIZER_WORKLOAD = "compute.datumapis.com/workload-controller"
"""On a Workload, and on a deployment in its cell: held while anything of it is left."""
FINALIZER_WORKLOAD_DEPLOYMENT = FINALIZER_WORKLOAD
"""The cell's deployment carries the same string as the Workload."""
FINALIZER_FEDERATOR = "compute.datumapis.com/federator"
"""On a project deployment: held until hub copy, binding and Works are gone."""
FINALIZER_INSTANCE = "compute.datumapis.com/instance-controller"
"""On a cell's Instance: held until its hub copy is gone."""
FINALIZER_QUOTA_CLAIM = "quota.compute.datumapis.com/claim-cleanup"
"""On a cell's Instance: held until its claim is deleted or passed on."""


def provider_finalizer(provider: str) -> str:
    """Held by a provider until nothing of the Instance is left running."""
    return f"{provider}.compute.datumapis.com/finalizer"


# Scheduling gates, in the order in which they are stamped.
GATE_NETWORK = "Network"
"""Held until the Instance's networks are ready in the cell."""
GATE_QUOTA = "Quota"
"""Held until the Instance's quota is granted."""

# How the Instances of a deployment are created, replaced and removed.
POLICY_ORDERED_READY = "OrderedReady"
"""One Instance at a time, by ordinal, each Ready before the next."""
POLICIES = (POLICY_ORDERED_READY,)
"""Every policy; ``decisions/instances/policies.py`` names the module of each."""

# Instance conditions.
CONDITION_PROGRAMMED = "Programmed"
"""A provider has taken the Instance over in its present form."""
CONDITION_AVAILABLE = "Available"
"""It, or something of it, is ready to serve, also while scaled to zero."""
CONDITION_READY = "Ready"
"""The Instance serves: everything it needs is granted, programmed and available."""
CONDITION_QUOTA_GRANTED = "QuotaGranted"
"""The project's budget covers the Instance. Once True it stays True."""

# WorkloadDeployment conditions besides Available.
CONDITION_REPLICAS_READY = "ReplicasReady"
"""As many Instances are Ready as are wanted; otherwise the cause of the worst one."""
CONDITION_CELL_REACHABLE = "CellReachable"
"""The hub reaches the cell, so that what is reported of it is fresh. Project plane only."""
CONDITION_SCHEDULED = "Scheduled"
"""Exactly one cell was found for the city. Project plane only."""

# Reasons of Programmed.
REASON_PENDING = "Pending"
"""Nobody has looked at the Instance."""
REASON_PENDING_PROGRAMMING = "PendingProgramming"
"""All gates are gone and no provider has begun."""
REASON_PROGRAMMING_IN_PROGRESS = "ProgrammingInProgress"
"""A provider is at work on the Instance."""
REASON_PROGRAMMED = "Programmed"
"""The provider runs the Instance in its present form."""
REASON_PENDING_QUOTA = "PendingQuota"
"""The Instance waits for quota before anything is started."""

# Failures a provider reports, on Programmed or Available.
REASON_IMAGE_UNAVAILABLE = "ImageUnavailable"
"""The image cannot be pulled: a wrong name, no access, or no registry."""
REASON_INSTANCE_CRASHING = "InstanceCrashing"
"""The program starts and ends again and again."""
REASON_CONFIGURATION_ERROR = "ConfigurationError"
"""The Instance cannot be started as it is written."""

# Further reasons of Available on an Instance.
REASON_AVAILABLE = "Available"
"""It is ready to serve, also while scaled to zero."""
REASON_ASLEEP = "Asleep"
"""It is ready to serve and runs nothing until somebody calls."""
REASON_STOPPED = "Stopped"
"""The program has ended and is not started again."""
REASON_STARTING = "Starting"
"""The program is starting."""
REASON_STOPPING = "Stopping"
"""The program is being stopped."""
REASON_PROVISIONING = "Provisioning"
"""What the program needs to run is being prepared."""
REASON_FAILED = "Failed"
"""The provider has given the Instance up; the message says why."""

# Further reasons of Ready.
REASON_SCHEDULING_GATES_PRESENT = "SchedulingGatesPresent"
"""A gate is left; no provider may start the Instance."""
REASON_NETWORK_FAILED_TO_CREATE = "NetworkFailedToCreate"
"""A network of the Instance cannot be set up at its location."""

# Reasons of QuotaGranted.
REASON_PENDING_EVALUATION = "PendingEvaluation"
"""The claim is not made or not answered."""
REASON_QUOTA_NO_BUDGET = "QuotaNoBudget"
"""The claim waits because the project has no budget of that resource."""
REASON_QUOTA_AVAILABLE = "QuotaAvailable"
"""The claim was granted."""
REASON_QUOTA_DISABLED = "QuotaDisabled"
"""The cell has no access to quota, so none is asked for."""
REASON_QUOTA_EXCEEDED = "QuotaExceeded"
"""The claim was denied: the budget does not cover it."""
REASON_VALIDATION_FAILED = "ValidationFailed"
"""The claim was refused as malformed; the message says why."""
REASON_QUOTA_BACKEND_UNAVAILABLE = "QuotaBackendUnavailable"
"""The quota service does not answer."""
REASON_QUOTA_PROJECT_NOT_FOUND = "QuotaProjectNotFound"
"""The quota service does not know the project."""
REASON_QUOTA_NAMESPACE_NOT_FOUND = "QuotaNamespaceNotFound"
"""The namespace claims go to does not exist in the project."""
REASON_QUOTA_MISCONFIGURED = "QuotaMisconfigured"
"""The claim may not be made: a registration or a right is missing."""
REASON_QUOTA_PROJECT_ID_UNRESOLVABLE = "QuotaProjectIDUnresolvable"
"""The cell's namespace does not say which project it serves."""
REASON_QUOTA_CLAIM_ORPHANED = "QuotaClaimOrphaned"
"""An event, never a condition: a claim was left behind on deletion."""

# Reasons of a WorkloadDeployment.
REASON_STABLE_INSTANCE_FOUND = "StableInstanceFound"
"""At least one Instance is Ready."""
REASON_NO_MATCHING_LOCATION = "NoMatchingLocation"
"""No Location the project may use serves the city."""
REASON_PROVISIONING_NETWORK = "ProvisioningNetwork"
"""The networks of the deployment are being set up in the cell."""
REASON_PROVISIONING_INSTANCES = "ProvisioningInstances"
"""Instances are being started and none is Ready."""
REASON_REPLICAS_AVAILABLE = "ReplicasAvailable"
"""As many Instances are Ready as are wanted."""
REASON_CELL_READY = "CellReady"
"""The cell answers."""
REASON_CELL_UNREACHABLE = "CellUnreachable"
"""The cell does not answer; the message says since when."""
REASON_CELL_DISCONNECTED = "CellDisconnected"
"""Of a step held back, never a condition: a cell out of touch replaces nothing that runs."""
REASON_SCHEDULED = "Scheduled"
"""One cell was found for the city."""
REASON_NO_CELL_FOR_CITY = "NoCellForCity"
"""No cell serves the city."""
REASON_AMBIGUOUS_CELL = "AmbiguousCell"
"""More than one cell was chosen for the city."""

# Reasons of a Workload and its placements.
REASON_AVAILABLE_PLACEMENT_FOUND = "AvailablePlacementFound"
"""At least one placement is available."""
REASON_AVAILABLE_DEPLOYMENT_FOUND = "AvailableDeploymentFound"
"""At least one deployment of the placement is available."""
REASON_NO_AVAILABLE_PLACEMENTS = "NoAvailablePlacements"
"""No placement is available."""
REASON_NO_AVAILABLE_DEPLOYMENTS = "NoAvailableDeployments"
"""No deployment of the placement is available."""
REASON_NETWORK_NOT_FOUND = "NetworkNotFound"
"""A network the template names does not exist in the project."""
REASON_PREVIOUS_DEPLOYMENT_TERMINATING = "PreviousDeploymentTerminating"
"""A deployment of the same name, of a deleted workload, is still going away."""

# Reasons of Events alone, never of a condition.
REASON_SCALED = "Scaled"
"""The wanted number of Instances was changed."""
REASON_RECREATED = "Recreated"
"""An Instance was replaced by one of the newest template."""
REASON_TERMINATING = "Terminating"
"""An Instance is being removed."""

# Instance types.
INSTANCE_TYPE_D1_STANDARD_2 = "datumcloud/d1-standard-2"
"""One vCPU and two GiB of memory."""
