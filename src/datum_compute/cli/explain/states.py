"""Labels for the states of objects, read from the objects as plain JSON.

The rules are those of the API: one condition per level holds why something is not ready
(an Instance's ``Ready``, a WorkloadDeployment's ``ReplicasReady``, a Workload's
``Available``), and an Instance's workload and city come from its own labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from datum_compute.api.compute import constants, instance_types
from datum_compute.api.compute.instance_names import deployment_of, ordinal_of
from datum_compute.api.compute.reasons import (
    CONDITION_QUOTA_GRANTED,
    CONDITION_REFERENCED_DATA_READY,
    GATE_QUOTA,
    PROVIDER_FAILURES,
    REASON_COMPLETE,
    REASON_INSTANCE_CRASHING,
    REASON_PENDING_PROGRAMMING,
    REASON_PROGRAMMING_IN_PROGRESS,
    REASON_QUOTA_EXCEEDED,
    REASON_SCHEDULING_GATES_PRESENT,
    REASON_SLEEP_NOT_SUPPORTED,
    REASON_SUSPENDED,
    REASON_WAKE_FAILED,
    lookup,
)
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.render.output import Cell, Colour, count, duration
from datum_compute.cli.render.printable import without_marks

Json = Mapping[str, Any]

API_PREFIX = f"{constants.GROUP}/"
ALL_AVAILABLE = "Available — all placements at desired replicas"


def condition(obj: Json, kind: str) -> Json:
    """The condition of this type; an empty one when the object does not have it."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == kind), {})


def is_true(obj: Json, kind: str) -> bool:
    return condition(obj, kind).get("status") == "True"


def label(obj: Json, name: str) -> str:
    return _labels(obj).get(name, "")


def _labels(obj: Json) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


class InstancePhase(StrEnum):
    AVAILABLE = "Available"
    ASLEEP = "Asleep"
    STARTING = "Starting"
    PENDING = "Pending"
    STOPPED = "Stopped"
    FAILED = "Failed"


class WorkloadHealth(StrEnum):
    AVAILABLE = "Available"
    DEGRADED = "Degraded"
    UNAVAILABLE = "Unavailable"
    STOPPED = "Stopped"
    DESTROYING = "Destroying"
    UNKNOWN = "Unknown"

    def cell(self, note: str = "") -> Cell:
        return Cell(f"{self} ({note})" if note else self.value, _HEALTH_COLOURS[self])


_PHASE_COLOURS = {
    InstancePhase.AVAILABLE: Colour.GREEN,
    InstancePhase.ASLEEP: Colour.GREEN,
    InstancePhase.STARTING: Colour.YELLOW,
    InstancePhase.PENDING: Colour.YELLOW,
    InstancePhase.STOPPED: Colour.YELLOW,
    InstancePhase.FAILED: Colour.RED,
}
_HEALTH_COLOURS = {
    WorkloadHealth.AVAILABLE: Colour.GREEN,
    WorkloadHealth.DEGRADED: Colour.YELLOW,
    WorkloadHealth.UNAVAILABLE: Colour.RED,
    WorkloadHealth.STOPPED: Colour.YELLOW,
    WorkloadHealth.DESTROYING: Colour.YELLOW,
    WorkloadHealth.UNKNOWN: Colour.YELLOW,
}


class InstanceState(NamedTuple):
    phase: InstancePhase
    detail: str = ""
    reason: str = ""
    """The API's reason behind the detail, where that is of quota, of data or a failure."""

    def __str__(self) -> str:
        return f"{self.phase} ({self.detail})" if self.detail else self.phase.value

    def cell(self, note: str = "") -> Cell:
        details = ", ".join(part for part in (self.detail, note) if part)
        shown = f"{self.phase} ({details})" if details else self.phase.value
        return Cell(shown, _PHASE_COLOURS[self.phase])


def unreachable_since(deployment: Json) -> str:
    """Since when the deployment's cell has not answered, so that what it reported last is shown;
    empty while it answers."""
    found = condition(deployment, constants.CONDITION_CELL_REACHABLE)
    return str(found.get("lastTransitionTime", "")) if found.get("status") == "False" else ""


def report_age(seconds: float) -> str:
    """How old the report of a cell is that was found unreachable so long ago: the hub finds that
    out only after some time."""
    return f"last report over {duration(seconds)} ago"


def deployment_name(instance: Json) -> str:
    return deployment_of(_labels(instance), instance["metadata"]["name"])


def instance_status(instance: Json) -> str:
    return str(instance_state(instance))


