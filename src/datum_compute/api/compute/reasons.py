"""What each reason of a condition means to a person.

The API says why something is not there with a reason; this says for every one of them who
can act, how long it is normal, whether it is in the way, what it is called in plain words
and what to try. It knows nothing but the vocabulary and the standard library, so that a
command can ask without loading typed kinds. A reason that nobody here declared (an older
or a newer controller's) gets :func:`explain`'s careful answer instead of an error.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from datum_compute.api.compute import constants

PROGRAM = "datumctl-compute"


class Actor(StrEnum):
    """Who can act."""

    USER = "you"
    PLATFORM = "the platform"
    WAIT = "nobody: it is in progress"


class Explanation(NamedTuple):
    """What stands behind a reason."""

    reason: str
    summary: str
    """How the CLI calls it: lower case, no full stop."""
    actor: Actor = Actor.WAIT
    advice: str = ""
    """What that actor does about it; a sentence, or nothing where all is well."""
    usual_seconds: float | None = None
    """In which time it usually passes by itself; None where time plays no part."""
    command: str = ""
    """What to type next, with ``{workload}`` where a workload's name belongs."""
    healthy: bool = False
    """Whether it tells of nothing wrong: of a condition that is True, or of work being done."""

    @property
    def blocks(self) -> bool:
        """Whether somebody must act before it goes on: more than ordinary waiting."""
        return self.actor is not Actor.WAIT

    def actor_after(self, standing_seconds: float) -> Actor:
        """Who can act now that it has stood so long: what is in progress for much longer
        than usual is the platform's concern."""
        overdue = self.usual_seconds is not None and standing_seconds > self.usual_seconds
        return Actor.PLATFORM if overdue and not self.blocks else self.actor

    def next_command(self, workload: str) -> str:
        return self.command.replace("{workload}", workload)


def explain(reason: str) -> Explanation:
    """What is known of a reason; an unknown one is in progress until it is shown otherwise."""
    found = CATALOGUE.get(reason)
    return found or Explanation(reason, humanize_reason(reason), command=_WHY)


def humanize_reason(reason: str) -> str:
    """``PendingProgramming`` as ``pending programming``."""
    spaced = "".join(f" {c.lower()}" if c.isupper() else c for c in reason)
    return spaced.strip()


_WHY = f"{PROGRAM} why {{workload}}"
_STATUS = f"{PROGRAM} status {{workload}}"
_WATCH = f"{PROGRAM} rollout status {{workload}}"
_DEPLOY = f"{PROGRAM} deploy {{workload}}"
_QUOTA = f"{PROGRAM} quota"
_CITIES = f"{PROGRAM} cities"

_MINUTE = 60.0


def _all_well(reason: str, said: str) -> Explanation:
    return Explanation(reason, said, healthy=True)


def _in_progress(
    reason: str, said: str, usual_seconds: float, advice: str, command: str = _WATCH
) -> Explanation:
    return Explanation(reason, said, Actor.WAIT, advice, usual_seconds, command)


def _yours(
    reason: str, said: str, advice: str, command: str, usual_seconds: float | None = None
) -> Explanation:
    return Explanation(reason, said, Actor.USER, advice, usual_seconds, command)


def _platforms(
    reason: str, said: str, advice: str, usual_seconds: float | None = None, command: str = _WHY
) -> Explanation:
    return Explanation(reason, said, Actor.PLATFORM, advice, usual_seconds, command)


