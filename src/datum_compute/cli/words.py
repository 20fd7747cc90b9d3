"""Words for the states of objects, read from the objects as plain JSON.

The rules are those of the API: one condition per level says why something is not there
(an Instance's ``Ready``, a WorkloadDeployment's ``ReplicasReady``, a Workload's
``Available``), and an Instance's workload and city come from its own labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Json = Mapping[str, Any]

PREFIX = "compute.datumapis.com/"
FAILURES = {
    "ImageUnavailable": "image unavailable",
    "InstanceCrashing": "crashing",
    "ConfigurationError": "configuration error",
}
QUOTA = {"QuotaExceeded": "quota exceeded", "ValidationFailed": "quota validation failed"}


def condition(obj: Json, kind: str) -> Json:
    """The condition of this type; an empty one when the object does not have it."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == kind), {})


def is_true(obj: Json, kind: str) -> bool:
    return condition(obj, kind).get("status") == "True"


def label(obj: Json, name: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(PREFIX + name, ""))


def instance_status(instance: Json) -> str:
    if is_true(instance, "Ready"):
        return "Available"
    granted = condition(instance, "QuotaGranted")
    if granted.get("status") == "False":
        return f"Pending ({QUOTA.get(granted.get('reason', ''), 'quota unavailable')})"
    if granted.get("status") == "Unknown":
        return "Pending (quota evaluation)"
    for kind in ("Programmed", "Available"):
        found = condition(instance, kind)
        if found.get("status") != "True" and found.get("reason") in FAILURES:
            return f"Failed ({FAILURES[found['reason']]})"
    programmed = condition(instance, "Programmed")
    if programmed.get("status") != "True" and programmed.get("reason") in (
        "PendingProgramming",
        "ProgrammingInProgress",
    ):
        return "Starting"
    reason = condition(instance, "Ready").get("reason")
    return f"Pending ({reason})" if reason else "Pending"


def instance_footer(statuses: list[str]) -> str:
    available = statuses.count("Available")
    failed = sum(status.startswith("Failed") for status in statuses)
    pending = len(statuses) - available - failed
    noun = "instance" if len(statuses) == 1 else "instances"
    return f"{len(statuses)} {noun} — {available} Available, {pending} Pending, {failed} Failed"


def instance_addresses(instance: Json) -> tuple[str, str]:
    """External and internal address, each a dash while there is none."""
    interfaces = (instance.get("status") or {}).get("networkInterfaces") or [{}]
    assigned = interfaces[0].get("assignments") or {}
    return assigned.get("externalIP") or "—", assigned.get("networkIP") or "—"


def instance_workload(instance: Json) -> str:
    named = label(instance, "workload-name")
    if named:
        return named
    return str(instance["metadata"]["name"]).rsplit("-", 1)[0]


def ordinal(instance: Json) -> int:
    text = label(instance, "instance-index") or str(instance["metadata"]["name"]).rpartition("-")[2]
    return int(text) if text.isdecimal() else -1


def runtime_type(spec: Json) -> str:
    return "vm" if (spec.get("runtime") or {}).get("virtualMachine") else "sandbox"


def instance_type(spec: Json) -> str:
    resources = (spec.get("runtime") or {}).get("resources") or {}
    return str(resources.get("instanceType", "—")).removeprefix("datumcloud/")


def image(workload: Json) -> str:
    """The image of the first container; a dash for a virtual machine."""
    runtime = workload["spec"]["template"]["spec"].get("runtime") or {}
    containers = (runtime.get("sandbox") or {}).get("containers") or [{}]
    return str(containers[0].get("image", "—"))


def health(workload: Json) -> str:
    """``Available``, ``Degraded``, ``Unavailable`` or ``Unknown``, with the reason in words."""
    status = workload.get("status") or {}
    available = condition(workload, "Available")
    if not available or status.get("observedGeneration") is None:
        return "Unknown — no controller has reported yet"
    ready, desired = status.get("readyReplicas", 0), status.get("desiredReplicas", 0)
    if available.get("status") == "True":
        if ready >= desired:
            return "Available — all placements at desired replicas"
        missing = desired - ready
        noun = "instance" if missing == 1 else "instances"
        return f"Degraded — {missing} {noun} below desired count"
    why = available.get("message") or available.get("reason") or "no reason was given"
    return f"Unavailable — {sentence(why)}"


def why_not_ready(deployment: Json) -> tuple[str, str]:
    """Reason and message that stand between a deployment and its desired count, or empty."""
    for kind in ("Scheduled", "CellReachable"):
        found = condition(deployment, kind)
        if found.get("status") == "False":
            return str(found.get("reason", "")), sentence(str(found.get("message", "")))
    found = condition(deployment, "ReplicasReady")
    if found and found.get("status") != "True":
        return str(found.get("reason", "")), sentence(str(found.get("message", "")))
    return "", ""


class Explained(Protocol):
    """Something with a reason, and maybe a sentence about it."""

    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


def plainly(why: Explained) -> str:
    """The sentence, or else the reason, on one line and without the API's prefix."""
    return sentence(why.message or why.reason)


def sentence(text: str) -> str:
    return " ".join(text.replace(PREFIX, "").split())
