"""Approval of ServiceEntitlements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from datum_compute.api.conditions import FALSE, TRUE, wire_time
from datum_compute.api.meta import Object
from datum_compute.api.services import v1alpha1 as services
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.watches.mapping import all_in_fleet
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions


@dataclass(frozen=True, slots=True)
class Approval:
    """How requests are approved."""

    by_hand: bool = False
    """Whether a person decides; otherwise every request is approved."""
    seconds: float = 0.0
    """How long after the request."""


def entitlement_controllers(
    projects: Fleet, root: Fleet, env: Environment, approval: Approval | None = None
) -> list[Controller]:
    """``root`` has the catalogue of services."""
    entitlements = services.SERVICE_ENTITLEMENTS
    reconciler = _Entitlements(root, env, approval or Approval())
    of_service = all_in_fleet(
        projects,
        entitlements,
        where=lambda entitlement, service: _referenced(entitlement) == service.name,
    )
    return [
        Controller(
            "service-entitlement",
            projects,
            for_object(projects, entitlements, reconciler.reconcile),
            watches=[
                Watch.each(projects, entitlements),
                Watch(root, services.SERVICES, of_service),
            ],
        )
    ]


@dataclass(frozen=True, slots=True)
class _Answer:
    phase: str
    status: str
    reason: str
    message: str


_PUBLISHED = (services.PHASE_PUBLISHED, services.PHASE_DEPRECATED)
_ACTIVE = _Answer(
    services.PHASE_ACTIVE, TRUE, services.REASON_ENTITLEMENT_ACTIVE, "The project may use it"
)
_REJECTED = _Answer(
    services.PHASE_REJECTED,
    FALSE,
    services.REASON_ENTITLEMENT_REJECTED,
    "The request was rejected",
)
_PENDING = _Answer(
    services.PHASE_PENDING_APPROVAL,
    FALSE,
    services.REASON_ENTITLEMENT_PENDING_APPROVAL,
    "The request waits for approval",
)
_NOT_PUBLISHED = _Answer(
    services.PHASE_PENDING_APPROVAL,
    FALSE,
    services.REASON_SERVICE_NOT_PUBLISHED,
    "No such service is published",
)


class _Entitlements:
    def __init__(self, root: Fleet, env: Environment, approval: Approval) -> None:
        self._root = root
        self._env = env
        self._approval = approval

    async def reconcile(self, project: Cluster, entitlement: Object) -> Result:
        now = self._env.now()
        answer, left = self._decide(entitlement, now)
        await self._report(project, entitlement, answer, now)
        return after(left) if left > 0 else DONE

    def _decide(self, entitlement: Object, now: datetime) -> tuple[_Answer, float]:
        """The answer, and the seconds until it changes."""
        given = entitlement.view(services.ServiceEntitlement).status.phase
        if given == services.PHASE_ACTIVE:
            return _ACTIVE, 0
        if given == services.PHASE_REJECTED:
            return _REJECTED, 0
        service = self._service(entitlement)
        if service is None or service.phase not in _PUBLISHED:
            return _NOT_PUBLISHED, 0
        if self._approval.by_hand:
            return _PENDING, 0
        requested = entitlement.metadata.creation_timestamp or now
        left = self._approval.seconds - (now - requested).total_seconds()
        return (_PENDING, left) if left > 0 else (_ACTIVE, 0)

    def _service(self, entitlement: Object) -> services.ServiceSpec | None:
        """By the name of the object, which differs from the name of the service."""
        for root in self._root.clusters():
            found = root.cache(services.SERVICES).get(_referenced(entitlement))
            return found.view(services.Service).spec if found is not None else None
        raise Waiting("the catalogue of services is not synced yet", 1.0)

    async def _report(
        self, project: Cluster, entitlement: Object, answer: _Answer, now: datetime
    ) -> None:
        view = entitlement.view(services.ServiceEntitlement).status
        service = self._service(entitlement)
        fields: dict[str, Any] = {
            "phase": answer.phase,
            "origin": view.origin or services.ORIGIN_DIRECT,
            "serviceName": service.service_name if service is not None else view.service_name,
            "observedGeneration": entitlement.metadata.generation,
        }
        if answer is _ACTIVE and view.entitled_at is None:
            fields["entitledAt"] = wire_time(now)
        await write_conditions(
            project.client,
            services.SERVICE_ENTITLEMENTS,
            entitlement,
            ConditionChange(services.CONDITION_READY, answer.status, answer.reason, answer.message),
            now=now,
            fields=fields,
        )


def _referenced(entitlement: Object) -> str:
    """The name of the Service object."""
    return entitlement.view(services.ServiceEntitlement).spec.service_ref.name
