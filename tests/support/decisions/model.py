"""A toy world for instance control: Instances that obey plans, become ready, crash and go.

Nothing happens by itself. A test takes a pass of the controller, chooses which event comes
next, and looks at the world in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances.ordered import decide_instances
from datum_compute.decisions.instances.plan import (
    Action,
    Create,
    Delete,
    InstancePlan,
    PatchLabels,
    Step,
    Wait,
)
from tests.support.decisions.builders import DEPLOYMENT, instance

BAD = "bad"
"""The hash of a template whose Instances never become ready."""


@dataclass(frozen=True)
class ModelInstance:
    """An Instance of the toy world."""

    name: str
    ordinal: int | None
    """As its label says; None for no label, and a name that tells none either."""
    hash: str = "new"
    ready: bool = True
    deleting: bool = False
    labelled: bool = True
    uid: str = "1"

    @property
    def in_slot(self) -> bool:
        return self.ordinal is not None and self.name == slot(self.ordinal)


def slot(ordinal: int) -> str:
    return f"{DEPLOYMENT}-{ordinal}"


def labels_for(ordinal: int) -> dict[str, str]:
    return {compute.LABEL_INSTANCE_INDEX: str(ordinal), compute.LABEL_CITY_CODE: "DFW"}


@cache
def view(toy: ModelInstance) -> compute.Instance:
    labels = {}
    if toy.ordinal is not None and (toy.labelled or not toy.in_slot):
        labels = labels_for(toy.ordinal)
    return instance(
        toy.ordinal,
        name=toy.name,
        hash=toy.hash,
        ready=toy.ready,
        deleting=toy.deleting,
        labels=labels,
        uid=toy.uid,
    )


def decide(
    toys: Iterable[ModelInstance], desired: int, hash: str = "new", *, hold_rolls: str = ""
) -> InstancePlan:
    return decide_instances(
        deployment_name=DEPLOYMENT,
        desired=desired,
        template_hash=hash,
        labels_for=labels_for,
        instances=[view(toy) for toy in toys],
        hold_rolls=hold_rolls,
    )


def steps(plan: InstancePlan) -> list[Step]:
    """What is done now, labels apart."""
    return [action for action in plan.actions if not isinstance(action, PatchLabels)]


def settled(size: int, hash: str = "new") -> list[ModelInstance]:
    return [ModelInstance(slot(ordinal), ordinal, hash) for ordinal in range(size)]


@dataclass
class ModelDeployment:
    toys: dict[str, ModelInstance]
    desired: int
    hash: str = "new"
    _made: int = field(default=1)

    @classmethod
    def of(cls, toys: Sequence[ModelInstance], desired: int, hash: str = "new") -> ModelDeployment:
        return cls({toy.name: toy for toy in toys}, desired, hash)

    def plan(self) -> InstancePlan:
        return decide(self.toys.values(), self.desired, self.hash)

    def do(self, action: Action) -> None:
        """As an API server would: a create meets what exists, a delete its precondition."""
        match action:
            case Create(ordinal=ordinal, name=name):
                if name not in self.toys:
                    self._made += 1
                    new = ModelInstance(name, ordinal, self.hash, ready=False, uid=str(self._made))
                    self.toys[name] = new
            case Delete(name=name, uid=uid):
                if name in self.toys and self.toys[name].uid == uid:
                    self.toys[name] = replace(self.toys[name], deleting=True)
            case PatchLabels(name=name, uid=uid):
                if name in self.toys and self.toys[name].uid == uid:
                    self.toys[name] = replace(self.toys[name], labelled=True)
            case Wait():
                pass

    def due(self) -> list[ModelInstance]:
        """Those that something is about to happen to."""
        return [
            toy for toy in self.toys.values() if toy.deleting or (not toy.ready and toy.hash != BAD)
        ]

    def happens(self, toy: ModelInstance) -> None:
        """One that is being deleted goes, any other becomes ready."""
        if toy.deleting:
            del self.toys[toy.name]
        else:
            self.toys[toy.name] = replace(toy, ready=True)

    def crashes(self, name: str) -> None:
        self.toys[name] = replace(self.toys[name], ready=False)

    def is_lost(self, name: str) -> None:
        del self.toys[name]

    @property
    def ready(self) -> int:
        return sum(toy.ready for toy in self.toys.values())

    @property
    def as_wanted(self) -> bool:
        return set(self.toys) == {slot(ordinal) for ordinal in range(self.desired)} and all(
            toy.ready and toy.hash == self.hash and not toy.deleting and toy.labelled
            for toy in self.toys.values()
        )
