"""What the CLI says about a reason: a label, advice, and the command to run next.

Who can act on a reason, and whether waiting helps, is in its record in
:mod:`datum_compute.api.compute.reasons`. A reason of an older or newer controller, which has
no record, is described by its own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from datum_compute.api.compute import reasons
from datum_compute.api.compute.reasons import Actor, Reason
from datum_compute.cli.explain.suggestions import Command, command

if TYPE_CHECKING:
    from datum_compute.cli.explain.missing_data import Missing

WORKLOAD = "{workload}"
"""Placeholder in a next step for the workload's name."""

FINALIZERS_REMAIN = "SomeFinalizersRemain"
"""What keeps a namespace of Kubernetes, too; no condition of ours carries it."""


class ReasonText(NamedTuple):
    summary: str
    """A label: lower case, no full stop."""
    advice: str = ""
    """What the actor should do, as a sentence; empty if nothing is wrong."""
    next_step: Command | None = None


class Explanation(NamedTuple):
    """A reason's record and its text."""

    reason: Reason
    text: ReasonText

    @property
    def summary(self) -> str:
        return self.text.summary

    def actor_after(self, seconds: float) -> Actor:
        return self.reason.actor_after(seconds)

    def advice_after(self, seconds: float) -> str:
        """What the actor should do once it has lasted this long."""
        if self.actor_after(seconds) is Actor.PLATFORM and not self.reason.needs_action:
            return "This is taking longer than usual: contact the platform team."
        return self.text.advice

    @property
    def concerns_data(self) -> bool:
        """Whether the next step is to create what the template names, if that does not exist."""
        return self.reason.name in _OF_DATA

    def next_command(self, workload: str, missing: Sequence[Missing] = ()) -> Command | None:
        """What to run next; every command that meets the reason suggests it. ``missing`` is the
        data that the template names and that does not exist, where the reason concerns it."""
        if missing:
            from datum_compute.cli.explain.missing_data import creating_commands

            return creating_commands(missing)[0]
        return None if self.text.next_step is None else _filled_in(self.text.next_step, workload)

    def next_command_after_why(
        self, workload: str, missing: Sequence[Missing] = ()
    ) -> Command | None:
        """The same for a user who has read the explanation: none where the next step shows it
        again."""
        found = self.next_command(workload, missing)
        return None if found in (command("why", workload), command("status", workload)) else found


_OF_DATA = (reasons.REASON_SOURCE_NOT_FOUND, reasons.REASON_CONFIGURATION_ERROR)


def _filled_in(step: Command, workload: str) -> Command:
    return Command(tuple(workload if word == WORKLOAD else word for word in step.words))


def explain(name: str) -> Explanation:
    """The record and the text of a reason. Without a text of its own, a reason is described by
    its name and by the meaning in its record; an unknown one by its name alone."""
    if name == FINALIZERS_REMAIN:
        return _HELD
    record = reasons.lookup(name)
    return Explanation(record, TEXTS.get(name) or _default_text(record))


_HELD = Explanation(
    Reason(FINALIZERS_REMAIN, "", Actor.USER),
    ReasonText(
        "held by a finalizer",
        "The program that set the finalizer removes it; where that is gone, remove it with"
        " kubectl.",
    ),
)


def _default_text(record: Reason) -> ReasonText:
    if record.healthy:
        return ReasonText(humanize(record.name))
    return ReasonText(humanize(record.name), record.meaning, _WHY)


