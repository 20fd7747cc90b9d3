"""A workload in waves, its deployments and the cells below, as small values.

The model applies plans as the Workload controller does, one write at a time, and its cells report
when they are told to. It keeps what the promises are about: which template was given when, and
since when each city has been ready.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, wire_time
from datum_compute.api.meta import ObjectMeta
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.placement import WantedDeployment
from datum_compute.decisions.rollout.members import ExistingDeployment, RolloutStep
from datum_compute.decisions.rollout.plan import RolloutPlan, decide_rollout
from datum_compute.decisions.rollout.state import (
    RolloutAges,
    RolloutOutcome,
    RolloutState,
    find_state,
)
from tests.support.decisions.builders import NOW

CITIES = ("DFW", "IAD", "LHR")


def template(image: str, **annotations: str) -> dict[str, Any]:
    container = {"name": "app", "image": image}
    values: dict[str, Any] = {"spec": {"runtime": {"sandbox": {"containers": [container]}}}}
    if annotations:
        values["metadata"] = {
            "annotations": {
                f"compute.datumapis.com/{key}": text for key, text in annotations.items()
            }
        }
    return values


def hash_of(image: str) -> str:
    return template_hash(template(image))


def policy(**fields: Any) -> str:
    return json.dumps(fields)


def image_in(values: Mapping[str, Any]) -> str:
    image: str = values["spec"]["runtime"]["sandbox"]["containers"][0]["image"]
    return image


def name_of(city: str) -> str:
    return f"web-main-{city.lower()}"


@dataclass(frozen=True)
class City:
    """A deployment of the project, and what its cell reports."""

    template: Mapping[str, Any]
    annotations: Mapping[str, str] = field(default_factory=dict)
    generation: int = 1
    observed: int = 1
    updated: int = 1
    ready: int = 1
    replicas: int = 1
    reachable: bool = True
    reason: str = ""
    """Why it is not ready."""
    outages: int = 0
    """How often it stopped being ready or reachable, which the times of conditions show."""

    @property
    def image(self) -> str:
        return image_in(self.template)

    @property
    def state(self) -> RolloutState | None:
        return find_state(self.annotations)

    def existing(self, city: str, *ages: timedelta) -> ExistingDeployment:
        since = NOW + timedelta(seconds=self.outages)
        conditions = []
        if not self.reachable:
            conditions.append(_condition("CellReachable", "False", "CellUnreachable", since))
        if self.ready < 1 or self.reason:
            reason = self.reason or "Provisioning"
            conditions.append(_condition("ReplicasReady", "False", reason, since))
        else:
            conditions.append(_condition("ReplicasReady", "True", "AllReplicasReady", since))
        return ExistingDeployment(
            compute.WorkloadDeployment(
                metadata=ObjectMeta(
                    name=name_of(city),
                    generation=self.generation,
                    annotations=dict(self.annotations),
                ),
                spec=compute.WorkloadDeploymentSpec(
                    placement_name="main",
                    city_code=city,
                    scale_settings=compute.ScaleSettings(min_replicas=1),
                ),
                status=compute.WorkloadDeploymentStatus(
                    conditions=tuple(conditions),
                    replicas=self.replicas,
                    updated_replicas=self.updated,
                    ready_replicas=self.ready,
                    desired_replicas=1,
                    observed_generation=self.observed,
                ),
            ),
            self.template,
            *ages,
        )

    def given(self, step: RolloutStep) -> City:
        """After the controller's write."""
        notes = dict(self.annotations)
        for key, text in (
            (compute.ANNOTATION_ROLLOUT_STATE, step.state),
            (compute.ANNOTATION_LAST_GOOD_TEMPLATE, step.last_good),
        ):
            if text is None:
                notes.pop(key, None)
            else:
                notes[key] = text
        moved = template_hash(step.template) != template_hash(self.template)
        return replace(
            self,
            template=step.template,
            annotations=notes,
            generation=self.generation + moved,
        )

    def rolled(self) -> City:
        """The cell has done what the spec says."""
        return replace(
            self,
            observed=self.generation,
            updated=1,
            ready=1,
            replicas=1,
            reason="",
            reachable=True,
        )

    def broken(self, reason: str = "InstanceCrashing") -> City:
        """The cell reports on the present spec that it cannot be done."""
        return replace(
            self,
            observed=self.generation,
            updated=1,
            ready=0,
            reason=reason,
            outages=self.outages + 1,
        )

    def away(self) -> City:
        """The cell does not answer."""
        return replace(self, reachable=False, outages=self.outages + 1)

    def wiped(self) -> City:
        """Somebody has removed the status."""
        return replace(self, observed=0, updated=0, ready=0, replicas=0)


