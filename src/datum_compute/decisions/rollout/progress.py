"""What the Workload's condition ``Progressing`` says of a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Conditions, ConditionState, wire_time
from datum_compute.decisions.rollout.members import RolloutMember, has_outcome, judged
from datum_compute.decisions.rollout.policy import RolloutPolicy
from datum_compute.decisions.rollout.state import RolloutOutcome


@dataclass(frozen=True, slots=True)
class Wave:
    number: int
    members: Sequence[RolloutMember]

    @property
    def cities(self) -> str:
        return _cities(self.members)


@dataclass(frozen=True, slots=True)
class Report:
    hash: str
    policy: RolloutPolicy
    waves: Sequence[Wave]
    paused: str

    def in_progress(self, wave: Wave, failed: Sequence[RolloutMember]) -> ConditionState:
        updated = sum(each.updated for each in wave.members)
        desired = sum(each.desired for each in wave.members)
        text = f"{self._title(wave)}: {wave.cities}, {updated} of {desired} updated"
        return _true(compute.REASON_WAVE_IN_PROGRESS, self._with_skipped(_noted(text, failed)))

    def soaking(self, wave: Wave) -> ConditionState:
        states = [each.state for each in judged(wave.members)]
        since = wire_time(max(each.ready_since for each in states if each and each.ready_since))
        text = f"{wave.cities} healthy since {since}, must stay so for {duration(self.policy.soak)}"
        return _true(compute.REASON_SOAKING, f"{self._title(wave)}: {text}")

    def waiting_for_gate(self, wave: Wave, generation: int) -> ConditionState:
        before = [each.state for each in judged(self.waves[wave.number - 2].members)]
        ready = [each.ready_since for each in before if each and each.ready_since]
        waits = "waits"
        if ready:
            waits = f"has waited since {wire_time(max(ready) + self.policy.soak)}"
        text = f"for condition {self.policy.gate} to be True with observedGeneration {generation}"
        return _true(
            compute.REASON_WAITING_FOR_GATE,
            f"{self._title(wave)} ({wave.cities}) {waits} {text} or later",
        )

    def is_paused(self, wave: Wave) -> ConditionState:
        text = f"{self._title(wave)} ({wave.cities}) is paused ({self.paused})"
        return _false(compute.REASON_PAUSED, text)

    def failed(self, failed: Sequence[RolloutMember]) -> ConditionState:
        closed = [
            each.cities
            for each in self.waves
            if any(member.state is None for member in judged(each.members))
        ]
        text = _causes(failed)
        if closed:
            text = f"{text}; not updated: {', '.join(closed)}"
        return _false(compute.REASON_WAVE_FAILED, text)

    def complete(self) -> ConditionState:
        members = [each for wave in self.waves for each in judged(wave.members)]
        text = f"template {self.hash} runs in {_cities(members) or 'no city'}"
        return _true(compute.REASON_COMPLETE, self._with_skipped(text))

    def _title(self, wave: Wave) -> str:
        return f"wave {wave.number} of {len(self.waves)}"

    def _with_skipped(self, text: str) -> str:
        skipped = [each for wave in self.waves for each in wave.members if each.skipped]
        return f"{text}; skipped: {_cities(skipped)}" if skipped else text


def rolled_back(hash: str, cause: str, members: Sequence[RolloutMember]) -> ConditionState:
    undone = [each for each in members if has_outcome(each.state, RolloutOutcome.UNDONE)]
    text = f"template {hash} was undone: {cause}"
    if undone:
        text = f"{text}; the last good template is back in {_cities(undone)}"
    kept = [each for each in members if each.current and each not in undone]
    if kept:
        text = f"{text}; it stays in {_cities(kept)}, with no other to go back to"
    return _false(compute.REASON_ROLLED_BACK, text)


def undo_paused(hash: str, paused: str) -> ConditionState:
    return _false(compute.REASON_PAUSED, f"the undo of template {hash} is paused ({paused})")


def with_progress(
    current: Conditions,
    progressing: ConditionState | None,
    *,
    now: datetime,
    generation: int,
) -> Conditions:
    """The Workload's conditions with ``Progressing``, and with ``Reconciling`` or ``Stalled`` where
    they are True; without all three where there is no policy."""
    types = (
        compute.CONDITION_PROGRESSING,
        compute.CONDITION_RECONCILING,
        compute.CONDITION_STALLED,
    )
    states = {} if progressing is None else {compute.CONDITION_PROGRESSING: progressing}
    if progressing is not None:
        record = reasons.lookup(progressing.reason)
        for type, condition in zip(
            types[1:], (reasons.WORKLOAD_RECONCILING, reasons.WORKLOAD_STALLED), strict=True
        ):
            if condition in record.true:
                states[type] = progressing._replace(status=conditions.TRUE)
    for type in types:
        if type in states:
            current = conditions.with_condition(
                current, type, *states[type], now=now, observed_generation=generation
            )
        else:
            current = conditions.without(current, type)
    return current


def duration(length: timedelta) -> str:
    """``1h30m``, as a policy has it."""
    seconds = int(length.total_seconds())
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def _true(reason: str, text: str) -> ConditionState:
    return ConditionState(conditions.TRUE, reason, text)


def _false(reason: str, text: str) -> ConditionState:
    return ConditionState(conditions.FALSE, reason, text)


def _noted(text: str, failed: Sequence[RolloutMember]) -> str:
    return f"{text}; failed: {_causes(failed)}" if failed else text


def _causes(failed: Sequence[RolloutMember]) -> str:
    return "; ".join(each.state.cause or each.city for each in failed if each.state)


def _cities(members: Sequence[RolloutMember]) -> str:
    return ", ".join(dict.fromkeys(each.city for each in members))
