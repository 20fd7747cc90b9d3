"""The reasons of the compute API, one record each, and the gates they explain.

A condition carries a reason for its status. The reason's record here is the only place that
knows what follows from it: which conditions carry it, who can act on it, whether waiting
helps, which of several reasons explains most. Rollups, Events, provider conformance, the API
reference and the CLI read the records and keep no lists.

To add a reason, declare it here and write it where it arises. ``make generate`` puts it on
the reference page; :mod:`datum_compute.cli.explain.reasons` may word it better than its record.
To add a gate, declare it here with its condition and reasons, stamp it in
:mod:`datum_compute.decisions.instances.gates`, and decide its condition in the controller that
removes it. The conditions of a new Instance, their order, their schema and reference, Ready and
the Events follow from the record.

The module imports constants only, so that a command can read it without loading the kinds.
Values are the contract on the wire and never change.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from datum_compute.api.compute import constants


class Actor(StrEnum):
    """Who can act on a reason."""

    USER = "user"
    PLATFORM = "platform"
    WAIT = "nobody"
    """Work in progress: no one has to act."""


class KindCondition(NamedTuple):
    """A condition of one kind."""

    kind: str
    type: str


class Reason(NamedTuple):
    """What follows from a reason, whichever condition carries it."""

    name: str
    meaning: str
    """One or two sentences for the reference page."""
    actor: Actor = Actor.WAIT
    true: tuple[KindCondition, ...] = ()
    """The conditions that carry it while True; likewise ``false`` and ``unknown``. A reason
    with none of them is carried by Events alone."""
    false: tuple[KindCondition, ...] = ()
    unknown: tuple[KindCondition, ...] = ()
    priority: int = 0
    """How much it explains: rollups report the highest of several. 0 explains nothing that
    another reason would not explain better, 1 is progress, 3 waits for quota, 4 for data or room,
    5 is a failure of the Instance, 7 one of its network."""
    placeholder: bool = False
    """It explains nothing: the condition is not True yet."""
    terminal: bool = False
    """Waiting cannot help: the workload must be changed."""
    fails_after_grace: bool = False
    """Waiting rarely helps: a waiting client gives up after a grace period."""
    warns: bool = False
    """Worth a Warning although no one has to act."""
    usual_seconds: float | None = None
    """How long it usually lasts; None where time plays no part."""
    requested: bool = False
    """A user asked for it, so it is neither a failure nor worth a Warning."""
    healthy: bool = False
    """Nothing is wrong: the condition is True, or the work is routine."""
    metric_label: str = ""
    """Its value of ``reason`` in ``compute_quota_eval_failures_total``; empty where it counts
    as no failure of evaluation."""

    @property
    def needs_action(self) -> bool:
        """Whether it lasts until the user or the platform acts."""
        return self.actor is not Actor.WAIT

    @property
    def severity(self) -> tuple[bool, bool]:
        """For clients that compare deployments or Instances: the highest comes first."""
        return self.terminal, self.needs_action

    def actor_after(self, seconds: float) -> Actor:
        """Who can act once it has lasted this long: work in progress that takes much longer
        than usual is up to the platform."""
        overdue = self.usual_seconds is not None and seconds > self.usual_seconds
        return Actor.PLATFORM if overdue and not self.needs_action else self.actor


class Gate(NamedTuple):
    """A scheduling gate: no provider starts an Instance that has one left."""

    name: str
    condition: str = ""
    """The Instance condition that decides it; empty where none does."""
    reason: str = ""
    """What Programmed, Available and Ready report while that condition is False; empty where Ready
    has the reason of the condition and the other two are left alone."""
    initial_reason: str = ""
    """The reason of that condition on a new Instance, where it is Unknown; empty where a new
    Instance does not have the condition."""
    initial_message: str = ""


REASONS: dict[str, Reason] = {}
"""Every reason of the API by name, in the order of the reference page."""


def lookup(name: str) -> Reason:
    """The record of a reason. An unknown one, of an older or newer controller, counts as work
    in progress of no known duration."""
    return REASONS.get(name) or Reason(name, "", placeholder=not name)


def _declare(reason: Reason) -> str:
    REASONS[reason.name] = reason
    return reason.name


CONDITION_QUOTA_GRANTED = "QuotaGranted"
"""The project's budget covers the Instance. Once True it stays True."""

