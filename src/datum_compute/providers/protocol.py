"""The contract of a provider, which runs the Instances of a cell.

The frame in :mod:`.frame` does what is the same for all: it ignores gated Instances, holds the
finalizer before anything is started, calls the provider, writes its report in one status write,
and on deletion releases the finalizer only after the provider has torn everything down. That
leaves three idempotent calls and a name. A provider with logs also implements :class:`LogSource`,
one that can run commands in an Instance :class:`ExecSource`.

:mod:`.errors` lists the errors a provider raises and what follows from each. A provider is
done when it passes :mod:`.conformance`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import FALSE, TRUE, UNKNOWN, ConditionState
from datum_compute.client.remote_command import CommandRequest, CommandSession
from datum_compute.runtime.controller import Controller


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of one interface; empty where it has none."""

    network_ip: str = ""
    external_ip: str = ""


@dataclass(frozen=True, slots=True)
class InstanceReport:
    """The state of an Instance as its provider sees it."""

    programmed: ConditionState
    """True once the Instance as written has been handed to the runtime."""
    available: ConditionState
    """Ready to serve, also when scaled to zero."""
    interfaces: tuple[Addresses, ...] = ()
    """In the order of the spec's interfaces."""
    requeue_after: float | None = None
    """Seconds after which the state may have changed without an event; None for never."""
    asleep: ConditionState | None = None
    """Whether it sleeps; None where its template does not ask for that."""


@dataclass(frozen=True, slots=True)
class InstanceTarget:
    """An Instance and its cluster."""

    cluster: str
    instance: compute.Instance

    @property
    def uid(self) -> str:
        """The key of the provider's own state: names are reused, uids are not."""
        return self.instance.metadata.uid


class Provider(Protocol):
    @property
    def name(self) -> str:
        """One DNS label; the finalizer is derived from it."""
        ...

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        """Run this Instance, and report its state.

        Called for every ungated Instance that is not being deleted, after the finalizer is
        stored, whenever the Instance changes or ``requeue_after`` is over; also after a
        restart, for Instances started before it. Idempotent. A running Instance is never
        altered: another template arrives as another Instance.
        """
        ...

    async def suspend(self, target: InstanceTarget) -> None:
        """Stop what runs of this Instance, if anything, and keep the rest: its address as far as
        it is the provider's to give, and its data.

        Called for an Instance that is stopped as ``ensure`` is for others, which starts it again.
        Idempotent. While it is under way it raises ``NotReady`` and is called again.
        """
        ...

    async def remove(self, target: InstanceTarget) -> None:
        """Tear down what exists of this Instance, if anything.

        After it returns nothing of it is left. While a teardown is under way it raises
        ``NotReady`` and is called again.
        """
        ...


class RunnableProvider(Provider, Protocol):
    """A provider with the controllers that run it, as the registry builds it."""

    def controllers(self) -> Sequence[Controller]: ...


class LogLine(NamedTuple):
    """One line of an Instance's output."""

    at: datetime
    """Aware and in UTC."""
    text: str
    """Without the line end."""


@runtime_checkable
class LogSource(Protocol):
    """The logs of Instances: the optional part of the contract."""

    def lines(
        self,
        uid: str,
        *,
        tail: int | None = None,
        since: datetime | None = None,
        follow: bool = False,
    ) -> AsyncIterator[LogLine]:
        """The lines of the Instance with this uid, oldest first, as far as they are kept.

        Of those at or after ``since`` only the last ``tail``, where these are given. With
        ``follow`` new lines are added until the Instance is removed, also for one that has not
        started yet. Without ``follow`` an unknown Instance has no lines. The reader may stop at
        any time, by ``aclose`` or by cancellation.
        """
        ...


class LinesAway(Exception):
    """What keeps the lines does not answer, or not yet: a reader that follows tries again."""


class ExecRefused(Exception):
    """A command is not run in this Instance; the message says why."""


@runtime_checkable
class ExecSource(Protocol):
    """Commands in Instances: an optional part of the contract."""

    async def exec(self, uid: str, request: CommandRequest) -> CommandSession:
        """Run a command in the Instance with this uid, beside what runs there.

        Raises :class:`ExecRefused` where the Instance does not run or has no such container.
        A program that is not there may fail the session instead, by ``CommandFailed``. The
        session ends with its command and with the Instance. The caller closes it, and what a
        command that has not ended then does is the runtime's affair.
        """
        ...


PROGRAMMED = ConditionState(TRUE, compute.REASON_PROGRAMMED, "Instance has been programmed")
AVAILABLE = ConditionState(TRUE, compute.REASON_AVAILABLE, "Instance is available")
AVAILABLE_ASLEEP = ConditionState(TRUE, compute.REASON_ASLEEP, "Instance sleeps until it is called")
ASLEEP = ConditionState(TRUE, compute.REASON_ASLEEP, "A connection wakes the Instance")
AWAKE = ConditionState(FALSE, compute.REASON_AWAKE, "Instance is awake")
NO_SLEEP = ConditionState(
    FALSE, compute.REASON_SLEEP_NOT_SUPPORTED, "What runs the Instance cannot let it sleep"
)
PROGRAMMING = ConditionState(
    UNKNOWN, compute.REASON_PROGRAMMING_IN_PROGRESS, "Instance is being programmed"
)
STOPPING = ConditionState(FALSE, compute.REASON_STOPPING, "Instance is being stopped")
SUSPENDED = ConditionState(FALSE, compute.REASON_SUSPENDED, "Instance is stopped")
PROVISIONING = ConditionState(UNKNOWN, compute.REASON_PROVISIONING, "Instance is being provisioned")


def failed(reason: str, message: str) -> ConditionState:
    return ConditionState(FALSE, reason, message)


def preparing(message: str, *, requeue_after: float | None = None) -> InstanceReport:
    """Nothing runs yet: an image is being pulled, for example."""
    return InstanceReport(
        ConditionState(UNKNOWN, compute.REASON_PROGRAMMING_IN_PROGRESS, message),
        ConditionState(UNKNOWN, compute.REASON_PROVISIONING, message),
        requeue_after=requeue_after,
    )


def starting(
    message: str, interfaces: tuple[Addresses, ...], requeue_after: float | None = None
) -> InstanceReport:
    """Started, and not ready to serve yet."""
    state = ConditionState(UNKNOWN, compute.REASON_PROVISIONING, message)
    return InstanceReport(PROGRAMMED, state, interfaces, requeue_after)
