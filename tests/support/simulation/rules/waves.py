"""Rollouts in waves, as recorded on the deployments of a project.

What counts is what was committed: which deployments have completed a template, for how long their
reported status was ready, and which template they have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.restarts import keep_restart
from datum_compute.decisions.rollout.policy import OnFailure, RolloutPolicy, find_policy
from datum_compute.decisions.rollout.state import (
    RolloutOutcome,
    RolloutState,
    find_good_template,
    find_state,
)
from tests.support.simulation.commits import (
    Change,
    CommittedPlanes,
    Timeline,
    Values,
    annotations_of,
    is_deleting,
    status_of,
)

Key = tuple[str, str, str]
"""Plane, namespace and name of a Workload."""
ALL_WAVES = 1 << 30
UNDONE = -1


@dataclass
class WaveRules:
    """A deployment gets the newest template after the waves before it have completed, never while
    the rollout is paused or after it was undone; a template completes after its soak; what was
    undone does not run."""

    _finished: defaultdict[Key, Timeline[tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(Timeline)
    )
    """The hash of the Workload's template, and how many waves in a row have completed it."""
    _order: defaultdict[Key, Timeline[tuple[str | None, tuple[str, ...]]]] = field(
        default_factory=lambda: defaultdict(Timeline)
    )
    """The policy, and the cities that it orders."""
    _paused: defaultdict[Key, Timeline[bool]] = field(default_factory=lambda: defaultdict(Timeline))
    _ready: defaultdict[str, Timeline[str]] = field(default_factory=lambda: defaultdict(Timeline))
    """By uid of a deployment: the hash of the template with which all of it is ready, or ""."""

    def check(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        if not change.plane.startswith("project/"):
            return
        if change.kind == "workloads":
            self._note(planes, change, change.name)
        elif change.kind == "workloaddeployments":
            name = (change.obj["spec"].get("workloadRef") or {}).get("name", "")
            workload = planes.find(change.plane, "workloads", change.namespace, name)
            policy = find_policy(annotations_of(workload)) if workload else None
            if workload is None or policy is None:
                return
            if change.new is not None:
                self._see_readiness(change, change.new)
                yield from self._see(planes, change, change.new, workload, policy)
            self._note(planes, change, name)

    def _note(self, planes: CommittedPlanes, change: Change, name: str) -> None:
        """How far the rollout of a Workload is, by what is committed."""
        key = (change.plane, change.namespace, name)
        workload = planes.find(change.plane, "workloads", change.namespace, name)
        notes = annotations_of(workload) if workload else {}
        policy = find_policy(notes)
        text, cities = notes.get(compute.ANNOTATION_ROLLOUT), _cities(workload)
        self._order[key].set(change.time, (text, cities))
        self._paused[key].set(change.time, compute.ANNOTATION_ROLLOUT_PAUSED in notes)
        if workload is None or policy is None:
            return
        hash = template_hash(workload["spec"]["template"])
        states = self._states(planes, change, name, hash)
        finished = [
            all(_is_finished(state, policy) for city, state in states if city in wave)
            for wave in policy.order(list(cities))
        ]
        number = [*finished, False].index(False)
        if any(state is not None and state.outcome == "undone" for _, state in states):
            number = UNDONE
        self._finished[key].set(change.time, (hash, number))

    def _states(
        self, planes: CommittedPlanes, change: Change, name: str, hash: str
    ) -> list[tuple[str, RolloutState | None]]:
        """By city: the state in the newest rollout of this template, of deployments that exist."""
        found = [
            (each["spec"]["cityCode"].lower(), find_state(annotations_of(each)))
            for each in planes.all(change.plane, "workloaddeployments", change.namespace)
            if (each["spec"].get("workloadRef") or {}).get("name") == name and not is_deleting(each)
        ]
        mine = [state.generation for _, state in found if state and state.hash == hash]
        newest = (hash, max(mine, default=0))
        return [
            (city, state if state and (state.hash, state.generation) == newest else None)
            for city, state in found
        ]

    def _see_readiness(self, change: Change, new: Values) -> None:
        status, metadata = status_of(new), new["metadata"]
        counters = [status.get(each, 0) for each in ("replicas", "updatedReplicas")]
        counters += [status.get(each, 0) for each in ("readyReplicas", "desiredReplicas")]
        reported = status.get("observedGeneration", 0) >= metadata["generation"]
        away = any(
            each["type"] == compute.CONDITION_CELL_REACHABLE and each["status"] == "False"
            for each in status.get("conditions") or ()
        )
        ready = reported and not away and len(set(counters)) == 1
        hash = template_hash(new["spec"]["template"]) if ready else ""
        self._ready[metadata["uid"]].set(change.time, hash)

    def _see(
        self,
        planes: CommittedPlanes,
        change: Change,
        new: Values,
        workload: Values,
        policy: RolloutPolicy,
    ) -> Iterator[str]:
        state, hash = find_state(annotations_of(new)), template_hash(new["spec"]["template"])
        before = find_state(annotations_of(change.old)) if change.old else None
        moved = change.old is not None and template_hash(change.old["spec"]["template"]) != hash
        if state is None:
            return
        if state.outcome is RolloutOutcome.UNDONE and hash == state.hash and not _is_good(new):
            yield f"{change} runs {hash}, which was undone there"
        known = before is not None and (before.hash, before.generation) == (
            state.hash,
            state.generation,
        )
        promoted = _promoted(workload, state.hash)
        key = (change.plane, change.namespace, workload["metadata"]["name"])
        if moved and not known and hash == state.hash:
            yield from self._see_opening(planes, change, new, key, promoted, policy)
        unfinished = (RolloutOutcome.OPEN, RolloutOutcome.FAILED)
        completes = state.outcome is RolloutOutcome.DONE and (
            moved or (known and before is not None and before.outcome in unfinished)
        )
        if completes and not promoted:
            soak = int(policy.soak.total_seconds() * 1000)
            if not self._has_soaked(planes, change, new["metadata"]["uid"], state.hash, soak):
                yield f"{change} has completed {state.hash} before it was ready for {policy.soak}"

    def _see_opening(
        self,
        planes: CommittedPlanes,
        change: Change,
        new: Values,
        key: Key,
        promoted: int,
        policy: RolloutPolicy,
    ) -> Iterator[str]:
        hash = template_hash(new["spec"]["template"])
        if all(self._paused[key].within(change.time, planes.grace) or [False]):
            yield f"{change} gets {hash} although the rollout is paused"
        orders = self._order[key].within(change.time, planes.grace)
        if len(orders) != 1:
            return  # it was decided by another policy, or for other cities
        order = policy.order(list(orders[0][1]))
        city = new["spec"]["cityCode"].lower()
        number = next((n for n, wave in enumerate(order, 1) if city in wave), 0)
        known = self._finished[key].within(change.time, planes.grace)
        finished = max((n for found, n in known if found == hash), default=0)
        if number - 1 > max(finished, promoted - 1) or (number and finished == UNDONE):
            yield f"{change} gets {hash} in wave {number}, {finished} are complete"

    def _has_soaked(
        self, planes: CommittedPlanes, change: Change, uid: str, hash: str, soak: int
    ) -> bool:
        """Also where it has stopped being ready within the grace: that may not have been seen."""
        steps = self._ready[uid].steps
        ends = [time for time, _ in steps[1:]] + [None]
        for (since, found), end in zip(steps, ends, strict=True):
            if found != hash:
                continue
            if change.time - since >= soak if end is None else end >= change.time - planes.grace:
                return True
        return False


def _cities(workload: Values | None) -> tuple[str, ...]:
    placements = workload["spec"].get("placements", ()) if workload else ()
    return tuple(city.lower() for each in placements for city in each["cityCodes"])


def _is_good(deployment: Values) -> bool:
    """Whether its last good template is the one it has, but for a later restart: that is kept."""
    good = find_good_template(annotations_of(deployment))
    template = deployment["spec"]["template"]
    return good is not None and template_hash(keep_restart(good, template)) == template_hash(
        template
    )


def _is_finished(state: RolloutState | None, policy: RolloutPolicy) -> bool:
    if state is None:
        return False
    left_behind = policy.on_failure is OnFailure.CONTINUE and state.outcome == "failed"
    return left_behind or state.outcome in ("done", "skipped")


def _promoted(workload: Values, hash: str) -> int:
    """Up to which wave a user has opened them."""
    mark = annotations_of(workload).get(compute.ANNOTATION_ROLLOUT_PROMOTED, "")
    of, _, value = mark.partition("/")
    if of != hash:
        return 0
    return ALL_WAVES if value == "all" else int(value)