CONDITION_REFERENCED_DATA_READY = "ReferencedDataReady"
"""The cell has the ConfigMaps and Secrets that the template names. Absent where it names none."""

INSTANCE_PROGRAMMED = KindCondition("Instance", constants.CONDITION_PROGRAMMED)
INSTANCE_AVAILABLE = KindCondition("Instance", constants.CONDITION_AVAILABLE)
INSTANCE_READY = KindCondition("Instance", constants.CONDITION_READY)
INSTANCE_ASLEEP = KindCondition("Instance", constants.CONDITION_ASLEEP)
INSTANCE_QUOTA_GRANTED = KindCondition("Instance", CONDITION_QUOTA_GRANTED)
INSTANCE_REFERENCED_DATA = KindCondition("Instance", CONDITION_REFERENCED_DATA_READY)
DEPLOYMENT_REFERENCED_DATA = KindCondition("WorkloadDeployment", CONDITION_REFERENCED_DATA_READY)
DEPLOYMENT_AVAILABLE = KindCondition("WorkloadDeployment", constants.CONDITION_AVAILABLE)
DEPLOYMENT_REPLICAS_READY = KindCondition("WorkloadDeployment", constants.CONDITION_REPLICAS_READY)
DEPLOYMENT_CELL_REACHABLE = KindCondition("WorkloadDeployment", constants.CONDITION_CELL_REACHABLE)
DEPLOYMENT_SCHEDULED = KindCondition("WorkloadDeployment", constants.CONDITION_SCHEDULED)
DEPLOYMENT_PROPAGATED = KindCondition("WorkloadDeployment", constants.CONDITION_PROPAGATED)
DEPLOYMENT_FOUND_ON_HUB = KindCondition("WorkloadDeployment", constants.CONDITION_FOUND_ON_HUB)
DEPLOYMENT_REMOVED = KindCondition("WorkloadDeployment", constants.CONDITION_REMOVED)
WORKLOAD_AVAILABLE = KindCondition("Workload", constants.CONDITION_AVAILABLE)
WORKLOAD_PROGRESSING = KindCondition("Workload", constants.CONDITION_PROGRESSING)
WORKLOAD_RECONCILING = KindCondition("Workload", constants.CONDITION_RECONCILING)
WORKLOAD_STALLED = KindCondition("Workload", constants.CONDITION_STALLED)
PLACEMENT_AVAILABLE = KindCondition("Placement", constants.CONDITION_AVAILABLE)
PLACEMENT_SCHEDULED = KindCondition("Placement", constants.CONDITION_SCHEDULED_IN_CITY)

DEPLOYMENT_BLOCKING_CONDITIONS = {
    constants.CONDITION_SCHEDULED: ("False",),
    constants.CONDITION_CELL_REACHABLE: ("False",),
    constants.CONDITION_PROPAGATED: ("False",),
    constants.CONDITION_REPLICAS_READY: ("False", "Unknown"),
    CONDITION_REFERENCED_DATA_READY: ("False",),
}
"""What blocks a deployment: the first of these conditions that has one of its statuses."""

_MINUTE = 60.0
_ON_PROVIDER = (INSTANCE_PROGRAMMED, INSTANCE_AVAILABLE, INSTANCE_READY)
_ON_DEPLOYMENT = (DEPLOYMENT_AVAILABLE, DEPLOYMENT_REPLICAS_READY)
_ON_WORKLOAD = (WORKLOAD_AVAILABLE, PLACEMENT_AVAILABLE)
_ON_DATA = (
    INSTANCE_REFERENCED_DATA,
    INSTANCE_READY,
    DEPLOYMENT_REFERENCED_DATA,
    *_ON_DEPLOYMENT,
    *_ON_WORKLOAD,
)

