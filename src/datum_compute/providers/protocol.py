"""What a runtime back-end must do, and what is done for it.

A provider runs the Instances of a cell. The frame in :mod:`.controller` does everything
that is the same for all of them: it leaves gated Instances alone, holds the finalizer
before anything is started, calls the provider, writes what it reports in one status write,
and on deletion lets go only after the provider has torn everything down. What is left to a
provider are two idempotent calls and a name. One that also knows what its Instances print
tells it by the third, :class:`TellsLines`; no other part of the contract needs it.

:mod:`.errors` draws the errors a provider raises and what follows from each. A provider is
done when it passes :mod:`.conformance`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import FALSE, TRUE, UNKNOWN, ConditionState
from datum_compute.runtime.controller import Controller


@dataclass(frozen=True, slots=True)
class Addresses:
    """What one interface of the Instance got; empty where there is none."""

    network_ip: str = ""
    external_ip: str = ""


@dataclass(frozen=True, slots=True)
class InstanceReport:
    """How an Instance is doing, as far as its provider can tell."""

    programmed: ConditionState
    """True once the Instance as written has been handed to the runtime."""
    available: ConditionState
    """Ready to serve, also when scaled to zero."""
    interfaces: tuple[Addresses, ...] = ()
    """In the order of the spec's interfaces."""
    requeue_after: float | None = None
    """Seconds after which the state may have changed without an event; None for never."""


@dataclass(frozen=True, slots=True)
class InstanceTarget:
    """The Instance a call is about, and the cluster it lives in."""

    cluster: str
    instance: compute.Instance

    @property
    def uid(self) -> str:
        """What a provider keys its own things by: names are reused, uids are not."""
        return self.instance.metadata.uid


class Provider(Protocol):
    @property
    def name(self) -> str:
        """One DNS label; the finalizer is derived from it."""
        ...

    async def ensure(self, subject: InstanceTarget) -> InstanceReport:
        """Have this Instance running, and say how it is doing.

        Called for every ungated Instance that is not being deleted, after the finalizer is
        stored, as often as the Instance changes or ``look_again`` asks; also after a
        restart, for what was started before it. Calling it again changes nothing that
        already is as it should be. A running Instance is never altered: another template
        arrives as another Instance.
        """
        ...

    async def remove(self, subject: InstanceTarget) -> None:
        """Tear down whatever of this Instance exists; nothing is fine too.

        Returning promises that nothing of it is left. While a teardown is under way, raise
        ``NotReady`` and be called again.
        """
        ...


class RunnableProvider(Provider, Protocol):
    """A provider with the controllers that run it, as the registry builds it."""

    def controllers(self) -> Sequence[Controller]: ...


class LogLine(NamedTuple):
    """One line that an Instance printed."""

    at: datetime
    """When, aware and in UTC."""
    text: str
    """Without its end."""


@runtime_checkable
class LogSource(Protocol):
    """The part of the contract a provider may leave out."""

    def lines(
        self,
        uid: str,
        *,
        tail: int | None = None,
        since: datetime | None = None,
        follow: bool = False,
    ) -> AsyncIterator[LogLine]:
        """What the Instance of this uid printed, oldest first, as far as it is kept.

        Of what lies at or after ``since`` only the last ``tail`` lines, where these are given.
        With ``follow`` it goes on with what comes, until the Instance is removed; one that
        was not started yet is waited for. Nothing is known of it, and nobody waits: no lines.
        The reader may leave at any time, by ``aclose`` or by being cancelled.
        """
        ...


PROGRAMMED = ConditionState(TRUE, compute.REASON_PROGRAMMED, "Instance has been programmed")
AVAILABLE = ConditionState(TRUE, compute.REASON_AVAILABLE, "Instance is available")
PROGRAMMING = ConditionState(
    UNKNOWN, compute.REASON_PROGRAMMING_IN_PROGRESS, "Instance is being programmed"
)
PROVISIONING = ConditionState(UNKNOWN, compute.REASON_PROVISIONING, "Instance is being provisioned")


def failed(reason: str, message: str) -> ConditionState:
    return ConditionState(FALSE, reason, message)