def instance_state(instance: Json) -> InstanceState:
    if is_true(instance, constants.CONDITION_READY):
        asleep = is_true(instance, constants.CONDITION_ASLEEP)
        return InstanceState(InstancePhase.ASLEEP if asleep else InstancePhase.AVAILABLE)
    if (instance.get("status") or {}).get("suspended"):
        return InstanceState(InstancePhase.STOPPED, reason=REASON_SUSPENDED)
    granted = condition(instance, CONDITION_QUOTA_GRANTED)
    if granted.get("status") == "False":
        reason = str(granted.get("reason", ""))
        denied = lookup(reason).fails_after_grace
        detail = explain(reason).summary if denied else "quota unavailable"
        return InstanceState(InstancePhase.PENDING, detail, reason)
    if granted.get("status") == "Unknown":
        return InstanceState(InstancePhase.PENDING, "quota evaluation")
    failure = _provider_failure(instance)
    if failure:
        reason = str(failure["reason"])
        return InstanceState(InstancePhase.FAILED, explain(reason).summary, reason)
    programmed = condition(instance, constants.CONDITION_PROGRAMMED)
    if programmed.get("status") != "True" and programmed.get("reason") in _BEING_STARTED:
        return InstanceState(InstancePhase.STARTING)
    reason = str(condition(instance, constants.CONDITION_READY).get("reason") or "")
    data = condition(instance, CONDITION_REFERENCED_DATA_READY)
    if data.get("status") == "False" and data.get("reason") == reason:
        return InstanceState(InstancePhase.PENDING, explain(reason).summary, reason)
    return InstanceState(InstancePhase.PENDING, reason)


_FAILURES = (*PROVIDER_FAILURES, REASON_WAKE_FAILED)
_BEING_STARTED = (REASON_PENDING_PROGRAMMING, REASON_PROGRAMMING_IN_PROGRESS)


def _provider_failure(instance: Json) -> Json:
    """The condition on which the provider reports a failure; empty without one."""
    for kind in (constants.CONDITION_PROGRAMMED, constants.CONDITION_AVAILABLE):
        found = condition(instance, kind)
        if found.get("status") != "True" and found.get("reason") in _FAILURES:
            return found
    return {}


def instance_detail(instance: Json) -> tuple[str, str]:
    """The state in full, as a description shows it, and the message that goes with it."""
    state = instance_state(instance)
    if state.phase is InstancePhase.ASLEEP:
        return "Asleep — available, and woken by a connection", ""
    if state.phase in (InstancePhase.AVAILABLE, InstancePhase.STARTING, InstancePhase.STOPPED):
        return state.phase.value, ""
    message = clean_message(str(blocking_condition(instance).get("message", "")))
    if state.reason == REASON_INSTANCE_CRASHING:
        return "Not available — instance crashing", message
    if state.phase is InstancePhase.FAILED or state.reason == REASON_QUOTA_EXCEEDED:
        return f"Not available — {state.detail}", message
    return (f"Pending — {state.detail}" if state.detail else "Pending"), message


def blocking_condition(instance: Json) -> Json:
    """The condition that best explains an Instance's state: quota while it is evaluated, the
    provider's if it failed, else ``Ready``."""
    granted = condition(instance, CONDITION_QUOTA_GRANTED)
    if granted.get("status") == "False" and not is_true(instance, constants.CONDITION_READY):
        return granted
    failure = _provider_failure(instance)
    if failure:
        return failure
    ready = condition(instance, constants.CONDITION_READY)
    gated = ready.get("reason") == REASON_SCHEDULING_GATES_PRESENT
    waits = gated and granted.get("status") == "Unknown"
    return granted if waits and _gates(instance) == [GATE_QUOTA] else ready


def _gates(instance: Json) -> list[str]:
    controller = (instance.get("spec") or {}).get("controller") or {}
    return [str(gate.get("name", "")) for gate in controller.get("schedulingGates") or []]


def gates(instance: Json) -> list[str]:
    return _gates(instance)


def instance_footer(found: Sequence[InstanceState], stale: int = 0) -> str:
    """The counts of instances; starting ones count as pending. ``stale`` are of cells that do not
    answer."""
    phases = [state.phase for state in found]
    asleep = phases.count(InstancePhase.ASLEEP)
    available = phases.count(InstancePhase.AVAILABLE) + asleep
    failed = phases.count(InstancePhase.FAILED)
    stopped = phases.count(InstancePhase.STOPPED)
    pending = len(phases) - available - failed - stopped
    noun = "instance" if len(phases) == 1 else "instances"
    sleeping = f" ({asleep} asleep)" if asleep else ""
    counts = (
        f"{len(phases)} {noun} — {available} Available{sleeping}, {pending} Pending,"
        f" {failed} Failed"
    )
    counts += f", {stopped} Stopped" if stopped else ""
    return f"{counts}; {stale} in a city that does not answer" if stale else counts


