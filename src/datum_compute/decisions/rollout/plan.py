"""Which template each deployment of a workload may have now.

The cities of a policy form waves. A deployment is *open* once it has a state for the present
rollout, which is written together with the template. In each pass

1. open deployments are observed: since when ready, done, failed;
2. a wave opens when every deployment of the one before is recorded as done and the gate holds, or
   when a person promoted it; recorded, not only decided, so that a conflict of that write stops it;
3. a failure stops the rollout, undoes it, or is left behind, as the policy says.

Whatever has the newest template keeps it, unless the rollout is undone, so that a lost state delays
later waves and takes nothing back. A deployment that is created gets what its wave may have, or
else what the others had before. Only the template is waved: scale and cities follow at once.

A rollout is known by the template's hash and the Workload's generation at which that was first
seen, which all its states share. A state of the same hash and an older generation is of an earlier
rollout of the same template, and does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.placement import WantedDeployment
from datum_compute.decisions.restarts import keep_restart
from datum_compute.decisions.rollout import progress
from datum_compute.decisions.rollout.members import (
    ExistingDeployment,
    RolloutMember,
    RolloutStep,
    Template,
    has_outcome,
    judged,
)
from datum_compute.decisions.rollout.observation import OVER, WHILE_STOPPED, Observation
from datum_compute.decisions.rollout.policy import (
    InvalidPolicy,
    OnFailure,
    RolloutPolicy,
    find_policy,
)
from datum_compute.decisions.rollout.state import (
    RolloutOutcome,
    RolloutState,
    find_good_template,
    find_state,
    good_template_annotation,
)
from datum_compute.decisions.suspension import is_stopped_alone, is_stopped_with_workload

ALL_WAVES = 1 << 30


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    steps: Mapping[str, RolloutStep]
    """By name of the deployment."""
    outdated: frozenset[str] = frozenset()
    """Deployments that have, or are given, another template than the Workload's."""
    progressing: ConditionState | None = None
    """None without a policy."""
    look_again: timedelta | None = None
    """How long until time alone may change the plan."""
    needs_live_read: bool = False
    """Whether it moves a template, or was made on a Workload that is older than its deployments:
    to be decided again on what the server has, since a stale cache must not open a wave."""


def decide_rollout(
    *,
    workload: compute.Workload,
    template: Template,
    wanted: Sequence[WantedDeployment],
    existing: Mapping[str, ExistingDeployment],
    now: datetime,
    live: bool = False,
) -> RolloutPlan:
    """The plan for the wanted deployments of a workload; ``template`` is its own as stored, and
    ``existing`` what there is by name. ``live``: all of it was read from the server."""
    try:
        policy = find_policy(workload.metadata.annotations)
    except InvalidPolicy as error:
        return _hold_all(template, wanted, existing, str(error))
    if policy is None:
        return RolloutPlan({each.name: RolloutStep(template) for each in wanted})
    rollout = _Rollout(policy, workload, template, wanted, existing, now)
    if rollout.is_ahead and not live:
        return replace(rollout.hold(), needs_live_read=True)
    plan = rollout.decide()
    moves = any(
        name in existing and step.template != existing[name].template
        for name, step in plan.steps.items()
    )
    return replace(plan, needs_live_read=moves and not live)


def _hold_all(
    template: Template,
    wanted: Sequence[WantedDeployment],
    existing: Mapping[str, ExistingDeployment],
    fault: str,
) -> RolloutPlan:
    """Without a policy that can be read, nothing is rolled."""
    older = next((each.template for each in existing.values()), template)
    steps = {
        each.name: _held(existing[each.name]) if each.name in existing else RolloutStep(older)
        for each in wanted
    }
    hash = template_hash(template)
    return RolloutPlan(
        steps,
        frozenset(name for name, step in steps.items() if template_hash(step.template) != hash),
        ConditionState(conditions.FALSE, compute.REASON_INVALID_ROLLOUT_POLICY, fault),
    )


def _held(present: ExistingDeployment) -> RolloutStep:
    notes = present.deployment.metadata.annotations
    return RolloutStep(
        present.template,
        notes.get(compute.ANNOTATION_ROLLOUT_STATE),
        notes.get(compute.ANNOTATION_LAST_GOOD_TEMPLATE),
    )