# The durations are guesses at what a user may call normal, on the long side: a local platform
# takes seconds where a real network or registry takes minutes. Only that of ImageUnavailable
# is given: a registry is retried for that long.

# Instance: Programmed and Available.
REASON_PENDING = _declare(
    Reason(
        "Pending",
        "No controller has reconciled the Instance yet.",
        unknown=_ON_PROVIDER,
        placeholder=True,
        usual_seconds=_MINUTE,
    )
)
REASON_PENDING_PROGRAMMING = _declare(
    Reason(
        "PendingProgramming",
        "All gates are removed and no provider has begun.",
        false=(INSTANCE_PROGRAMMED, INSTANCE_READY),
        placeholder=True,
        usual_seconds=2 * _MINUTE,
    )
)
REASON_PROGRAMMING_IN_PROGRESS = _declare(
    Reason(
        "ProgrammingInProgress",
        "A provider is at work on the Instance.",
        unknown=(INSTANCE_PROGRAMMED,),
        usual_seconds=5 * _MINUTE,
    )
)
REASON_PROGRAMMED = _declare(
    Reason(
        "Programmed",
        "The provider runs the Instance in its present form.",
        true=(INSTANCE_PROGRAMMED,),
        healthy=True,
    )
)
REASON_PENDING_QUOTA = _declare(
    Reason(
        "PendingQuota",
        "The Instance waits for quota before anything is started.",
        Actor.USER,
        false=_ON_PROVIDER,
        priority=3,
    )
)

REASON_UNREADABLE = _declare(
    Reason(
        "Unreadable",
        "The object as it is stored cannot be read; the message names the field.",
        Actor.USER,
        false=(*_ON_DEPLOYMENT, WORKLOAD_AVAILABLE),
        priority=7,
        terminal=True,
    )
)

# Failures that a provider reports.
REASON_IMAGE_UNAVAILABLE = _declare(
    Reason(
        "ImageUnavailable",
        "The image cannot be pulled: a wrong name, no access, or no registry.",
        Actor.USER,
        false=_ON_PROVIDER,
        priority=5,
        terminal=True,
        usual_seconds=30 * _MINUTE,
    )
)
REASON_INSTANCE_CRASHING = _declare(
    Reason(
        "InstanceCrashing",
        "The program starts and ends again and again.",
        Actor.USER,
        false=_ON_PROVIDER,
        priority=5,
        terminal=True,
        usual_seconds=10 * _MINUTE,
    )
)
REASON_CONFIGURATION_ERROR = _declare(
    Reason(
        "ConfigurationError",
        "The Instance cannot be started as it is written.",
        Actor.USER,
        false=_ON_PROVIDER,
        priority=5,
        terminal=True,
    )
)

REASON_INSUFFICIENT_CAPACITY = _declare(
    Reason(
        "InsufficientCapacity",
        "The cell has no room for an Instance of this size at the moment.",
        Actor.PLATFORM,
        false=_ON_PROVIDER,
        priority=4,
        usual_seconds=10 * _MINUTE,
    )
)