def sleep_after(workload: Json) -> str:
    """After how much idle time its Instances sleep, as its template says it; empty where they do
    not."""
    template = (workload.get("spec") or {}).get("template") or {}
    notes = (template.get("metadata") or {}).get("annotations") or {}
    after = notes.get(constants.ANNOTATION_SLEEP_AFTER)
    if after is not None:
        return "" if after == "never" else str(after)
    if notes.get(constants.ANNOTATION_UNIKRAFT_POLICY) != "on":
        return ""
    return f"{notes.get(constants.ANNOTATION_UNIKRAFT_COOLDOWN, '1000')}ms"


def sleep_note(workload: Json, instances: Sequence[Json]) -> str:
    """Which of a workload's Instances sleep, for one whose Instances may."""
    reasons = {condition(each, constants.CONDITION_ASLEEP).get("reason") for each in instances}
    if REASON_SLEEP_NOT_SUPPORTED in reasons:
        return "sleep is not active where it runs: its instances stay awake"
    asleep = sum(is_true(each, constants.CONDITION_ASLEEP) for each in instances)
    return (
        f"{asleep} of {count(len(instances), 'instance')} asleep,"
        f" each after {sleep_after(workload)} without a connection"
    )


def instance_addresses(instance: Json) -> tuple[str | None, str | None]:
    """External and internal address."""
    interfaces = (instance.get("status") or {}).get("networkInterfaces") or [{}]
    assigned = interfaces[0].get("assignments") or {}
    return assigned.get("externalIP") or None, assigned.get("networkIP") or None


def instance_address(instance: Json) -> str | None:
    """Where to reach it: from outside if it has an address there."""
    external, internal = instance_addresses(instance)
    return external or internal


class InstanceIdentity(NamedTuple):
    """The workload, placement and city of an Instance."""

    workload: str
    placement: str
    city: str


def instance_identities(
    instances: Iterable[Json], deployments: Callable[[], Iterable[Json]]
) -> dict[str, InstanceIdentity]:
    """By name: from an Instance's own labels, else from the deployment its label names, else
    from its name without the ordinal. Never by a UID, which differs from plane to plane.

    ``deployments`` is called only when an Instance's own labels are incomplete.
    """
    found: dict[str, InstanceIdentity] = {}
    by_name: dict[str, Json] | None = None
    for instance in instances:
        own = InstanceIdentity(*(label(instance, key) for key in _IDENTITY_LABELS))
        if not all((own.workload, own.placement, own.city)):
            if by_name is None:
                by_name = {each["metadata"]["name"]: each for each in deployments()}
            own = _completed(instance, own, by_name)
        found[instance["metadata"]["name"]] = own
    return found


_IDENTITY_LABELS = (
    constants.LABEL_WORKLOAD_NAME,
    constants.LABEL_PLACEMENT_NAME,
    constants.LABEL_CITY_CODE,
)


def _completed(
    instance: Json, own: InstanceIdentity, deployments: Mapping[str, Json]
) -> InstanceIdentity:
    named = deployment_of(_labels(instance), instance["metadata"]["name"])
    spec = deployments.get(named, {}).get("spec") or {}
    workload = (spec.get("workloadRef") or {}).get("name") or named
    return InstanceIdentity(
        own.workload or str(workload),
        own.placement or str(spec.get("placementName", "")),
        own.city or str(spec.get("cityCode", "")),
    )


def ordinal(instance: Json) -> int:
    """-1 where neither label nor name has it."""
    labels, name = _labels(instance), instance["metadata"]["name"]
    found = ordinal_of(labels, name, deployment_of(labels, name))
    return -1 if found is None else found


def runtime_type(spec: Json) -> str:
    return "vm" if (spec.get("runtime") or {}).get("virtualMachine") else "sandbox"


def instance_type(spec: Json) -> str | None:
    found = ((spec.get("runtime") or {}).get("resources") or {}).get("instanceType")
    return str(found).removeprefix(instance_types.PREFIX) if found else None


def url(obj: Json) -> str | None:
    """Where people open a workload, or a deployment of it, as its platform says."""
    notes = obj["metadata"].get("annotations") or {}
    # Without a port it is about to be removed.
    return (
        notes.get(constants.ANNOTATION_URL) if notes.get(constants.ANNOTATION_HTTP_PORT) else None
    )


