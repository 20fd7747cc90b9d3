"""The waves of a rollout over cities: what each row waits for, and what a plan says of them.

The policy is an annotation of the workload, and how far each city is one of its deployment: see
:mod:`datum_compute.decisions.rollout`. Loaded only where a workload has a policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from datum_compute.api.compute import constants, reasons
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.explain.states import min_replicas
from datum_compute.cli.history.entries import Revisions, rollout_beginnings, rollout_reason
from datum_compute.cli.render.output import count, precise_duration
from datum_compute.cli.rollout.state import Phase
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.rollout.policy import (
    InvalidPolicy,
    OnFailure,
    RolloutPolicy,
    find_policy,
)
from datum_compute.decisions.rollout.state import RolloutOutcome, RolloutState, find_state

Json = Mapping[str, Any]
Key = tuple[str, str]
"""A placement, and a city in lower case."""

_PHASES = {
    RolloutOutcome.DONE: Phase.DONE,
    RolloutOutcome.FAILED: Phase.FAILED,
    RolloutOutcome.UNDONE: Phase.UNDONE,
    RolloutOutcome.SKIPPED: Phase.SKIPPED,
}
_ON_FAILURE = {
    OnFailure.PAUSE: "If a wave fails, the next ones stay closed.",
    OnFailure.UNDO: "If a wave fails, every city gets back what it ran before.",
    OnFailure.CONTINUE: "If a wave fails, the next one opens all the same.",
}

_SUPERSEDED = "superseded"
"""What became of a rollout that was not at its end when the next one began."""


class RowWave(NamedTuple):
    """What its wave means for one deployment."""

    number: int
    phase: Phase | None
    """None while the deployment's own counters say how far it is."""
    note: str = ""
    soaks_since: datetime | None = None
    soak_seconds: float = 0

    def text(self, now: datetime | None) -> str:
        """``now`` is given where the text is redrawn as time passes."""
        if self.soaks_since is None:
            return self.note
        soak = precise_duration(self.soak_seconds)
        if now is None:
            return f"must stay healthy for {soak}"
        passed = (now - self.soaks_since).total_seconds()
        return f"healthy for {precise_duration(min(passed, self.soak_seconds))} of {soak}"


@dataclass(frozen=True, slots=True)
class Waves:
    policy: RolloutPolicy
    hash: str
    order: Sequence[Sequence[str]]
    """The cities of each wave, as the workload has them."""
    rows: Mapping[Key, RowWave]

    @property
    def next_closed(self) -> int | None:
        """The number of the first wave that is not open."""
        closed = [each.number for each in self.rows.values() if each.phase is Phase.WAITING]
        return min(closed, default=None)

    @property
    def outlives_failure(self) -> bool:
        """Whether the rollout goes on, or back, when a city fails."""
        return self.policy.on_failure is not OnFailure.PAUSE

    @property
    def longest_seconds(self) -> float:
        """How long the rollout may take with all soaks, but for a gate."""
        return len(self.order) * (self.policy.timeout + self.policy.soak).total_seconds()


def policy_of(workload: Json) -> RolloutPolicy | None:
    """None without one that can be read."""
    try:
        return find_policy(workload["metadata"].get("annotations") or {})
    except InvalidPolicy:
        return None


def decide_waves(workload: Json, deployments: Sequence[Json]) -> Waves | None:
    """None without a policy that can be read."""
    policy = policy_of(workload)
    if policy is None:
        return None
    hash = template_hash(workload["spec"].get("template") or {})
    cities = _cities(workload)
    order = policy.order([city for _, city in cities])
    states = _states(deployments, hash)
    paused = _notes(workload).get(constants.ANNOTATION_ROLLOUT_PAUSED, "")
    rows: dict[Key, RowWave] = {}
    waits = f"paused ({paused})" if paused else ""
    for number, wave in enumerate(order, 1):
        own = {key: states.get(key) for key in cities if key[1] in wave}
        for key, state in own.items():
            rows[key] = _row(number, policy, state, list(own.values()), waits)
        waits = _next_waits_for(number, policy, list(own.values()), paused)
    written = {city: text for (_, city), text in cities.items()}
    return Waves(policy, hash, [[written[city] for city in wave] for wave in order], rows)


def _row(
    number: int,
    policy: RolloutPolicy,
    state: RolloutState | None,
    wave: Sequence[RolloutState | None],
    waits: str,
) -> RowWave:
    if state is None:
        return RowWave(number, Phase.WAITING, waits)
    phase = _PHASES.get(state.outcome)
    if phase is not None:
        return RowWave(number, phase, state.cause)
    since = [each.ready_since if each else None for each in _judged(wave)]
    known = [each for each in since if each is not None]
    if policy.soak and len(known) == len(since):
        return RowWave(number, Phase.SOAKING, "", max(known), policy.soak.total_seconds())
    return RowWave(number, None)


def _judged(wave: Sequence[RolloutState | None]) -> list[RolloutState | None]:
    return [each for each in wave if not (each and each.outcome is RolloutOutcome.SKIPPED)]


