"""What the status of a Pod means for its Instance. Pure.

The reasons are those that the kubelet and the scheduler of Kubernetes 1.32 write; their messages
reach the Instance. A reason that is not known here is no failure of the Instance: its message is
shown while the Instance waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from datum_compute.api import core, quantities
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.providers.protocol import (
    AVAILABLE,
    PROGRAMMED,
    Addresses,
    InstanceReport,
    failed,
    preparing,
    starting,
)
from datum_compute.providers.sandbox import SETTLE_SECONDS, describe_command

IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
"""A container that ended before its command ran. The kubelet reports it as a crash otherwise."""
CONFIGURATION = "CreateContainerConfigError"
CREATING = "ContainerCreating"
CRASH_LOOP = "CrashLoopBackOff"
OUT_OF_MEMORY = "OOMKilled"
NO_ROOM = frozenset({"Evicted", "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage"})
"""Why a node ends or refuses a Pod for want of room."""
FAILED_MOUNT = "FailedMount"
"""The reason of the Event of a volume that cannot be mounted."""
MISSING_DATA = re.compile(
    r'(?:configmap|secret) ".+" not found|references non-existent \w+ key: .+'
)
"""Of such Events, those about an object or key that is missing: others pass."""
MOUNT_SECONDS = 5.0
"""Until the Events of a Pod that is being created are read again."""
PULL_CAUSE = "ErrImagePull: "
"""Before the cause, where the kubelet waits to pull again: its words change, the cause does not."""


def is_over(pod: core.Pod) -> bool:
    """Whether it never runs again: it was evicted, or its node refused it."""
    return pod.status.phase in ("Failed", "Succeeded")


def describe_over(pod: core.Pod) -> InstanceReport:
    status = pod.status
    text = f"its Pod ended and is replaced: {status.message or status.reason or status.phase}"
    if status.reason in NO_ROOM:
        return _both(failed(compute.REASON_INSUFFICIENT_CAPACITY, text))
    return preparing(text)


def decide_report(pod: core.Pod, port: int | None, now: datetime) -> InstanceReport:
    """The report of a Pod that may run. ``port`` is what its readiness probe looks at."""
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.status == "False" and scheduled.reason == "Unschedulable":
        text = f"no node of the cell has room: {scheduled.message}"
        return _both(failed(compute.REASON_INSUFFICIENT_CAPACITY, text))
    if scheduled.status != "True":
        return preparing(scheduled.message or "its Pod waits for the scheduler")
    containers = pod.status.container_statuses
    if failure := next(_failures(containers), None):
        return _both(failure)
    addresses = (Addresses(pod.status.pod_ip),) if pod.status.pod_ip else ()
    for container in containers:
        recent = _recent_seconds(container, now)
        if recent is not None:
            crash = failed(compute.REASON_INSTANCE_CRASHING, _describe_crash(pod, container))
            return InstanceReport(PROGRAMMED, crash, addresses, recent or None)
    waiting = [each for each in containers if each.state.running is None]
    if waiting or not containers:
        return preparing(_describe_wait(waiting))
    return _report_running(pod, port, addresses, now)


def is_being_created(pod: core.Pod) -> bool:
    """Whether it is on a node, and no container of it has started or failed yet."""
    states = [each.state for each in pod.status.container_statuses]
    return _condition(pod, "PodScheduled").status == "True" and all(
        state.waiting is not None and state.waiting.reason == CREATING for state in states
    )


def decide_mount_report(events: Sequence[core.Event], report: InstanceReport) -> InstanceReport:
    """The report of a Pod that is being created, by its Events about volumes."""
    latest = max(events, key=lambda each: each.at, default=core.Event())
    if MISSING_DATA.search(latest.message):
        report = _both(failed(compute.REASON_CONFIGURATION_ERROR, latest.message))
    return replace(report, requeue_after=MOUNT_SECONDS)


def _report_running(
    pod: core.Pod, port: int | None, addresses: tuple[Addresses, ...], now: datetime
) -> InstanceReport:
    ready = _condition(pod, "Ready")
    if ready.status != "True":
        if _condition(pod, "ContainersReady").status != "True" and port is not None:
            return starting(f"port {port} does not accept connections", addresses)
        return starting(ready.message or "its Pod is not ready", addresses)
    left = SETTLE_SECONDS - min(
        (_up_seconds(each, now) for each in pod.status.container_statuses), default=0.0
    )
    if port is None and left > 0:
        return starting(f"it is available after running for {SETTLE_SECONDS:g}s", addresses, left)
    return InstanceReport(PROGRAMMED, AVAILABLE, addresses)


def _failures(containers: tuple[core.ContainerStatus, ...]) -> Iterator[ConditionState]:
    """What keeps a container from starting at all."""
    for container in containers:
        state, waiting = container.state, container.state.waiting
        if state.running is not None:
            continue
        ended = state.terminated or container.last_state.terminated
        if ended is not None and ended.reason in NOT_STARTED:
            cause = describe_command(ended.message) or ended.message
            yield failed(compute.REASON_CONFIGURATION_ERROR, f"container {container.name}: {cause}")
        elif waiting is not None and waiting.reason in IMAGE_REASONS:
            cause = waiting.message.partition(PULL_CAUSE)[2] or waiting.message or waiting.reason
            yield failed(compute.REASON_IMAGE_UNAVAILABLE, f"container {container.name}: {cause}")
        elif waiting is not None and waiting.reason == CONFIGURATION:
            text = f"container {container.name}: {waiting.message}"
            yield failed(compute.REASON_CONFIGURATION_ERROR, text)


def _recent_seconds(container: core.ContainerStatus, now: datetime) -> float | None:
    """For a container that has crashed: 0 while it does not run, else how long its crash still
    counts as recent. None for one that has not, or not recently."""
    state = container.state
    if state.terminated is None and container.last_state.terminated is None:
        return 0.0 if state.waiting and state.waiting.reason == CRASH_LOOP else None
    if state.running is None:
        return 0.0
    left = SETTLE_SECONDS - _up_seconds(container, now)
    return left if left > 0 else None


def _describe_crash(pod: core.Pod, container: core.ContainerStatus) -> str:
    ended = container.state.terminated or container.last_state.terminated
    times = f", {container.restart_count} restarts so far" if container.restart_count > 1 else ""
    if ended is None:
        return f"container {container.name} ends again and again{times}"
    if ended.reason == OUT_OF_MEMORY:
        limit = _memory_limit(pod, container.name)
        return f"container {container.name} was killed, out of memory (OOMKilled{limit}){times}"
    words = f": {ended.message.strip()}" if ended.message.strip() else ""
    return f"container {container.name} ended with exit code {ended.exit_code}{words}{times}"


def _memory_limit(pod: core.Pod, name: str) -> str:
    """Empty for a container that the cluster has added to the Pod without a limit."""
    for container in pod.spec.containers:
        if container.name == name and "memory" in container.resources.limits:
            mebibytes = float(quantities.parse(container.resources.limits["memory"])) / 2**20
            return f"; its limit is {mebibytes:g} MiB"
    return ""


def _describe_wait(waiting: list[core.ContainerStatus]) -> str:
    for container in waiting:
        reason = container.state.waiting
        if reason is not None and reason.message:
            return f"container {container.name}: {reason.reason}: {reason.message}"
    return "its containers are being created"


def _up_seconds(container: core.ContainerStatus, now: datetime) -> float:
    running = container.state.running
    if running is None or running.started_at is None:
        return 0.0
    return max(0.0, (now - running.started_at).total_seconds())


def _condition(pod: core.Pod, kind: str) -> core.PodCondition:
    found = (each for each in pod.status.conditions if each.type == kind)
    return next(found, core.PodCondition(type=kind))


def _both(state: ConditionState) -> InstanceReport:
    return InstanceReport(state, state)
