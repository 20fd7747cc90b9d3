"""What deployments of a rollout show: since when they are ready, and which are done or failed.

How long a wait has lasted is measured by the process that decides, and begins anew with another
one (:class:`.state.RolloutAges`). A deployment that was not ready for a moment that no pass has
seen is known by the times in its conditions, which are compared for equality only. So no restart,
no clock and no lost event shortens a soak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from datum_compute.api import conditions
from datum_compute.decisions.rollout import progress
from datum_compute.decisions.rollout.members import RolloutMember, has_outcome, judged
from datum_compute.decisions.rollout.policy import OnFailure, RolloutPolicy
from datum_compute.decisions.rollout.state import RolloutOutcome, RolloutState

GRACE = timedelta(seconds=30)
"""How long a wave is open before a reason that waiting cannot help counts. A guess: a report of
the template before may still be on its way."""

LONGEST_CAUSE = 300
"""Characters of a cause that are recorded."""

WHILE_STOPPED = conditions.EPOCH
"""The time in the state of a deployment that is stopped: soak and timeout begin anew at its
start."""

OVER = timedelta()
"""Of a wait: nothing is left of it."""


@dataclass(frozen=True, slots=True)
class Observation:
    policy: RolloutPolicy
    waves: Sequence[Sequence[RolloutMember]]
    promoted: int
    """Waves before this one are not judged: a person has opened the next."""
    now: datetime

    def apply(self) -> None:
        """Bring the states of open and failed deployments up to date."""
        for number, wave in enumerate(self.waves, 1):
            self._apply(number, judged(wave))

    def _apply(self, number: int, members: Sequence[RolloutMember]) -> None:
        for member in members:
            if member.state is not None:
                member.state = self._observed(member, member.state, number)
        soak = self.soak_left(number)
        may_recover = (
            self._is_waived(number)
            or self.policy.on_failure is OnFailure.CONTINUE
            or all(each.state for later in self.waves[number:] for each in judged(later))
        )
        for member in members:
            state, left = member.state, None
            if state is not None and state.outcome is RolloutOutcome.OPEN:
                left = soak
            elif state is not None and state.outcome is RolloutOutcome.FAILED and may_recover:
                left = self._left(member, number)
            if state is not None and left is not None and left <= OVER:
                member.state = replace(state, outcome=RolloutOutcome.DONE, cause="")

    def soak_left(self, number: int) -> timedelta | None:
        """How long the open deployments of a wave must stay ready; None while they are not."""
        members = judged(self.waves[number - 1])
        pending = [each for each in members if has_outcome(each.state, RolloutOutcome.OPEN)]
        left = [self._left(each, number) for each in pending]
        if not left or any(each.state is None for each in members):
            return None
        return None if None in left else max(each for each in left if each is not None)

    def look_again(self) -> timedelta | None:
        """How long until time alone may change what is observed."""
        waits: list[timedelta | None] = []
        for number, wave in enumerate(self.waves, 1):
            waits.append(self.soak_left(number))
            for member in judged(wave):
                if has_outcome(member.state, RolloutOutcome.FAILED):
                    waits.append(self._left(member, number))
                elif has_outcome(member.state, RolloutOutcome.OPEN):
                    waits.append(self._time_left(member, number))
        return min((each for each in waits if each is not None and each > OVER), default=None)

    def _observed(self, member: RolloutMember, state: RolloutState, number: int) -> RolloutState:
        if state.outcome not in (RolloutOutcome.OPEN, RolloutOutcome.FAILED):
            return state
        if member.stopped:
            return replace(state, opened_at=WHILE_STOPPED, ready_since=None)
        if state.opened_at == WHILE_STOPPED:
            member.open_for = timedelta()
            state = replace(state, opened_at=self.now)
        if member.ready:
            if state.ready_since is not None and state.transition == member.transition:
                return state
            member.ready_for = timedelta()
            return replace(state, ready_since=self.now, transition=member.transition)
        if state.ready_since is not None:
            member.open_for = timedelta()
            state = replace(state, opened_at=self.now, ready_since=None)
        member.state = state
        left = self._time_left(member, number)
        if state.outcome is RolloutOutcome.FAILED or left is None or left > OVER:
            return state
        return replace(state, outcome=RolloutOutcome.FAILED, cause=self._cause(member))

    def _time_left(self, member: RolloutMember, number: int) -> timedelta | None:
        """Until an open deployment has failed; None where it is ready or not judged."""
        if self._is_waived(number) or member.state is None or member.stopped:
            return None
        if member.state.ready_since is not None:
            return None
        blocked = member.blocked
        is_terminal = member.current and blocked is not None and blocked[0].terminal
        timeout = self.policy.timeout
        return (min(GRACE, timeout) if is_terminal else timeout) - member.open_for

    def _left(self, member: RolloutMember, number: int) -> timedelta | None:
        """How long a deployment must stay ready; None while it is not."""
        if member.state is None or member.state.ready_since is None:
            return None
        soak = timedelta() if self._is_waived(number) else self.policy.soak
        return soak - member.ready_for

    def _is_waived(self, number: int) -> bool:
        return number < self.promoted

    def _cause(self, member: RolloutMember) -> str:
        blocked = member.blocked
        limit = progress.duration(self.policy.timeout)
        if blocked is None:
            return f"{member.city}: not ready within {limit}"
        reason, message = blocked
        why = f"{message or reason.meaning} ({reason.name})"
        late = "" if reason.terminal else f"not ready within {limit}: "
        return f"{member.city}: {late}{why}"[:LONGEST_CAUSE]
