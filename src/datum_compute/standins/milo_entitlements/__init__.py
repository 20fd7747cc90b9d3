"""The stand-in for Milo's service entitlements: a project asks for a service, and gets an answer.

A ServiceEntitlement lies in the project's plane; the Service it names lies in the root plane.
A service that is not published is no answer: the entitlement waits until it is. One that is
published is approved after a while, or by a person, who writes ``status.phase``; what was
answered stands, whatever the service becomes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.meta import Object
from datum_compute.api.services import v1alpha1 as services
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch


@dataclass(frozen=True, slots=True)
class Approval:
    """How requests are answered."""

    by_hand: bool = False
    """Whether a person decides; otherwise every request is approved."""
    seconds: float = 0.0
    """How long after the request that is."""


def entitlement_controllers(
    projects: Fleet, root: Fleet, env: Environment, approval: Approval | None = None
) -> list[Controller]:
    """``root`` has the catalogue of services."""
    reconciler = _Entitlements(projects, root, env, approval or Approval())
    watches = [
        Watch(projects, services.SERVICE_ENTITLEMENTS, itself),
        Watch(root, services.SERVICES, reconciler.of_service),
    ]
    return [Controller("service-entitlement", projects, reconciler.reconcile, watches=watches)]


@dataclass(frozen=True, slots=True)
class _Answer:
    phase: str
    status: str
    reason: str
    message: str


_ACTIVE = _Answer(
    services.PHASE_ACTIVE, TRUE, services.REASON_ENTITLEMENT_ACTIVE, "The project may use it"
)
_REJECTED = _Answer(
    services.PHASE_REJECTED,
    FALSE,
    services.REASON_ENTITLEMENT_REJECTED,
    "The provider has rejected the request",
)
_PENDING = _Answer(
    services.PHASE_PENDING_APPROVAL,
    FALSE,
    services.REASON_ENTITLEMENT_PENDING_APPROVAL,
    "The provider has not answered yet",
)
_NOT_PUBLISHED = _Answer(
    services.PHASE_PENDING_APPROVAL,
    FALSE,
    services.REASON_SERVICE_NOT_PUBLISHED,
    "There is no such service on offer",
)


class _Entitlements:
    def __init__(self, projects: Fleet, root: Fleet, env: Environment, approval: Approval) -> None:
        self._projects = projects
        self._root = root
        self._env = env
        self._approval = approval

    def of_service(self, _: str, service: Object) -> Iterable[Request]:
        for project in self._projects.clusters():
            for entitlement in project.cache(services.SERVICE_ENTITLEMENTS).list():
                if _service_name(entitlement) == service.name:
                    yield Request(project.name, "", entitlement.name)

    async def reconcile(self, request: Request) -> Result:
        project = self._projects.get(request.cluster)
        if project is None:
            return DONE
        entitlement = project.cache(services.SERVICE_ENTITLEMENTS).get(request.name)
        if entitlement is None or entitlement.metadata.deleting:
            return DONE
        now = self._env.now()
        answer, left = self._decide(entitlement, now)
        await self._report(project, entitlement, answer, now)
        return after(left) if left > 0 else DONE

    def _decide(self, entitlement: Object, now: datetime) -> tuple[_Answer, float]:
        """The answer, and in how many seconds there is another."""
        given = entitlement.view(services.ServiceEntitlement).status.phase
        if given == services.PHASE_ACTIVE:
            return _ACTIVE, 0
        if given == services.PHASE_REJECTED:
            return _REJECTED, 0
        if not self._is_published(_service_name(entitlement)):
            return _NOT_PUBLISHED, 0
        if self._approval.by_hand:
            return _PENDING, 0
        asked = entitlement.metadata.creation_timestamp or now
        left = self._approval.seconds - (now - asked).total_seconds()
        return (_PENDING, left) if left > 0 else (_ACTIVE, 0)

    def _is_published(self, name: str) -> bool:
        for root in self._root.clusters():
            service = root.cache(services.SERVICES).get(name)
            published = (services.PHASE_PUBLISHED, services.PHASE_DEPRECATED)
            return service is not None and service.view(services.Service).spec.phase in published
        raise Waiting("the catalogue of services is not known yet", 1.0)

    async def _report(
        self, project: Cluster, entitlement: Object, answer: _Answer, now: datetime
    ) -> None:
        view = entitlement.view(services.ServiceEntitlement).status
        generation = entitlement.metadata.generation
        ready = conditions.with_condition(
            view.conditions,
            services.CONDITION_READY,
            answer.status,
            answer.reason,
            answer.message,
            now=now,
            observed_generation=generation,
        )
        status: dict[str, Any] = {
            **patch.values(entitlement.status),
            "phase": answer.phase,
            "origin": view.origin or services.ORIGIN_DIRECT,
            "serviceName": _service_name(entitlement),
            "observedGeneration": generation,
            "conditions": conditions.to_wire(ready),
        }
        if answer is _ACTIVE and view.entitled_at is None:
            status["entitledAt"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        await patch.write_status(project.client, services.SERVICE_ENTITLEMENTS, entitlement, status)


def _service_name(entitlement: Object) -> str:
    return entitlement.view(services.ServiceEntitlement).spec.service_ref.name


__all__ = ["Approval", "entitlement_controllers"]