def _next_waits_for(
    number: int, policy: RolloutPolicy, wave: Sequence[RolloutState | None], paused: str
) -> str:
    """What the wave after this one waits for."""
    outcomes = [each.outcome if each else None for each in _judged(wave)]
    if RolloutOutcome.UNDONE in outcomes:
        return f"wave {number} was undone"
    if RolloutOutcome.FAILED in outcomes and policy.on_failure is OnFailure.PAUSE:
        return f"wave {number} has failed"
    if paused and None not in outcomes:
        return f"paused ({paused})"
    finished = {RolloutOutcome.DONE}
    if policy.on_failure is OnFailure.CONTINUE:
        finished.add(RolloutOutcome.FAILED)
    if not finished.issuperset(outcomes):
        return f"after wave {number}"
    return f"until {policy.gate} is True" if policy.gate else ""


def _states(deployments: Sequence[Json], hash: str) -> dict[Key, RolloutState]:
    """Those of the newest rollout of the template."""
    found = {}
    for each in deployments:
        state = find_state(_notes(each))
        if state is not None and state.hash == hash:
            spec = each["spec"]
            found[spec.get("placementName", ""), spec.get("cityCode", "").lower()] = state
    newest = max((each.generation for each in found.values()), default=0)
    return {key: each for key, each in found.items() if each.generation == newest}


def _notes(obj: Json) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def _cities(workload: Json) -> dict[Key, str]:
    """Each placement and city, and the city as written."""
    return {
        (str(placement.get("name", "")), str(city).lower()): str(city)
        for placement in workload["spec"].get("placements") or []
        for city in placement.get("cityCodes") or []
    }


def find_outcomes(
    workload: Json, deployments: Sequence[Json], revisions: Revisions
) -> dict[int, str]:
    """What became of rollouts, by the revision that began each: of the newest by the workload's
    condition, of earlier ones by what the history has recorded, or else deployments. What is not
    known is left out."""
    begun, active = rollout_beginnings(revisions), revisions.active
    if not begun:
        return {}
    newest = begun[-1]
    found = {each.rev: each.outcome for each in begun[:-1] if each.outcome}
    for each in deployments:
        state = find_state(_notes(each))
        earlier = [each for each in begun if state and 0 < each.rollout <= state.generation]
        if state is None or not earlier or earlier[-1].template_hash != state.hash:
            continue
        if earlier[-1].outcome:
            continue
        if state.outcome is RolloutOutcome.UNDONE:
            found[earlier[-1].rev] = reasons.REASON_ROLLED_BACK
        elif state.outcome is RolloutOutcome.FAILED:
            found.setdefault(earlier[-1].rev, reasons.REASON_WAVE_FAILED)
    if active is not None and active.matches_spec(workload["spec"]):
        found[newest.rev] = rollout_reason(workload) or found.get(newest.rev, newest.outcome)
    return {
        rev: _SUPERSEDED if _is_open(reason) and rev != newest.rev else explain(reason).summary
        for rev, reason in found.items()
        if reason
    }


def _is_open(reason: str) -> bool:
    """Whether a rollout in waves was not at its end."""
    return reason != reasons.REASON_COMPLETE and not reasons.lookup(reason).terminal


def wave_lines(planned: Json, updated: Mapping[tuple[str, str], int]) -> list[str]:
    """In which order the instances of a workload are replaced; empty if all at once. So many of
    each placement and city in upper case as ``updated`` says are not."""
    policy = policy_of(planned)
    if policy is None:
        return []
    cities = _cities(planned)
    order = policy.order([city for _, city in cities])
    instances = {
        (name, str(city).lower()): max(0, number - updated.get((name, str(city).upper()), 0))
        for placement in planned["spec"].get("placements") or []
        for name, number in [(str(placement.get("name", "")), min_replicas(placement))]
        for city in placement.get("cityCodes") or []
    }
    written = {city: text for (_, city), text in cities.items()}
    names = [", ".join(written[city] for city in wave) for wave in order]
    width = max(map(len, names), default=0)
    between = _between(policy)
    lines = []
    for number, wave in enumerate(order, 1):
        total = sum(each for (_, city), each in instances.items() if city in wave)
        last = number == len(order)
        then = f", {between} before wave {number + 1}" if between and not last else ""
        lines.append(
            f"  wave {number}   {names[number - 1].ljust(width)}   {count(total, 'instance')}{then}"
        )
    if policy.soak:
        lines[-1] += f", healthy for {_text(policy.soak)} to be complete"
    return [*lines, *gate_lines(planned), _ON_FAILURE[policy.on_failure]]


def gate_lines(planned: Json) -> list[str]:
    """What the waves of a workload wait for that no controller sets."""
    policy = policy_of(planned)
    if policy is None or not policy.gate:
        return []
    return [
        f"Each wave after the first waits for condition {policy.gate} of the workload, which"
        " something else has to set."
    ]


def _between(policy: RolloutPolicy) -> str:
    parts = [f"healthy for {_text(policy.soak)}"] if policy.soak else []
    parts += [f"{policy.gate} True"] if policy.gate else []
    return " and ".join(parts)


def _text(length: timedelta) -> str:
    return precise_duration(length.total_seconds())