# Instance: further reasons of Available.
REASON_AVAILABLE = _declare(
    Reason(
        "Available",
        "It is ready to serve, also while scaled to zero.",
        true=(INSTANCE_AVAILABLE, INSTANCE_READY),
        healthy=True,
    )
)
REASON_ASLEEP = _declare(
    Reason(
        "Asleep",
        "It is ready to serve and runs nothing until it is called.",
        true=(INSTANCE_AVAILABLE, INSTANCE_ASLEEP),
        healthy=True,
    )
)
REASON_AWAKE = _declare(
    Reason("Awake", "It runs, and sleeps when it is idle.", false=(INSTANCE_ASLEEP,), healthy=True)
)
REASON_SLEEP_NOT_SUPPORTED = _declare(
    Reason(
        "SleepNotSupported",
        "Its template asks for sleep, and what runs it there cannot let it sleep: it stays awake.",
        false=(INSTANCE_ASLEEP,),
        healthy=True,
    )
)
REASON_WAKE_FAILED = _declare(
    Reason(
        "WakeFailed",
        "A connection came while it was asleep, and it did not answer within its deadline.",
        Actor.USER,
        false=(INSTANCE_AVAILABLE, INSTANCE_READY),
        priority=5,
        warns=True,
    )
)
REASON_STOPPED = _declare(
    Reason(
        "Stopped",
        "The program has ended and is not started again.",
        false=(INSTANCE_AVAILABLE,),
        usual_seconds=2 * _MINUTE,
    )
)
REASON_STARTING = _declare(
    Reason(
        "Starting",
        "The program is starting.",
        false=(INSTANCE_AVAILABLE,),
        usual_seconds=5 * _MINUTE,
    )
)
REASON_STOPPING = _declare(
    Reason(
        "Stopping",
        "The program is being stopped.",
        false=(INSTANCE_AVAILABLE, INSTANCE_READY),
        usual_seconds=2 * _MINUTE,
    )
)
REASON_SUSPENDED = _declare(
    Reason(
        "Suspended",
        "It was stopped, and keeps its quota until it is started.",
        Actor.USER,
        false=(*_ON_PROVIDER, *_ON_DEPLOYMENT, *_ON_WORKLOAD),
        requested=True,
    )
)
REASON_PROVISIONING = _declare(
    Reason(
        "Provisioning",
        "What the program needs to run is being prepared.",
        false=(INSTANCE_PROGRAMMED, INSTANCE_AVAILABLE, INSTANCE_READY),
        unknown=(INSTANCE_AVAILABLE,),
        priority=1,
        usual_seconds=5 * _MINUTE,
    )
)
REASON_FAILED = _declare(
    Reason(
        "Failed",
        "The provider has given the Instance up; the message has the cause.",
        Actor.PLATFORM,
        false=(INSTANCE_AVAILABLE,),
    )
)

# Instance: further reasons of Ready.
REASON_SCHEDULING_GATES_PRESENT = _declare(
    Reason(
        "SchedulingGatesPresent",
        "A gate is left; no provider may start the Instance.",
        false=(INSTANCE_READY,),
        usual_seconds=2 * _MINUTE,
    )
)
REASON_NETWORK_FAILED_TO_CREATE = _declare(
    Reason(
        "NetworkFailedToCreate",
        "A network of the Instance cannot be set up at its location.",
        Actor.PLATFORM,
        false=(INSTANCE_READY,),
        priority=7,
    )
)