# The times below are guesses at what a person may call normal, on the long side: a local
# platform takes seconds where a real network or registry takes minutes. Only that of
# ImageUnavailable is given: registries are asked again for so long.
_ALL = (
    # Instance: Programmed and Available.
    _in_progress(
        constants.REASON_PENDING,
        "waiting to be looked at",
        _MINUTE,
        "Nobody needs to act: the controllers have not looked at it yet.",
    ),
    _in_progress(
        constants.REASON_PENDING_PROGRAMMING,
        "waiting to be started",
        2 * _MINUTE,
        "Nobody needs to act: the cell is about to start it.",
    ),
    _in_progress(
        constants.REASON_PROGRAMMING_IN_PROGRESS,
        "starting",
        5 * _MINUTE,
        "Nobody needs to act: the cell is starting it.",
    ),
    _all_well(constants.REASON_PROGRAMMED, "started"),
    _yours(
        constants.REASON_PENDING_QUOTA,
        "waiting for quota",
        "Free some quota, or ask for more: the project has none left for it.",
        _QUOTA,
    ),
    _yours(
        constants.REASON_IMAGE_UNAVAILABLE,
        "image unavailable",
        "Deploy an image that exists and can be pulled.",
        f"{_DEPLOY} --image=IMAGE",
        30 * _MINUTE,
    ),
    _yours(
        constants.REASON_INSTANCE_CRASHING,
        "crashing",
        "Look at what it prints, and deploy one that stays up: the process keeps ending.",
        f"{PROGRAM} logs {{workload}}",
        10 * _MINUTE,
    ),
    _yours(
        constants.REASON_CONFIGURATION_ERROR,
        "configuration error",
        "Change what the message names: it cannot be had as it is.",
        f"{PROGRAM} workloads describe {{workload}}",
    ),
    _all_well(constants.REASON_AVAILABLE, "available"),
    _all_well(constants.REASON_ASLEEP, "asleep until it is called"),
    _in_progress(
        constants.REASON_STOPPED,
        "stopped",
        2 * _MINUTE,
        "Nobody needs to act: it is not running at the moment.",
    ),
    _in_progress(
        constants.REASON_STARTING, "starting", 5 * _MINUTE, "Nobody needs to act: it is starting."
    ),
    _in_progress(
        constants.REASON_STOPPING, "stopping", 2 * _MINUTE, "Nobody needs to act: it is stopping."
    ),
    _in_progress(
        constants.REASON_PROVISIONING,
        "being provisioned",
        5 * _MINUTE,
        "Nobody needs to act: the cell is preparing it.",
    ),
    _platforms(
        constants.REASON_FAILED,
        "failed",
        "The cell could not run it: the platform team has to look, or deploy it anew.",
    ),
    # Instance: Ready.
    _in_progress(
        constants.REASON_SCHEDULING_GATES_PRESENT,
        "waiting for network and quota",
        2 * _MINUTE,
        "Nobody needs to act: it starts when its network and its quota are there.",
    ),
    _platforms(
        constants.REASON_NETWORK_FAILED_TO_CREATE,
        "network could not be created",
        "The network could not be made in that city: the platform team has to look.",
    ),
    # Instance: QuotaGranted.
    _in_progress(
        constants.REASON_PENDING_EVALUATION,
        "quota evaluation",
        _MINUTE,
        "Nobody needs to act: quota is being asked for.",
    ),
    _in_progress(
        constants.REASON_QUOTA_NO_BUDGET,
        "no quota budget yet",
        _MINUTE,
        "Nobody needs to act yet: the project's budget is being set up.",
        _QUOTA,
    ),
    _all_well(constants.REASON_QUOTA_AVAILABLE, "quota granted"),
    _all_well(constants.REASON_QUOTA_DISABLED, "quota not enforced"),
    _yours(
        constants.REASON_QUOTA_EXCEEDED,
        "quota exceeded",
        "Free some quota by scaling something down or destroying it, or ask for more.",
        _QUOTA,
    ),
    _platforms(
        constants.REASON_VALIDATION_FAILED,
        "quota validation failed",
        "The quota service refuses the request as such: the platform team has to look.",
        command=_QUOTA,
    ),
    _platforms(
        constants.REASON_QUOTA_BACKEND_UNAVAILABLE,
        "quota service unavailable",
        "The quota service does not answer; it is asked again and again.",
        5 * _MINUTE,
    ),
    _platforms(
        constants.REASON_QUOTA_PROJECT_NOT_FOUND,
        "quota service does not know the project",
        "The quota service does not know this project: the platform team has to look.",
    ),
    _platforms(
        constants.REASON_QUOTA_NAMESPACE_NOT_FOUND,
        "quota service does not know the namespace",
        "The quota service does not know this namespace: the platform team has to look.",
    ),
    _platforms(
        constants.REASON_QUOTA_MISCONFIGURED,
        "quota misconfigured",
        "The cell may not ask for quota as it does: the platform team has to look.",
    ),
    _platforms(
        constants.REASON_QUOTA_PROJECT_ID_UNRESOLVABLE,
        "project of the cell's namespace unknown",
        "The cell cannot tell whose quota to use: the platform team has to look.",
    ),
    _platforms(
        constants.REASON_QUOTA_CLAIM_ORPHANED,
        "a quota claim was left behind",
        "Some quota may stay in use that nothing needs: the platform team can release it.",
        command=_QUOTA,
    ),
    # WorkloadDeployment.
    _all_well(constants.REASON_STABLE_INSTANCE_FOUND, "an instance is available"),
    _yours(
        constants.REASON_NO_MATCHING_LOCATION,
        "city not served",
        "Choose another city: no location of this one is open to the project.",
        _CITIES,
    ),
    _in_progress(
        constants.REASON_PROVISIONING_NETWORK,
        "network being provisioned",
        2 * _MINUTE,
        "Nobody needs to act: the network is being made ready in that city.",
    ),
    _in_progress(
        constants.REASON_PROVISIONING_INSTANCES,
        "instances being provisioned",
        5 * _MINUTE,
        "Nobody needs to act: instances are being started one by one.",
    ),
    _all_well(constants.REASON_REPLICAS_AVAILABLE, "all instances available"),
    _all_well(constants.REASON_CELL_READY, "cell reachable"),
    _in_progress(
        constants.REASON_CELL_UNREACHABLE,
        "cell does not answer",
        30 * _MINUTE,
        "Nobody needs to act yet; the platform team is concerned.",
        _STATUS,
    ),
    _in_progress(
        constants.REASON_CELL_DISCONNECTED,
        "cell cut off from the centre",
        30 * _MINUTE,
        "Nobody needs to act yet: updates go on when the cell is in touch again.",
        _STATUS,
    ),
    _all_well(constants.REASON_SCHEDULED, "placed in a cell"),
    _platforms(
        constants.REASON_NO_CELL_FOR_CITY,
        "no cell serves the city",
        "No cell of the platform serves that city: choose another city, or ask the platform team.",
        command=_CITIES,
    ),
    _platforms(
        constants.REASON_AMBIGUOUS_CELL,
        "more than one cell serves the city",
        "More than one cell took the city: the platform team has to settle which.",
        command=_STATUS,
    ),
    # Events that tell what is being done.
    _all_well(constants.REASON_SCALED, "scaled"),
    _all_well(constants.REASON_RECREATED, "replaced by one of the newest template"),
    _all_well(constants.REASON_TERMINATING, "being removed"),
    # Workload and placement.
    _all_well(constants.REASON_AVAILABLE_PLACEMENT_FOUND, "available"),
    _all_well(constants.REASON_AVAILABLE_DEPLOYMENT_FOUND, "available"),
    _in_progress(
        constants.REASON_NO_AVAILABLE_PLACEMENTS,
        "no placement available yet",
        5 * _MINUTE,
        "Nobody needs to act: no city has an available instance yet.",
        _WHY,
    ),
    _in_progress(
        constants.REASON_NO_AVAILABLE_DEPLOYMENTS,
        "no city available yet",
        5 * _MINUTE,
        "Nobody needs to act: no city has an available instance yet.",
        _WHY,
    ),
    _yours(
        constants.REASON_NETWORK_NOT_FOUND,
        "network not found",
        "Name a network that exists in the project: this one does not.",
        f"{_DEPLOY} --network=default",
    ),
    _in_progress(
        constants.REASON_PREVIOUS_DEPLOYMENT_TERMINATING,
        "the one before is still being removed",
        10 * _MINUTE,
        "Nobody needs to act: it starts when what had its name is gone.",
    ),
)

CATALOGUE = {each.reason: each for each in _ALL}