def humanize(name: str) -> str:
    """``PendingProgramming`` as ``pending programming``."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


_WHY = command("why", WORKLOAD)
_STATUS = command("status", WORKLOAD)
_WATCH = command("rollout", "status", WORKLOAD)
_QUOTA = command("quota")
_CITIES = command("cities")

TEXTS = {
    reasons.REASON_PENDING: ReasonText(
        "waiting for a controller",
        "No action needed: no controller has handled it yet.",
        _WATCH,
    ),
    reasons.REASON_PENDING_PROGRAMMING: ReasonText(
        "waiting to be started", "No action needed: the cell is about to start it.", _WATCH
    ),
    reasons.REASON_PROGRAMMING_IN_PROGRESS: ReasonText(
        "starting", "No action needed: the cell is starting it.", _WATCH
    ),
    reasons.REASON_PROGRAMMED: ReasonText("started"),
    reasons.REASON_PENDING_QUOTA: ReasonText(
        "waiting for quota",
        "Free some quota or request more: the project has none left.",
        _QUOTA,
    ),
    reasons.REASON_IMAGE_UNAVAILABLE: ReasonText(
        "image unavailable",
        "Deploy an image that exists and can be pulled.",
        command("deploy", WORKLOAD, "--image=IMAGE"),
    ),
    reasons.REASON_INSTANCE_CRASHING: ReasonText(
        "crashing",
        "Check its logs for why the process ended, and deploy a fix.",
        command("logs", WORKLOAD),
    ),
    reasons.REASON_CONFIGURATION_ERROR: ReasonText(
        "configuration error",
        "Fix the configuration that the message names, and deploy it again.",
        command("deploy", "-f", "FILE"),
    ),
    reasons.REASON_INSUFFICIENT_CAPACITY: ReasonText(
        "no room",
        "The cell has no room for it: free some, deploy a smaller size, or choose another city.",
        command("instances"),
    ),
    reasons.REASON_AVAILABLE: ReasonText("available"),
    reasons.REASON_ASLEEP: ReasonText("asleep until the next connection"),
    reasons.REASON_WAKE_FAILED: ReasonText(
        "does not wake",
        "A connection should have woken it, and it did not answer in time: check its logs.",
        command("logs", WORKLOAD),
    ),
    reasons.REASON_STOPPED: ReasonText(
        "stopped", "No action needed: it is not running at the moment.", _WATCH
    ),
    reasons.REASON_STARTING: ReasonText("starting", "No action needed: it is starting.", _WATCH),
    reasons.REASON_STOPPING: ReasonText("stopping", "No action needed: it is stopping.", _WATCH),
    reasons.REASON_SUSPENDED: ReasonText(
        "stopped", "Start it when it should run again.", command("start", WORKLOAD)
    ),
    reasons.REASON_PROJECT_SUSPENDED: ReasonText(
        "project suspended",
        "The project is suspended: contact the platform team.",
        command("access"),
    ),
    reasons.REASON_PROVISIONING: ReasonText(
        "being provisioned", "No action needed: the cell is preparing it.", _WATCH
    ),
    reasons.REASON_FAILED: ReasonText(
        "failed",
        "The cell could not run it: contact the platform team, or deploy it again.",
        _WHY,
    ),
    reasons.REASON_SCHEDULING_GATES_PRESENT: ReasonText(
        "waiting for network and quota",
        "No action needed: it starts once its network and quota are ready.",
        _WATCH,
    ),
    reasons.REASON_NETWORK_FAILED_TO_CREATE: ReasonText(
        "network could not be created",
        "The network could not be created in that city: contact the platform team.",
        _WHY,
    ),
    reasons.REASON_PENDING_EVALUATION: ReasonText(
        "quota evaluation", "No action needed: quota is being requested.", _WATCH
    ),
    reasons.REASON_RESOLVING: ReasonText(
        "reading its data",
        "No action needed: the ConfigMaps and Secrets that it names are being read.",
        _WATCH,
    ),
    reasons.REASON_AWAITING_PROPAGATION: ReasonText(
        "waiting for its data",
        "No action needed: the ConfigMaps and Secrets that it names are on their way to the city.",
        _WATCH,
    ),
    reasons.REASON_SOURCE_NOT_FOUND: ReasonText(
        "data missing",
        "Create what the message names, which needs the role compute-editor in the project, or"
        " deploy without it.",
        _WHY,
    ),
    reasons.REASON_SOURCE_UNAUTHORIZED: ReasonText(
        "data not readable",
        "The platform is not allowed to read or copy what the message names: contact the platform"
        " team.",
        _WHY,
    ),
    reasons.REASON_SOURCE_TOO_LARGE: ReasonText(
        "data too large",
        "Make what the message names smaller, or put the data in the image.",
        _WHY,
    ),
    reasons.REASON_DATA_READY: ReasonText("data ready"),
    reasons.REASON_QUOTA_NO_BUDGET: ReasonText(
        "no quota budget yet",
        "No action needed yet: the project's budget is being set up.",
        _QUOTA,
    ),
    reasons.REASON_QUOTA_AVAILABLE: ReasonText("quota granted"),
    reasons.REASON_QUOTA_DISABLED: ReasonText("quota not enforced"),
    reasons.REASON_QUOTA_EXCEEDED: ReasonText(
        "quota exceeded",
        "Free some quota by scaling down or destroying something, or request more.",
        _QUOTA,
    ),
    reasons.REASON_VALIDATION_FAILED: ReasonText(
        "quota validation failed",
        "The quota service rejected the request as invalid: contact the platform team.",
        _QUOTA,
    ),
    reasons.REASON_QUOTA_BACKEND_UNAVAILABLE: ReasonText(
        "quota service unavailable",
        "The quota service does not respond; requests are retried.",
        _WHY,
    ),
    reasons.REASON_QUOTA_PROJECT_NOT_FOUND: ReasonText(
        "quota service does not know the project",
        "The quota service does not know this project: contact the platform team.",
        _WHY,
    ),
    reasons.REASON_QUOTA_NAMESPACE_NOT_FOUND: ReasonText(
        "quota service does not know the namespace",
        "The quota service does not know this namespace: contact the platform team.",
        _WHY,
    ),
    reasons.REASON_QUOTA_MISCONFIGURED: ReasonText(
        "quota misconfigured",
        "The cell is not allowed to request quota: contact the platform team.",
        _WHY,
    ),
    reasons.REASON_QUOTA_PROJECT_ID_UNRESOLVABLE: ReasonText(
        "project of the cell's namespace unknown",
        "The cell cannot tell which project's quota to use: contact the platform team.",
        _WHY,
    ),
    reasons.REASON_STABLE_INSTANCE_FOUND: ReasonText("an instance is available"),
    reasons.REASON_NO_MATCHING_LOCATION: ReasonText(
        "city not served",
        "Choose another city: this one has no location available to the project.",
        _CITIES,
    ),
    reasons.REASON_PROVISIONING_NETWORK: ReasonText(
        "network being provisioned",
        "No action needed: the network is being set up in that city.",
        _WATCH,
    ),
    reasons.REASON_PROVISIONING_INSTANCES: ReasonText(
        "instances being provisioned",
        "No action needed: instances are being started one by one.",
        _WATCH,
    ),
    reasons.REASON_NO_CELL_FOR_CITY: ReasonText(
        "no cell serves the city",
        "No cell serves that city: choose another one, or contact the platform team.",
        _CITIES,
    ),
    reasons.REASON_AMBIGUOUS_CELL: ReasonText(
        "more than one cell serves the city",
        "More than one cell serves the city: contact the platform team.",
        _WHY,
    ),
    reasons.REASON_NOT_PROPAGATED: ReasonText(
        "not sent to a cell",
        "No action needed: the hub has been asked to send it to its cell again.",
        _STATUS,
    ),
    reasons.REASON_HUB_REFUSED: ReasonText(
        "refused by the hub",
        "The hub refuses it, and the platform retries: contact the platform team if it lasts.",
        _STATUS,
    ),
    reasons.REASON_REPLICAS_AVAILABLE: ReasonText("all instances available"),
    reasons.REASON_CELL_DISCONNECTED: ReasonText(
        "cell disconnected",
        "No action needed yet: updates resume when the cell reconnects.",
        _WHY,
    ),
    reasons.REASON_CELL_READY: ReasonText("cell reachable"),
    reasons.REASON_CELL_UNREACHABLE: ReasonText(
        "no answer from the cell", "No action needed yet: the cell is expected to reconnect.", _WHY
    ),
    reasons.REASON_CELL_BEHIND: ReasonText(
        "change not reported by the cell",
        "No action needed: the hub has been asked to send the change to the cell again.",
        _WHY,
    ),
    reasons.REASON_SCHEDULED: ReasonText("placed in a cell"),
    reasons.REASON_DRAINING: ReasonText(
        "stopping", "No action needed: the cell is stopping its instances.", _STATUS
    ),
    reasons.REASON_DRAIN_NOT_ACKNOWLEDGED: ReasonText(
        "waiting for the cell",
        "No action needed: the deletion goes on without the cell if it does not respond.",
        _STATUS,
    ),
    reasons.REASON_DRAIN_REFUSED: ReasonText(
        "refused by the cell",
        "The cell does not accept the deletion yet: contact the platform team if it lasts.",
        _STATUS,
    ),
    reasons.REASON_REMOVING_FROM_HUB: ReasonText(
        "waiting for the cell",
        "No action needed: the rest is deleted when the cell responds.",
        _STATUS,
    ),
    reasons.REASON_HUB_COPY_MISSING: ReasonText(
        "not known to the hub",
        "The cell deletes it after ten minutes: contact the platform team to keep it.",
        _STATUS,
    ),
    reasons.REASON_AVAILABLE_PLACEMENT_FOUND: ReasonText("available"),
    reasons.REASON_AVAILABLE_DEPLOYMENT_FOUND: ReasonText("available"),
    reasons.REASON_NO_AVAILABLE_PLACEMENTS: ReasonText(
        "no placement available yet",
        "No action needed: no city has an available instance yet.",
        _WHY,
    ),
    reasons.REASON_NO_AVAILABLE_DEPLOYMENTS: ReasonText(
        "no city available yet", "No action needed: no city has an available instance yet.", _WHY
    ),
    reasons.REASON_NETWORK_NOT_FOUND: ReasonText(
        "network not found",
        "Use a network that exists in the project.",
        command("deploy", WORKLOAD, "--network=default"),
    ),
    reasons.REASON_PREVIOUS_DEPLOYMENT_TERMINATING: ReasonText(
        "previous deployment still being removed",
        "No action needed: it starts once the previous one is removed.",
        _WATCH,
    ),
    reasons.REASON_WAVE_IN_PROGRESS: ReasonText("in progress"),
    reasons.REASON_SOAKING: ReasonText("soaking"),
    reasons.REASON_WAITING_FOR_GATE: ReasonText(
        "waiting for its gate",
        "Set the condition, if nothing else does, or open the next wave without it.",
        command("rollout", "promote", WORKLOAD),
    ),
    reasons.REASON_COMPLETE: ReasonText("complete"),
    reasons.REASON_PAUSED: ReasonText(
        "paused",
        "Resume the rollout: a user has paused it.",
        command("rollout", "resume", WORKLOAD),
    ),
    reasons.REASON_WAVE_FAILED: ReasonText(
        "failed",
        "Deploy a fix, undo what the rollout has changed, or open the next wave all the same.",
        command("rollout", "abort", WORKLOAD),
    ),
    reasons.REASON_ROLLED_BACK: ReasonText(
        "rolled back",
        "Deploy a template that works: every city runs what it ran before.",
        command("deploy", WORKLOAD, "--image=IMAGE"),
    ),
    reasons.REASON_INVALID_ROLLOUT_POLICY: ReasonText(
        "stopped by an invalid policy",
        "Set waves that the platform can read.",
        command("deploy", WORKLOAD, "--waves=each"),
    ),
    reasons.REASON_SCALED: ReasonText("scaled"),
    reasons.REASON_RECREATED: ReasonText("replaced by one of the current template"),
    reasons.REASON_TERMINATING: ReasonText("being removed"),
    reasons.REASON_COMMAND_RUN: ReasonText("command run"),
    reasons.REASON_QUOTA_CLAIM_ORPHANED: ReasonText(
        "orphaned quota claim",
        "Some quota may remain in use although nothing needs it: contact the platform team.",
        _QUOTA,
    ),
}
"""By reason, in the order of the records."""