# Instance: QuotaGranted.
REASON_PENDING_EVALUATION = _declare(
    Reason(
        "PendingEvaluation",
        "The claim is not created or not evaluated yet.",
        unknown=(INSTANCE_QUOTA_GRANTED,),
        usual_seconds=_MINUTE,
    )
)
REASON_QUOTA_NO_BUDGET = _declare(
    Reason(
        "QuotaNoBudget",
        "The claim waits because the project has no budget of that resource.",
        unknown=(INSTANCE_QUOTA_GRANTED,),
        usual_seconds=_MINUTE,
        metric_label="no_budget",
    )
)
REASON_QUOTA_AVAILABLE = _declare(
    Reason(
        "QuotaAvailable",
        "The claim was granted.",
        true=(INSTANCE_QUOTA_GRANTED,),
        healthy=True,
    )
)
REASON_QUOTA_DISABLED = _declare(
    Reason(
        "QuotaDisabled",
        "The cell has no access to quota and claims none.",
        true=(INSTANCE_QUOTA_GRANTED,),
        healthy=True,
    )
)
REASON_QUOTA_EXCEEDED = _declare(
    Reason(
        "QuotaExceeded",
        "The claim was denied: the budget does not cover it.",
        Actor.USER,
        false=(INSTANCE_QUOTA_GRANTED,),
        fails_after_grace=True,
    )
)
REASON_VALIDATION_FAILED = _declare(
    Reason(
        "ValidationFailed",
        "The claim was refused as malformed; the message has the cause.",
        Actor.PLATFORM,
        false=(INSTANCE_QUOTA_GRANTED,),
        fails_after_grace=True,
    )
)
REASON_QUOTA_BACKEND_UNAVAILABLE = _declare(
    Reason(
        "QuotaBackendUnavailable",
        "The quota service does not answer.",
        Actor.PLATFORM,
        false=(INSTANCE_QUOTA_GRANTED,),
        usual_seconds=5 * _MINUTE,
        metric_label="backend_unavailable",
    )
)
REASON_QUOTA_PROJECT_NOT_FOUND = _declare(
    Reason(
        "QuotaProjectNotFound",
        "The quota service does not know the project.",
        Actor.PLATFORM,
        false=(INSTANCE_QUOTA_GRANTED,),
        metric_label="project_not_found",
    )
)
REASON_QUOTA_NAMESPACE_NOT_FOUND = _declare(
    Reason(
        "QuotaNamespaceNotFound",
        "The namespace claims go to does not exist in the project.",
        Actor.PLATFORM,
        false=(INSTANCE_QUOTA_GRANTED,),
        metric_label="namespace_not_found",
    )
)
REASON_QUOTA_MISCONFIGURED = _declare(
    Reason(
        "QuotaMisconfigured",
        "The claim may not be created: a registration or a right is missing.",
        Actor.PLATFORM,
        false=(INSTANCE_QUOTA_GRANTED,),
        metric_label="misconfigured",
    )
)
REASON_QUOTA_PROJECT_ID_UNRESOLVABLE = _declare(
    Reason(
        "QuotaProjectIDUnresolvable",
        "The cell's namespace does not name the project it serves.",
        Actor.PLATFORM,
        false=(INSTANCE_QUOTA_GRANTED,),
        metric_label="project_id_unresolvable",
    )
)

# Instance and WorkloadDeployment: ReferencedDataReady.
REASON_RESOLVING = _declare(
    Reason(
        "Resolving",
        "The ConfigMaps and Secrets that the template names are being read in the project.",
        false=_ON_DATA,
        priority=4,
        usual_seconds=_MINUTE,
    )
)
REASON_AWAITING_PROPAGATION = _declare(
    Reason(
        "AwaitingPropagation",
        "ConfigMaps or Secrets that the template names are on their way to the cell.",
        false=_ON_DATA,
        priority=4,
        usual_seconds=2 * _MINUTE,
    )
)
REASON_SOURCE_NOT_FOUND = _declare(
    Reason(
        "SourceNotFound",
        "A ConfigMap or Secret that the template names does not exist in the project.",
        Actor.USER,
        false=_ON_DATA,
        priority=5,
        fails_after_grace=True,
    )
)
REASON_SOURCE_UNAUTHORIZED = _declare(
    Reason(
        "SourceUnauthorized",
        "A ConfigMap or Secret that the template names may not be read or copied by the platform.",
        Actor.PLATFORM,
        false=_ON_DATA,
        priority=5,
        fails_after_grace=True,
    )
)
REASON_SOURCE_TOO_LARGE = _declare(
    Reason(
        "SourceTooLarge",
        "The ConfigMaps and Secrets that the template names are too large to be delivered.",
        Actor.USER,
        false=_ON_DATA,
        priority=5,
        fails_after_grace=True,
    )
)
REASON_DATA_READY = _declare(
    Reason(
        "Ready",
        "The cell has every ConfigMap and Secret that the template names.",
        true=(INSTANCE_REFERENCED_DATA, DEPLOYMENT_REFERENCED_DATA),
        healthy=True,
    )
)