def image(obj: Json) -> str | None:
    """The image of the first container of a workload, a deployment or an instance; none for a
    virtual machine."""
    spec = obj["spec"]
    spec = (spec["template"].get("spec") or {}) if "template" in spec else spec
    runtime = spec.get("runtime") or {}
    containers = (runtime.get("sandbox") or {}).get("containers") or [{}]
    found = containers[0].get("image")
    return str(found) if found else None


def is_deleting(obj: Json) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def health(workload: Json) -> WorkloadHealth:
    if is_deleting(workload):
        return WorkloadHealth.DESTROYING
    annotations = (workload.get("metadata") or {}).get("annotations") or {}
    if annotations.get(constants.ANNOTATION_SUSPENDED):
        return WorkloadHealth.STOPPED
    status = workload.get("status") or {}
    available = condition(workload, constants.CONDITION_AVAILABLE).get("status")
    if available not in ("True", "False") or status.get("observedGeneration") is None:
        return WorkloadHealth.UNKNOWN
    if available == "False":
        return WorkloadHealth.UNAVAILABLE
    complete = status.get("readyReplicas", 0) >= desired(workload)
    return WorkloadHealth.AVAILABLE if complete else WorkloadHealth.DEGRADED


def rollout_stage(workload: Json) -> Json:
    """The condition about a rollout in waves; empty when it is complete, and without a policy."""
    found = condition(workload, constants.CONDITION_PROGRESSING)
    return {} if found.get("reason") == REASON_COMPLETE else found


def instance_count(workload: Json) -> int:
    """How many Instances a workload's spec requests, in all cities."""
    return sum(
        len(placement.get("cityCodes") or []) * min_replicas(placement)
        for placement in _placements(workload)
    )


def min_replicas(placement: Json) -> int:
    found = (placement.get("scaleSettings") or {}).get("minReplicas", 0)
    return found if isinstance(found, int) else 0  # a file may hold anything


def _placements(workload: Json) -> Sequence[Json]:
    return (workload.get("spec") or {}).get("placements") or []


def desired(workload: Json) -> int:
    """How many Instances a workload should have: by its spec, because the reported number leaves
    out cities without a deployment; with autoscaling by the report if that is higher."""
    wanted = instance_count(workload)
    settings = [placement.get("scaleSettings") or {} for placement in _placements(workload)]
    if any(setting.get("maxReplicas") is not None for setting in settings):
        return max(wanted, int((workload.get("status") or {}).get("desiredReplicas", 0)))
    return wanted


def health_detail(workload: Json, cause: str = "") -> str:
    """Health with its reason; ``cause`` comes from a caller that has read the deployments."""
    found = health(workload)
    if found is WorkloadHealth.AVAILABLE:
        return ALL_AVAILABLE
    if found is WorkloadHealth.DESTROYING:
        from datum_compute.cli.rollout.state import held_deletion  # rarely needed, slow to load

        held = held_deletion(workload)
        return f"Destroying — {held.message if held else 'its instances are being removed'}"
    if found is WorkloadHealth.UNKNOWN:
        return "Unknown — no controller has reported yet"
    if found is WorkloadHealth.STOPPED:
        return found.value
    status = workload.get("status") or {}
    if found is WorkloadHealth.DEGRADED:
        missing = desired(workload) - status.get("readyReplicas", 0)
        noun = "instance" if missing == 1 else "instances"
        return f"Degraded — {missing} {noun} below desired count"
    reason = str(condition(workload, constants.CONDITION_AVAILABLE).get("reason", ""))
    return f"Unavailable — {cause or (explain(reason).summary if reason else 'no reason given')}"


def stays_until(cities: Sequence[str]) -> str:
    """Why a removed city is still there."""
    return f"stays until {', '.join(cities)} {'is' if len(cities) == 1 else 'are'} Available"


class HasReason(Protocol):
    """Something with a reason and an optional message."""

    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


def one_line_reason(why: HasReason) -> str:
    """The message, or else the reason, on one line and without the API's prefix."""
    return clean_message(why.message or why.reason)


_PREFIX = re.compile(rf"(?<![\w.-]){re.escape(API_PREFIX)}")


def clean_message(text: str) -> str:
    """On one line, without the API's prefix where that is a word by itself, and without marks
    that would colour it."""
    return without_marks(" ".join(_PREFIX.sub("", text).split()))


def replicas(workload: Json, counter: str) -> int:
    return int((workload.get("status") or {}).get(counter, 0))
