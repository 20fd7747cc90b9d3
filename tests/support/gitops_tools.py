"""What GitOps tools make of a Workload, and whether that agrees with our own words.

The two readings are our own: of what kstatus documents for custom resources, and of the health that
Argo CD's checks give to kinds that roll out and can be suspended.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api.compute import constants, reasons
from datum_compute.cli.explain.states import WorkloadHealth, desired, health, rollout_stage

Json = dict[str, Any]


def condition(obj: Json, type: str) -> Json:
    found = [each for each in obj["status"].get("conditions") or () if each["type"] == type]
    return found[0] if found else {}


def kstatus(obj: Json) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    if (obj.get("status") or {}).get("observedGeneration", 0) != obj["metadata"]["generation"]:
        return "InProgress"
    if condition(obj, "Reconciling").get("status") == "True":
        return "InProgress"
    return "Failed" if condition(obj, "Stalled").get("status") == "True" else "Current"


def argo_health(obj: Json) -> str:
    if kstatus(obj) == "Terminating":
        return "Progressing"
    if (obj["metadata"].get("annotations") or {}).get(constants.ANNOTATION_SUSPENDED):
        return "Suspended"
    if kstatus(obj) == "Failed":
        return "Degraded"
    if kstatus(obj) == "InProgress":
        paused = "status" in obj and condition(obj, "Progressing").get("reason") == "Paused"
        return "Suspended" if paused else "Progressing"
    available = condition(obj, "Available")
    if available.get("status") == "False":
        record = reasons.lookup(str(available.get("reason")))
        return "Degraded" if record.needs_action else "Progressing"
    complete = obj["status"].get("readyReplicas", 0) >= desired(obj)
    return "Healthy" if complete else "Progressing"


def disagreement(obj: Json) -> str:
    """What a tool says of a Workload against our own words; empty where they agree."""
    word, tools = health(obj), (kstatus(obj), argo_health(obj))
    allowed = _allowed(obj, word)
    return "" if tools in allowed else f"{word} and {tools}, not one of {allowed}: {obj}"


def _allowed(obj: Json, word: WorkloadHealth) -> list[tuple[str, str]]:
    observed = (obj.get("status") or {}).get("observedGeneration", 0)
    stage = rollout_stage(obj)
    if word is WorkloadHealth.DESTROYING:
        return [("Terminating", "Progressing")]
    if word is WorkloadHealth.STOPPED:
        return [(each, "Suspended") for each in ("Current", "InProgress", "Failed")]
    if word is WorkloadHealth.UNKNOWN or observed != obj["metadata"]["generation"]:
        return [("InProgress", "Progressing"), ("InProgress", "Suspended")]
    if stage and reasons.lookup(stage["reason"]).terminal:
        return [("Failed", "Degraded")]
    if stage:
        return [("InProgress", "Progressing"), ("InProgress", "Suspended")]
    # Without a stage kstatus knows that the spec was acted upon, and no more.
    if word is WorkloadHealth.AVAILABLE:
        return [("Current", "Healthy")]
    if word is WorkloadHealth.DEGRADED:
        return [("Current", "Progressing")]
    return [("Current", "Progressing"), ("Current", "Degraded")]