def _condition(type: str, status: str, reason: str, since: datetime) -> Condition:
    return Condition(
        type=type,
        status=status,
        reason=reason,
        message=f"about {reason}",
        last_transition_time=since,
    )


def recorded(
    image: str,
    outcome: str = "done",
    *,
    generation: int = 1,
    opened_at: datetime = NOW,
    ready_since: datetime | None = None,
    good: str = "",
    cause: str = "",
) -> dict[str, str]:
    """The annotations of a deployment."""
    state = RolloutState(
        hash_of(image),
        generation,
        opened_at,
        ready_since,
        RolloutOutcome(outcome),
        cause,
        wire_time(NOW) if ready_since else "",
    )
    notes = {compute.ANNOTATION_ROLLOUT_STATE: state.to_annotation()}
    if good:
        notes[compute.ANNOTATION_LAST_GOOD_TEMPLATE] = json.dumps(template(good))
    return notes


@dataclass
class World:
    policy: str
    template: Mapping[str, Any]
    cities: dict[str, City]
    now: datetime = NOW
    """By the wall clock."""
    time: float = 0.0
    """By the monotonic clock, in seconds."""
    ages: RolloutAges = field(default_factory=RolloutAges)
    """What the controller's process remembers."""
    generation: int = 1
    annotations: dict[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    named: Sequence[str] = CITIES

    @property
    def hash(self) -> str:
        return template_hash(self.template)

    def workload(self) -> compute.Workload:
        notes = {**self.annotations}
        if self.policy:
            notes[compute.ANNOTATION_ROLLOUT] = self.policy
        return compute.Workload(
            metadata=ObjectMeta(
                name="web", uid="w-1", generation=self.generation, annotations=notes
            ),
            spec=compute.WorkloadSpec(
                placements=(compute.Placement(name="main", city_codes=tuple(self.named)),)
            ),
            status=compute.WorkloadStatus(conditions=self.conditions),
        )

    def plan(self, *, live: bool = True) -> RolloutPlan:
        ages = self.see()
        return decide_rollout(
            workload=self.workload(),
            template=self.template,
            wanted=[WantedDeployment(name_of(city), "main", city) for city in self.named],
            existing={
                name_of(city): each.existing(city, *ages.get(city, ()))
                for city, each in self.cities.items()
            },
            now=self.now,
            live=live,
        )

    def apply(self, plan: RolloutPlan, *, only: Sequence[str] | None = None) -> None:
        """Write the steps; ``only`` those of some cities, as when the process ends between."""
        for city in self.named:
            if only is not None and city not in only:
                continue
            step = plan.steps[name_of(city)]
            present = self.cities.get(city)
            if present is None:
                notes = City(template("")).given(step).annotations
                made = City(step.template, notes, observed=0, updated=0, ready=0, replicas=0)
                self.cities[city] = made
            else:
                self.cities[city] = present.given(step)
        self.see()  # the event of each write

    def see(self) -> dict[str, tuple[timedelta, timedelta]]:
        notes = {city: each.annotations for city, each in self.cities.items()}
        return self.ages.see("web", notes, self.time)

    def restart(self) -> None:
        """The controller's process ends, and another takes over."""
        self.ages = RolloutAges()

    def reconcile(self) -> RolloutPlan:
        plan = self.plan()
        self.apply(plan)
        return plan

    def settle(self, *, bad: Sequence[str] = (), limit: int = 60) -> RolloutPlan:
        """Reconcile, let cells do what they are told, and let time pass, until nothing changes.
        ``bad``: images that cannot start."""
        for _ in range(limit):
            before = dict(self.cities)
            plan = self.reconcile()
            for city, each in self.cities.items():
                if each.reachable and each.observed < each.generation:
                    self.cities[city] = each.broken() if each.image in bad else each.rolled()
            if self.cities == before:
                if plan.look_again is None:
                    return plan
                self.pass_time(seconds=plan.look_again.total_seconds())
        raise AssertionError("the rollout does not settle")

    def deploy(self, image: str) -> None:
        self.template = template(image)
        self.generation += 1

    def mark(self, annotation: str, value: str) -> None:
        self.annotations[annotation] = value

    def images(self) -> dict[str, str]:
        return {city: self.cities[city].image for city in self.named if city in self.cities}

    def pass_time(self, **length: float) -> None:
        self.now += timedelta(**length)
        self.time += timedelta(**length).total_seconds()


WAVES = policy(waves=[["DFW"], ["IAD"], ["LHR"]])


def world(of: str = WAVES, image: str = "v1", cities: Sequence[str] = CITIES) -> World:
    """All cities run one image, and have completed it."""
    found = {city: City(template(image), recorded(image)) for city in cities}
    return World(of, template(image), found, named=cities)
