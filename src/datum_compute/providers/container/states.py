"""What the state of an Instance's containers means, and when one that ended starts again.

Pure: containers as the engine describes them come in, a report and the next step go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.sleep import Rest
from datum_compute.providers import protocol
from datum_compute.providers.protocol import Addresses, InstanceReport, failed

FIRST_RESTART_SECONDS = 10.0
LONGEST_RESTART_SECONDS = 300.0
"""As the kubelet: the first restart is at once, then 10 s, doubled up to five minutes."""
FORGIVEN_SECONDS = 600.0
"""A container that has run for this long starts anew: its crashes are forgotten. As the kubelet."""
KILLED = 137


@dataclass(frozen=True, slots=True)
class ContainerState:
    """One container of an Instance, as the engine describes it."""

    name: str
    """Its name in the Instance."""
    status: str
    """created, running, paused, exited and others."""
    exit_code: int = 0
    out_of_memory: bool = False
    started_at: datetime | None = None

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def ended(self) -> bool:
        return self.status in ("exited", "stopped", "dead")


@dataclass(frozen=True, slots=True)
class Crashes:
    """How often the containers of an Instance have ended, and why the last one did."""

    count: int = 0
    cause: str = ""

    def restart_delay(self) -> float:
        if self.count <= 1:
            return 0.0
        doubled: float = FIRST_RESTART_SECONDS * 2 ** min(self.count - 2, 16)
        return min(LONGEST_RESTART_SECONDS, doubled)


def parse_state(name: str, inspected: dict[str, Any]) -> ContainerState:
    state = inspected.get("State") or {}
    return ContainerState(
        name,
        str(state.get("Status") or ""),
        int(state.get("ExitCode") or 0),
        bool(state.get("OOMKilled")),
        _parse_time(str(state.get("StartedAt") or "")),
    )


def describe_end(state: ContainerState, memory_bytes: int, *, reports_memory: bool) -> str:
    """Why a container ended, for people. podman does not report that memory was the cause."""
    limit = f"{memory_bytes / 2**20:g} MiB" if memory_bytes else "that of the host"
    if state.out_of_memory:
        return f"container {state.name} was killed, out of memory (its limit is {limit})"
    if state.exit_code != KILLED:
        return f"container {state.name} ended with exit code {state.exit_code}"
    killed = f"container {state.name} was killed (SIGKILL)"
    if reports_memory or not memory_bytes:
        return killed
    return (
        f"{killed}, perhaps out of memory (its limit is {limit}): podman does not report the cause"
    )


def crashing(crashes: Crashes, interfaces: tuple[Addresses, ...], wait: float) -> InstanceReport:
    """Ended, and to be started again in ``wait`` seconds."""
    times = "" if crashes.count <= 1 else f", {crashes.count} times so far"
    state = failed(compute.REASON_INSTANCE_CRASHING, f"{crashes.cause}{times}")
    return InstanceReport(protocol.PROGRAMMED, state, interfaces, requeue_after=wait)


def rest_of(found: Sequence[str]) -> Rest:
    """How deep an Instance rests that was asleep when its provider ended. One that runs was woken,
    or not paused yet."""
    if all(state == "running" for state in found):
        return Rest.AWAKE
    return Rest.PAUSED if all(state in ("running", "paused") for state in found) else Rest.STOPPED


def up_seconds(states: Sequence[ContainerState], now: datetime) -> float:
    """How long all of them have been running."""
    started = [state.started_at for state in states if state.started_at is not None]
    return max(0.0, (now - max(started)).total_seconds()) if started else 0.0


def _parse_time(text: str) -> datetime | None:
    """The engines write nanoseconds, and the year 1 for never."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None or found.year < 1970:
        return None
    return found.astimezone(UTC)