# WorkloadDeployment.
REASON_STABLE_INSTANCE_FOUND = _declare(
    Reason(
        "StableInstanceFound",
        "At least one Instance is Ready.",
        true=(DEPLOYMENT_AVAILABLE,),
        healthy=True,
    )
)
REASON_NO_MATCHING_LOCATION = _declare(
    Reason(
        "NoMatchingLocation",
        "No Location the project may use serves the city.",
        Actor.USER,
        false=(*_ON_DEPLOYMENT, *_ON_WORKLOAD, PLACEMENT_SCHEDULED),
        priority=6,
        fails_after_grace=True,
    )
)
REASON_PROVISIONING_NETWORK = _declare(
    Reason(
        "ProvisioningNetwork",
        "The networks of the deployment are being set up in the cell.",
        false=_ON_DEPLOYMENT,
        usual_seconds=2 * _MINUTE,
    )
)
REASON_PROVISIONING_INSTANCES = _declare(
    Reason(
        "ProvisioningInstances",
        "Instances are being started and none is Ready.",
        false=_ON_DEPLOYMENT,
        usual_seconds=5 * _MINUTE,
    )
)
REASON_PROJECT_SUSPENDED = _declare(
    Reason(
        "ProjectSuspended",
        "The project is suspended, and everything in it is stopped until it is active again.",
        Actor.PLATFORM,
        false=(*_ON_DEPLOYMENT, *_ON_WORKLOAD),
    )
)
REASON_NO_CELL_FOR_CITY = _declare(
    Reason(
        "NoCellForCity",
        "No cell serves the city.",
        Actor.PLATFORM,
        false=(*_ON_DEPLOYMENT, DEPLOYMENT_SCHEDULED, *_ON_WORKLOAD),
        priority=6,
        fails_after_grace=True,
    )
)
REASON_AMBIGUOUS_CELL = _declare(
    Reason(
        "AmbiguousCell",
        "More than one cell was chosen for the city.",
        Actor.PLATFORM,
        false=(*_ON_DEPLOYMENT, DEPLOYMENT_SCHEDULED, *_ON_WORKLOAD),
        priority=6,
        fails_after_grace=True,
    )
)
REASON_NOT_PROPAGATED = _declare(
    Reason(
        "NotPropagated",
        "The hub propagates the deployment to no cell, and has been asked to.",
        false=(*_ON_DEPLOYMENT, DEPLOYMENT_SCHEDULED, *_ON_WORKLOAD),
        priority=6,
        warns=True,
        usual_seconds=_MINUTE,
    )
)
REASON_HUB_REFUSED = _declare(
    Reason(
        "HubRefused",
        "The hub does not accept the deployment or its policy; the message has the cause.",
        Actor.PLATFORM,
        false=(*_ON_DEPLOYMENT, DEPLOYMENT_SCHEDULED, *_ON_WORKLOAD),
        priority=6,
    )
)
REASON_REPLICAS_AVAILABLE = _declare(
    Reason(
        "ReplicasAvailable",
        "As many Instances are Ready as are wanted.",
        true=(DEPLOYMENT_REPLICAS_READY,),
        healthy=True,
    )
)
REASON_CELL_DISCONNECTED = _declare(
    Reason(
        "CellDisconnected",
        "The cell is disconnected from the hub, and replaces no Instance until it is back.",
        false=(DEPLOYMENT_REPLICAS_READY,),
        usual_seconds=30 * _MINUTE,
    )
)
REASON_CELL_READY = _declare(
    Reason(
        "CellReady",
        "The cell answers.",
        true=(DEPLOYMENT_CELL_REACHABLE,),
        healthy=True,
    )
)
REASON_CELL_UNREACHABLE = _declare(
    Reason(
        "CellUnreachable",
        "The cell does not answer; the message has the time since when.",
        false=(DEPLOYMENT_CELL_REACHABLE,),
        warns=True,
        usual_seconds=30 * _MINUTE,
    )
)
REASON_CELL_BEHIND = _declare(
    Reason(
        "CellBehind",
        "The cell answers and has not reported on the present spec; the hub has been asked to send"
        " it again.",
        false=(DEPLOYMENT_PROPAGATED,),
        warns=True,
        usual_seconds=2 * _MINUTE,
    )
)
REASON_SCHEDULED = _declare(
    Reason(
        "Scheduled",
        "One cell was found for the city.",
        true=(DEPLOYMENT_SCHEDULED,),
        healthy=True,
    )
)
REASON_DRAINING = _declare(
    Reason(
        "Draining",
        "The cell is stopping the Instances of a deleted deployment.",
        false=(DEPLOYMENT_REMOVED,),
        usual_seconds=10 * _MINUTE,
    )
)
REASON_DRAIN_NOT_ACKNOWLEDGED = _declare(
    Reason(
        "DrainNotAcknowledged",
        "The cell has not acknowledged that it is to stop the Instances of a deleted deployment.",
        false=(DEPLOYMENT_REMOVED,),
        warns=True,
        usual_seconds=2 * _MINUTE,
    )
)
REASON_DRAIN_REFUSED = _declare(
    Reason(
        "DrainRefused",
        "The cell does not accept the change that stops the Instances of a deleted deployment.",
        Actor.PLATFORM,
        false=(DEPLOYMENT_REMOVED,),
    )
)
REASON_REMOVING_FROM_HUB = _declare(
    Reason(
        "RemovingFromHub",
        "The hub still has objects of a deleted deployment, which go when its cell answers.",
        false=(DEPLOYMENT_REMOVED,),
        usual_seconds=30 * _MINUTE,
    )
)
REASON_HUB_COPY_MISSING = _declare(
    Reason(
        "HubCopyMissing",
        "The hub has no copy of the deployment; the cell deletes it after ten minutes.",
        Actor.PLATFORM,
        false=(DEPLOYMENT_FOUND_ON_HUB,),
    )
)

