"""A model for instance control: Instances that follow plans, become ready, crash and end.

Nothing happens by itself. A test applies a plan of the controller, chooses which event comes
next, and looks at the world in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances.ordered_ready import decide_instances
from datum_compute.decisions.instances.plan import (
    Action,
    Create,
    Delete,
    InstancePlan,
    PatchLabels,
    Resume,
    Step,
    Suspend,
    Wait,
)
from tests.support.decisions.builders import DEPLOYMENT, instance

BAD = "bad"
"""The hash of a template whose Instances never become ready."""


@dataclass(frozen=True)
class ModelInstance:
    """An Instance of the model world."""

    name: str
    ordinal: int | None
    """As its label says; None for no label, and a name that tells none either."""
    hash: str = "new"
    ready: bool = True
    deleting: bool = False
    labelled: bool = True
    uid: str = "1"
    suspended: bool = False

    @property
    def in_slot(self) -> bool:
        return self.ordinal is not None and self.name == slot(self.ordinal)


def slot(ordinal: int) -> str:
    return f"{DEPLOYMENT}-{ordinal}"


def labels_for(ordinal: int) -> dict[str, str]:
    return {compute.LABEL_INSTANCE_INDEX: str(ordinal), compute.LABEL_CITY_CODE: "DFW"}


@cache
def view(model: ModelInstance) -> compute.Instance:
    labels = {}
    if model.ordinal is not None and (model.labelled or not model.in_slot):
        labels = labels_for(model.ordinal)
    return instance(
        model.ordinal,
        name=model.name,
        hash=model.hash,
        ready=model.ready,
        deleting=model.deleting,
        labels=labels,
        uid=model.uid,
        suspended=model.suspended,
    )


def decide(
    models: Iterable[ModelInstance],
    desired: int,
    hash: str = "new",
    *,
    hold_rolls: str = "",
    suspended: bool = False,
) -> InstancePlan:
    return decide_instances(
        deployment_name=DEPLOYMENT,
        desired=desired,
        template_hash=hash,
        labels_for=labels_for,
        instances=[view(model) for model in models],
        hold_rolls=hold_rolls,
        suspended=suspended,
    )


def steps(plan: InstancePlan) -> list[Step]:
    """What is done now, labels and stops apart."""
    return [each for each in plan.actions if not isinstance(each, PatchLabels | Suspend)]


def settled(size: int, hash: str = "new") -> list[ModelInstance]:
    return [ModelInstance(slot(ordinal), ordinal, hash) for ordinal in range(size)]


@dataclass
class ModelDeployment:
    models: dict[str, ModelInstance]
    desired: int
    hash: str = "new"
    suspended: bool = False
    _made: int = field(default=1)

    @classmethod
    def of(
        cls, models: Sequence[ModelInstance], desired: int, hash: str = "new"
    ) -> ModelDeployment:
        return cls({model.name: model for model in models}, desired, hash)

    def plan(self) -> InstancePlan:
        return decide(self.models.values(), self.desired, self.hash, suspended=self.suspended)

    def do(self, action: Action) -> None:
        """As an API server would: a create meets what exists, a delete its precondition."""
        match action:
            case Create(ordinal=ordinal, name=name):
                if name not in self.models:
                    self._made += 1
                    new = ModelInstance(name, ordinal, self.hash, ready=False, uid=str(self._made))
                    self.models[name] = new
            case Delete(name=name, uid=uid):
                if name in self.models and self.models[name].uid == uid:
                    self.models[name] = replace(self.models[name], deleting=True)
            case PatchLabels(name=name, uid=uid):
                if name in self.models and self.models[name].uid == uid:
                    self.models[name] = replace(self.models[name], labelled=True)
            case Suspend(name=name, uid=uid) | Resume(name=name, uid=uid):
                if name in self.models and self.models[name].uid == uid:
                    marked = isinstance(action, Suspend)
                    self.models[name] = replace(self.models[name], suspended=marked)
            case Wait():
                pass

    def due(self) -> list[ModelInstance]:
        """Those that something is about to happen to."""
        return [
            model
            for model in self.models.values()
            if model.deleting or (model.ready if model.suspended else self._starts(model))
        ]

    def _starts(self, model: ModelInstance) -> bool:
        return not model.ready and model.hash != BAD

    def happens(self, model: ModelInstance) -> None:
        """One that is being deleted goes, one that is marked stops, any other becomes ready."""
        if model.deleting:
            del self.models[model.name]
        else:
            self.models[model.name] = replace(model, ready=not model.suspended)

    def crashes(self, name: str) -> None:
        self.models[name] = replace(self.models[name], ready=False)

    def is_lost(self, name: str) -> None:
        del self.models[name]

    @property
    def ready(self) -> int:
        return sum(model.ready for model in self.models.values())

    @property
    def as_wanted(self) -> bool:
        return set(self.models) == {slot(ordinal) for ordinal in range(self.desired)} and all(
            model.ready
            and model.hash == self.hash
            and not (model.deleting or model.suspended)
            and model.labelled
            for model in self.models.values()
        )
