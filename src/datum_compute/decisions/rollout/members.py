"""The deployments of a rollout, as they are and as they are to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.rollout.state import RolloutOutcome, RolloutState

Template = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExistingDeployment:
    deployment: compute.WorkloadDeployment
    template: Template
    """As it is stored, unknown fields included."""
    open_for: timedelta = timedelta()
    ready_for: timedelta = timedelta()
    """For how long the times in its state are known."""


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """What a deployment is to have."""

    template: Template
    state: str | None = None
    """The annotation ``rollout-state``; None for none."""
    last_good: str | None = None
    """The annotation ``last-good-template``; None for none."""


@dataclass(slots=True)
class RolloutMember:
    """A wanted deployment in a rollout."""

    name: str
    city: str
    present: ExistingDeployment | None
    newest: Template
    """The Workload's template, with the later restart of the city."""
    current: bool
    """Whether it has that template."""
    recorded: RolloutState | None
    state: RolloutState | None
    """The recorded one, where it is about this rollout; then the one to be recorded."""
    skipped: bool = False
    open_for: timedelta = timedelta()
    ready_for: timedelta = timedelta()
    """For how long the state has had its times."""
    step: RolloutStep | None = None

    @property
    def notes(self) -> Mapping[str, str]:
        return self.present.deployment.metadata.annotations if self.present else {}

    @property
    def stopped(self) -> bool:
        return self.present is not None and bool(self.present.deployment.suspended_by)

    @property
    def ready(self) -> bool:
        if self.present is None or not self.current or not self._reported or self.unreachable:
            return False
        status = self.present.deployment.status
        counters = {status.replicas, status.updated_replicas, status.ready_replicas}
        return counters == {status.desired_replicas}

    @property
    def _reported(self) -> bool:
        """Whether the cell has reported on the present spec."""
        assert self.present is not None
        deployment = self.present.deployment
        return deployment.status.observed_generation >= deployment.metadata.generation

    @property
    def unreachable(self) -> bool:
        if self.present is None:
            return False
        found = conditions.find(
            self.present.deployment.status.conditions, compute.CONDITION_CELL_REACHABLE
        )
        return found is not None and found.status == conditions.FALSE

    @property
    def transition(self) -> str:
        """When it last became ready and reachable, as reported: by different clocks."""
        found = self.present.deployment.status.conditions if self.present else ()
        types = (compute.CONDITION_REPLICAS_READY, compute.CONDITION_CELL_REACHABLE)
        return " ".join(
            conditions.wire_time(each.last_transition_time)
            for each in sorted(found, key=lambda each: each.type)
            if each.type in types
        )

    @property
    def updated(self) -> int:
        if self.present is None or not self.current or not self._reported:
            return 0
        return self.present.deployment.status.updated_replicas

    @property
    def desired(self) -> int:
        return self.present.deployment.spec.scale_settings.min_replicas if self.present else 0

    @property
    def blocked(self) -> tuple[reasons.Reason, str] | None:
        """What blocks it, by its own conditions, and the message."""
        if self.present is None or not self._reported:
            return None
        found = self.present.deployment.status.conditions
        for type, statuses in reasons.DEPLOYMENT_BLOCKING_CONDITIONS.items():
            condition = conditions.find(found, type)
            if condition is not None and condition.status in statuses:
                return reasons.lookup(condition.reason), condition.message
        return None


def judged(members: Iterable[RolloutMember]) -> list[RolloutMember]:
    """Those that are waited for."""
    return [each for each in members if not each.skipped]


def has_outcome(state: RolloutState | None, outcome: RolloutOutcome) -> bool:
    return state is not None and state.outcome is outcome