class _Rollout:
    def __init__(
        self,
        policy: RolloutPolicy,
        workload: compute.Workload,
        template: Template,
        wanted: Sequence[WantedDeployment],
        existing: Mapping[str, ExistingDeployment],
        now: datetime,
    ) -> None:
        self._policy = policy
        self._workload = workload
        self._template = template
        self._now = now
        self._hashes: dict[int, tuple[Template, str]] = {}
        self._hash = self._hash_of(template)
        notes = workload.metadata.annotations
        self._paused = notes.get(compute.ANNOTATION_ROLLOUT_PAUSED, "")
        if any(is_stopped_with_workload(each.deployment) for each in existing.values()):
            self._paused = "the workload is stopped"
        self._promoted = _promoted(self._marked(compute.ANNOTATION_ROLLOUT_PROMOTED))
        self._aborted = notes.get(compute.ANNOTATION_ROLLOUT_ABORTED, "") == self._hash
        skipped = self._marked(compute.ANNOTATION_ROLLOUT_SKIPPED).lower().split(",")
        self._members = [
            self._member(each, existing.get(each.name), each.city.lower() in skipped)
            for each in wanted
        ]
        latest = workload.metadata.generation
        self.is_ahead = any(
            each.recorded is not None and each.recorded.generation > latest
            for each in self._members
        )
        """Whether a deployment has seen a newer Workload than this one."""
        self._drop_other_states(latest)
        self._waves = self._order()
        self._observation = Observation(policy, self._waves, self._promoted, now)

    def _hash_of(self, template: Template) -> str:
        """Each template is hashed once: that costs more than the rest of the decision."""
        if id(template) not in self._hashes:
            # With the template itself: while it is kept, no other has its id.
            self._hashes[id(template)] = template, template_hash(template)
        return self._hashes[id(template)][1]

    def _marked(self, annotation: str) -> str:
        """What an annotation ``<hash>/<value>`` says of this template."""
        hash, _, value = self._workload.metadata.annotations.get(annotation, "").partition("/")
        return value if hash == self._hash else ""

    def _member(
        self, wanted: WantedDeployment, present: ExistingDeployment | None, skipped: bool
    ) -> RolloutMember:
        newest = keep_restart(self._template, present.template) if present else self._template
        current = present is not None and (
            present.template == newest or self._hash_of(present.template) == self._hash_of(newest)
        )
        recorded = find_state(present.deployment.metadata.annotations) if present else None
        # What a user has stopped alone is not waited for, and follows.
        skipped = skipped or (present is not None and is_stopped_alone(present.deployment))
        return RolloutMember(
            wanted.name,
            wanted.city,
            present,
            newest,
            current,
            recorded,
            recorded,
            skipped,
            present.open_for if present else timedelta(),
            present.ready_for if present else timedelta(),
        )

    def _drop_other_states(self, latest: int) -> None:
        """Of earlier rollouts, also of the same template, and from a Workload that never was."""
        known = [
            each.recorded
            for each in self._members
            if each.recorded is not None and each.recorded.generation <= latest
        ]
        newest = max((each.generation for each in known), default=0)
        mine = [each for each in known if (each.hash, each.generation) == (self._hash, newest)]
        self._generation = newest if mine else latest
        for member in self._members:
            state = member.recorded
            if (
                state is None
                or state not in mine
                or (
                    # No longer to be skipped: it is opened in its turn.
                    state.outcome is RolloutOutcome.SKIPPED
                    and not member.skipped
                    and not member.current
                )
            ):
                member.state = None
            elif state.outcome is RolloutOutcome.SKIPPED and not member.skipped:
                open_ = replace(state, outcome=RolloutOutcome.OPEN, opened_at=WHILE_STOPPED)
                member.state = open_
            elif state.outcome is RolloutOutcome.DONE:
                member.skipped = False

    def _order(self) -> list[list[RolloutMember]]:
        placements = self._workload.spec.placements
        order = [city.lower() for each in placements for city in each.city_codes]
        by_city: dict[str, list[RolloutMember]] = {city: [] for city in order}
        for member in self._members:
            by_city.setdefault(member.city.lower(), []).append(member)
        cities = [city for city, members in by_city.items() if members]
        waves = self._policy.order(cities)
        return [[member for city in wave for member in by_city[city]] for wave in waves]

    def hold(self) -> RolloutPlan:
        """Everything stays, and nothing is reported."""
        for member in self._members:
            self._hold(member)
        return self._plan(None)

    def decide(self) -> RolloutPlan:
        if self._is_from_before:
            for member in self._members:
                if member.present is not None:
                    member.state = self._new_state(RolloutOutcome.DONE)
                    member.step = self._step(member, member.newest, self._kept_good(member))
        recorded = {each.name: each.state for each in self._members}
        self._observation.apply()
        undone = self._undone_cause(recorded)
        if undone:
            return self._undo(undone)
        opened = True
        for number, wave in enumerate(self._waves, 1):
            opened = opened or number <= self._promoted
            for member in wave:
                if not member.skipped:
                    self._give(member, opened=opened and not self._paused)
            finished = all(self._is_finished(recorded[each.name]) for each in judged(wave))
            opened = opened and finished and self._gate_holds
        self._follow(all(self._is_done(recorded[each.name]) for each in judged(self._members)))
        return self._plan(self._report())

    @property
    def _is_from_before(self) -> bool:
        """Whether the policy is new and there is nothing to roll."""
        present = [each for each in self._members if each.present is not None]
        return (
            bool(present)
            and all(each.current for each in present)
            and all(compute.ANNOTATION_ROLLOUT_STATE not in each.notes for each in present)
        )

    def _new_state(self, outcome: RolloutOutcome = RolloutOutcome.OPEN) -> RolloutState:
        return RolloutState(self._hash, self._generation, self._now, outcome=outcome)

    @property
    def _failures(self) -> list[RolloutMember]:
        """What stops the rollout: failed, and not promoted past by a person."""
        if self._policy.on_failure is OnFailure.CONTINUE:
            return []
        return [
            member
            for number, wave in enumerate(self._waves, 1)
            for member in judged(wave)
            if number >= self._promoted
            and member.state is not None
            and member.state.outcome is RolloutOutcome.FAILED
        ]

    def _undone_cause(self, recorded: Mapping[str, RolloutState | None]) -> str:
        """Why the rollout is to be undone, or is being undone already; empty where it is not."""
        for state in recorded.values():
            if state is not None and state.outcome is RolloutOutcome.UNDONE:
                return state.cause or "undone"
        if self._paused:
            return ""
        if self._aborted:
            return "aborted by a user"
        if self._policy.on_failure is OnFailure.UNDO:
            # One that was added had no other template: its failure is no reason to take the newest
            # from the others, which may have completed long ago.
            changed = [each for each in self._failures if find_good_template(each.notes)]
            return "; ".join(each.state.cause for each in changed if each.state)
        return ""

    def _undo(self, cause: str) -> RolloutPlan:
        held = False
        older = self._older()
        for member in self._members:
            good = find_good_template(member.notes) or older
            if good is None or not (member.present is None or self._was_given(member)):
                if has_outcome(member.state, RolloutOutcome.SKIPPED) and not member.current:
                    self._hold(member)
                else:
                    self._give(member, opened=member.present is None)
                continue
            is_undone = has_outcome(member.state, RolloutOutcome.UNDONE)
            if self._paused and member.present and not is_undone:
                held = True
                self._hold(member)
                continue
            state = member.state or self._new_state()
            member.state = replace(
                state, ready_since=None, outcome=RolloutOutcome.UNDONE, cause=cause
            )
            template = keep_restart(good, member.present.template) if member.present else good
            kept = self._kept_good(member) or good_template_annotation(good)
            member.step = self._step(member, template, kept)
        if held:
            return self._plan(progress.undo_paused(self._hash, self._paused))
        return self._plan(progress.rolled_back(self._hash, cause, self._members))

    def _was_given(self, member: RolloutMember) -> bool:
        """Whether this rollout gave it the newest template: also where its state was lost, and of
        skipped ones only those that have it."""
        if has_outcome(member.state, RolloutOutcome.SKIPPED):
            return member.current
        return member.state is not None or (member.current and member.recorded is None)

    def _give(self, member: RolloutMember, *, opened: bool) -> None:
        """The step of one deployment of a wave that may or may not open it."""
        if member.step is not None:
            return
        if member.state is not None:
            member.step = self._step(member, member.newest, self._kept_good(member))
        elif opened:
            good = self._good_template(member)
            member.state = self._new_state()
            member.step = self._step(member, member.newest, good)
        elif member.present is not None:
            self._hold(member)
        else:
            older = self._older()
            if older is None:  # nothing that ran is at stake
                member.state = self._new_state()
                member.step = self._step(member, member.newest, None)
            else:
                member.step = RolloutStep(older)

    def _follow(self, complete: bool) -> None:
        """Skipped deployments: not waited for, and updated once the others are."""
        for member in self._members:
            if not member.skipped:
                continue
            has_newest = member.state is not None and member.current
            good = self._kept_good(member) if member.state else self._good_template(member)
            state = member.state or self._new_state()
            is_done = complete and member.ready
            outcome = RolloutOutcome.DONE if is_done else RolloutOutcome.SKIPPED
            member.state = replace(state, outcome=outcome, cause="")
            follows = complete and not self._paused and not member.unreachable
            template = member.present.template if member.present else self._older()
            if follows or has_newest or template is None:
                template = member.newest
            member.step = self._step(member, template, good)

    def _hold(self, member: RolloutMember) -> None:
        if member.present is not None:
            member.step = _held(member.present)
        else:
            member.step = RolloutStep(self._older() or member.newest)

    def _step(self, member: RolloutMember, template: Template, good: str | None) -> RolloutStep:
        assert member.state is not None
        return RolloutStep(template, member.state.to_annotation(), good)

    def _kept_good(self, member: RolloutMember) -> str | None:
        return member.notes.get(compute.ANNOTATION_LAST_GOOD_TEMPLATE)

    def _good_template(self, member: RolloutMember) -> str | None:
        """The annotation of a deployment that is opened now."""
        return good_template_annotation(self._completed(member))

    def _completed(self, member: RolloutMember) -> Template | None:
        """The last template that completed its wave in a deployment: what it has, if that did or is
        from before the policy; otherwise what is recorded."""
        before, good = member.recorded, find_good_template(member.notes)
        if member.present is None or member.state is not None:
            return good
        if before is None:
            has_completed = good is None and not member.current
        else:
            is_about_it = before.hash == self._hash or not member.current
            has_completed = is_about_it and before.outcome is RolloutOutcome.DONE
        return member.present.template if has_completed else good

    def _older(self) -> Template | None:
        """What deployments had before this rollout, for one that is created: rather what completed
        somewhere than what did not."""
        present = [each for each in self._members if each.present is not None]
        found = [self._completed(each) for each in present]
        found += [each.present.template for each in present if each.present and not each.current]
        for template in found:
            if template is not None and self._hash_of(template) != self._hash:
                return template
        return None

    def _is_done(self, state: RolloutState | None) -> bool:
        return has_outcome(state, RolloutOutcome.DONE)

    def _is_finished(self, state: RolloutState | None) -> bool:
        """Whether the next wave need not wait for it."""
        left_behind = self._policy.on_failure is OnFailure.CONTINUE
        return self._is_done(state) or (left_behind and has_outcome(state, RolloutOutcome.FAILED))

    @cached_property
    def _gate_holds(self) -> bool:
        if not self._policy.gate:
            return True
        found = conditions.find(self._workload.status.conditions, self._policy.gate)
        return (
            found is not None
            and found.status == conditions.TRUE
            and (found.observed_generation or 0) >= self._generation
        )

    # Report.

    def _report(self) -> ConditionState:
        waves = [progress.Wave(n, wave) for n, wave in enumerate(self._waves, 1)]
        report = progress.Report(self._hash, self._policy, waves, self._paused)
        failed = [each for each in self._members if has_outcome(each.state, RolloutOutcome.FAILED)]
        stopping = self._failures
        pending = [
            each
            for each in waves
            if not all(
                self._is_finished(member.state)
                or (
                    each.number < self._promoted
                    and has_outcome(member.state, RolloutOutcome.FAILED)
                )
                for member in judged(each.members)
            )
        ]
        if stopping and not (self._paused and self._policy.on_failure is OnFailure.UNDO):
            return report.failed(stopping)
        if not pending:
            return report.failed(failed) if failed else report.complete()
        wave = pending[0]
        members = judged(wave.members)
        if self._paused:
            return report.is_paused(wave)
        if not self._gate_holds and wave.number > 1 and all(not each.state for each in members):
            return report.waiting_for_gate(wave, self._generation)
        left = self._observation.soak_left(wave.number)
        if left is not None and left > OVER:
            return report.soaking(wave)
        return report.in_progress(wave, failed)

    def _plan(self, progressing: ConditionState | None) -> RolloutPlan:
        steps = {each.name: each.step for each in self._members if each.step is not None}
        outdated = frozenset(
            each.name
            for each in self._members
            if (each.present is not None and not each.current)
            or (
                steps[each.name].template is not each.newest
                and self._hash_of(steps[each.name].template) != self._hash_of(each.newest)
            )
        )
        return RolloutPlan(steps, outdated, progressing, self._observation.look_again())


def _promoted(value: str) -> int:
    """Up to which wave a person has opened them; 0 for none."""
    if value == "all":
        return ALL_WAVES
    return int(value) if value.isascii() and value.isdigit() and len(value) < 9 else 0