# Workload and placement.
REASON_AVAILABLE_PLACEMENT_FOUND = _declare(
    Reason(
        "AvailablePlacementFound",
        "At least one placement is available.",
        true=(WORKLOAD_AVAILABLE,),
        healthy=True,
    )
)
REASON_AVAILABLE_DEPLOYMENT_FOUND = _declare(
    Reason(
        "AvailableDeploymentFound",
        "At least one deployment of the placement is available.",
        true=(PLACEMENT_AVAILABLE,),
        healthy=True,
    )
)
REASON_NO_AVAILABLE_PLACEMENTS = _declare(
    Reason(
        "NoAvailablePlacements",
        "No placement is available.",
        false=(WORKLOAD_AVAILABLE,),
        placeholder=True,
        usual_seconds=5 * _MINUTE,
    )
)
REASON_NO_AVAILABLE_DEPLOYMENTS = _declare(
    Reason(
        "NoAvailableDeployments",
        "No deployment of the placement is available.",
        false=(PLACEMENT_AVAILABLE,),
        placeholder=True,
        usual_seconds=5 * _MINUTE,
    )
)
REASON_NETWORK_NOT_FOUND = _declare(
    Reason(
        "NetworkNotFound",
        "A network the template names does not exist in the project.",
        Actor.USER,
        false=(WORKLOAD_AVAILABLE,),
    )
)
REASON_PREVIOUS_DEPLOYMENT_TERMINATING = _declare(
    Reason(
        "PreviousDeploymentTerminating",
        "A deployment of the same name, of a deleted workload, is still being deleted.",
        false=_ON_WORKLOAD,
        priority=5,
        usual_seconds=10 * _MINUTE,
    )
)

