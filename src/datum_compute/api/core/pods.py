"""Pods: what a provider reads of them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource

__all__ = [
    "PODS",
    "ContainerRunning",
    "ContainerStatus",
    "ContainerTerminated",
    "ContainerWaiting",
    "Pod",
    "PodCondition",
    "PodContainer",
    "PodContainerResources",
    "PodContainerState",
    "PodSpec",
    "PodStatus",
]

PODS = Resource("", "v1", "pods", "Pod")


class ContainerWaiting(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    reason: str = ""
    message: str = ""


class ContainerRunning(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    started_at: datetime | None = None


class ContainerTerminated(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class PodContainerState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One of the three is set; in a last state perhaps none."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    restart_count: int = 0
    state: PodContainerState = PodContainerState()
    last_state: PodContainerState = PodContainerState()


class PodCondition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class PodContainerResources(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    limits: dict[str, str] = {}


class PodContainer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    resources: PodContainerResources = PodContainerResources()


class PodSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    containers: tuple[PodContainer, ...] = ()


class Pod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
