"""Hub Instances that cannot be projected until an operator acts.

A hub Instance that names no project or no deployment is quarantined at once; one whose deployment
is missing in the project, after longer than any deletion takes. Each is logged once, and counted
until it is repaired or deleted or its deployment appears. Quarantined Instances are still
reconciled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.instance_names import deployment_of
from datum_compute.api.meta import Object
from datum_compute.controllers.planes import project_request
from datum_compute.log import get_logger
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry

log = get_logger(__name__)

NO_PROJECT, NO_DEPLOYMENT, OWNER_ABSENT = "no_project", "no_deployment", "owner_absent"

GRACE_SECONDS = 15 * 60.0
"""How long an owner may be missing. A drain takes ten minutes at most."""

Key = tuple[str, str]
"""Namespace and name on the hub."""


@dataclass(slots=True)
class _Absence:
    uid: str
    since: float
    is_logged: bool = False


class Quarantine:
    def __init__(self, metrics: MetricsRegistry, hub: Fleet) -> None:
        self._hub = hub
        self._logged: dict[Key, tuple[str, str]] = {}
        """The uid and reason of each logged Instance that names no project or deployment."""
        self._absent: dict[Key, _Absence] = {}
        gauge = metrics.gauge(
            "compute_federation_quarantined_objects",
            "Hub Instances that cannot be projected until an operator acts: no_project and"
            " no_deployment lack the labels that say where they belong, owner_absent has waited"
            f" {GRACE_SECONDS / 60:.0f} minutes for its deployment. The log names each once.",
            "reason",
        )
        gauge.labels(NO_PROJECT).track(lambda: self._unresolvable(NO_PROJECT))
        gauge.labels(NO_DEPLOYMENT).track(lambda: self._unresolvable(NO_DEPLOYMENT))
        gauge.labels(OWNER_ABSENT).track(self._orphans)

    def check(self, hub_instance: Object) -> None:
        """Log a hub Instance that names no project or deployment."""
        key, reason = _key(hub_instance), unresolvable(hub_instance)
        if not reason:
            self._logged.pop(key, None)
            return
        entry = (hub_instance.metadata.uid, reason)
        if self._logged.get(key) == entry or hub_instance.metadata.deleting:
            return
        present = {_key(each) for each in self._hub_instances()}
        self._logged = {known: logged for known, logged in self._logged.items() if known in present}
        self._logged[key] = entry
        _log(hub_instance, reason)

    def record_missing_owner(self, hub_instance: Object) -> bool:
        """Record that its deployment is missing; True once the grace period is over."""
        key, now = _key(hub_instance), asyncio.get_running_loop().time()
        absence = self._absent.get(key)
        if absence is None or absence.uid != hub_instance.metadata.uid:
            absence = self._absent[key] = _Absence(hub_instance.metadata.uid, now)
        if now - absence.since < GRACE_SECONDS:
            return False
        if not absence.is_logged:
            absence.is_logged = True
            _log(hub_instance, OWNER_ABSENT)
        return True

    def release(self, hub_namespace: str, name: str) -> None:
        """Forget the missing owner: the Instance has one now, or is deleted."""
        self._absent.pop((hub_namespace, name), None)

    def _unresolvable(self, reason: str) -> float:
        return sum(unresolvable(each) == reason for each in self._hub_instances())

    def _orphans(self) -> float:
        uids = {each.metadata.uid for each in self._hub_instances()}
        return sum(each.is_logged and each.uid in uids for each in self._absent.values())

    def _hub_instances(self) -> Iterable[Object]:
        for cluster in self._hub.clusters():
            for cache in cluster.caches():
                if cache.resource == compute.INSTANCES:
                    yield from cache.list()


def unresolvable(hub_instance: Object) -> str:
    """The reason why its project or deployment is unknown; empty when both are known."""
    labels, name = hub_instance.metadata.labels, hub_instance.name
    if not project_request(labels, name):
        return NO_PROJECT
    return "" if deployment_of(labels, name) else NO_DEPLOYMENT


def _key(hub_instance: Object) -> Key:
    return hub_instance.namespace, hub_instance.name


def _log(hub_instance: Object, reason: str) -> None:
    log.error(
        "hub Instance cannot be projected",
        hub_namespace=hub_instance.namespace,
        hub_instance=hub_instance.name,
        uid=hub_instance.metadata.uid,
        reason=reason,
    )