# Workload: Progressing, and with it Reconciling or Stalled.
REASON_WAVE_IN_PROGRESS = _declare(
    Reason(
        "WaveInProgress",
        "The cities of a wave get the newest template.",
        true=(WORKLOAD_PROGRESSING, WORKLOAD_RECONCILING),
        healthy=True,
    )
)
REASON_SOAKING = _declare(
    Reason(
        "Soaking",
        "A wave is ready, and must stay so for a while before the next one opens.",
        true=(WORKLOAD_PROGRESSING, WORKLOAD_RECONCILING),
        healthy=True,
    )
)
REASON_WAITING_FOR_GATE = _declare(
    Reason(
        "WaitingForGate",
        "The next wave waits for a condition that others set on the Workload.",
        Actor.USER,
        true=(WORKLOAD_PROGRESSING, WORKLOAD_RECONCILING),
    )
)
REASON_COMPLETE = _declare(
    Reason(
        "Complete",
        "Every city that is not skipped has completed its wave with the newest template.",
        true=(WORKLOAD_PROGRESSING,),
        healthy=True,
    )
)
REASON_PAUSED = _declare(
    Reason(
        "Paused",
        "A person has paused the rollout; the message has who and when.",
        Actor.USER,
        true=(WORKLOAD_RECONCILING,),
        false=(WORKLOAD_PROGRESSING,),
    )
)
REASON_WAVE_FAILED = _declare(
    Reason(
        "WaveFailed",
        "A city did not become ready with the newest template; later waves stay closed.",
        Actor.USER,
        true=(WORKLOAD_STALLED,),
        false=(WORKLOAD_PROGRESSING,),
        terminal=True,
    )
)
REASON_ROLLED_BACK = _declare(
    Reason(
        "RolledBack",
        "The newest template was undone; every city it had reached runs its last good one.",
        Actor.USER,
        true=(WORKLOAD_STALLED,),
        false=(WORKLOAD_PROGRESSING,),
        terminal=True,
    )
)
REASON_INVALID_ROLLOUT_POLICY = _declare(
    Reason(
        "InvalidRolloutPolicy",
        "The rollout policy of the Workload cannot be read, so nothing is rolled.",
        Actor.USER,
        true=(WORKLOAD_STALLED,),
        false=(WORKLOAD_PROGRESSING,),
        terminal=True,
    )
)

# Events alone, never a condition.
REASON_SCALED = _declare(
    Reason(
        "Scaled",
        "The wanted number of Instances was changed.",
        healthy=True,
    )
)
REASON_RECREATED = _declare(
    Reason(
        "Recreated",
        "An Instance was replaced by one of the newest template.",
        healthy=True,
    )
)
REASON_TERMINATING = _declare(
    Reason(
        "Terminating",
        "An Instance is being removed.",
        healthy=True,
    )
)
REASON_COMMAND_RUN = _declare(
    Reason(
        "CommandRun",
        "A user runs a command in an Instance.",
        healthy=True,
    )
)
REASON_QUOTA_CLAIM_ORPHANED = _declare(
    Reason(
        "QuotaClaimOrphaned",
        "The claim of a deleted Instance was left behind.",
        Actor.PLATFORM,
    )
)

PROVIDER_FAILURES = tuple(
    each.name for each in REASONS.values() if each.terminal and INSTANCE_PROGRAMMED in each.false
)
"""The failures that a provider reports on Programmed or Available."""

GATE_NETWORK = "Network"
"""Held until the Instance's networks are ready in the cell."""
GATE_QUOTA = "Quota"
"""Held until the Instance's quota is granted."""
GATE_REFERENCED_DATA = "ReferencedData"
"""Held until the cell has the ConfigMaps and Secrets that the Instance names."""

WAITING_FOR_QUOTA = "Waiting for quota evaluation"

GATES = {
    each.name: each
    for each in (
        Gate(GATE_NETWORK),
        Gate(
            GATE_QUOTA,
            CONDITION_QUOTA_GRANTED,
            REASON_PENDING_QUOTA,
            REASON_PENDING_EVALUATION,
            WAITING_FOR_QUOTA,
        ),
        Gate(GATE_REFERENCED_DATA, CONDITION_REFERENCED_DATA_READY),
    )
}
"""Gates by name, in the order in which they are stamped."""

DECIDED_GATES = tuple(each for each in GATES.values() if each.condition)
"""Those that a condition of the Instance decides, in the order of the conditions."""

GATE_REASONS = frozenset(each.reason for each in DECIDED_GATES if each.reason)
"""Reasons that only repeat a gate's own condition."""
