"""Companions of ConfigMaps and Secrets on the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from datum_compute.api.compute import v1alpha as compute
from tests.support.simulation.commits import (
    Change,
    CommittedPlanes,
    Values,
    annotations_of,
    is_deleting,
)

KINDS = {"configmaps": ("ConfigMap", "configMapRef"), "secrets": ("Secret", "secretRef")}


@dataclass
class DataRules:
    """A companion names deployments that hold the finalizer, and none is deleted while one of
    them names it."""

    ordered: set[str]

    def check(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        if change.kind not in KINDS or change.plane != "hub":
            return
        if change.new is not None:
            yield from self._see_companion(planes, change, change.new)
        if change.old is not None and change.is_end:
            yield from self._see_end(planes, change, change.old)

    def _see_companion(self, planes: CommittedPlanes, change: Change, new: Values) -> Iterator[str]:
        users = _users(new)
        if not users and not is_deleting(new):
            yield f"{change} is used by no deployment"
        project, _ = planes.project_of("hub", change.namespace)
        for user in set(users) - set(_users(change.old) if change.old is not None else ()):
            namespace, _, name = user.partition("/")
            found = planes.find(project, "workloaddeployments", namespace, name)
            # One that is gone: the request may have been under way when it was deleted.
            finalizers = (found or {}).get("metadata", {}).get("finalizers") or []
            if found is not None and compute.FINALIZER_REFERENCED_DATA not in finalizers:
                yield f"{change} is used by {user}, which does not hold the finalizer"

    def _see_end(self, planes: CommittedPlanes, change: Change, old: Values) -> Iterator[str]:
        if old["metadata"]["uid"] in self.ordered or planes.is_ending("hub", change.namespace):
            return
        project, _ = planes.project_of("hub", change.namespace)
        for user in _users(old):
            namespace, _, name = user.partition("/")
            found = planes.find(project, "workloaddeployments", namespace, name)
            if found is None or is_deleting(found):
                continue
            old_enough = planes.is_old(project, "workloaddeployments", namespace, name)
            if old_enough and change.name in _named(found, *KINDS[change.kind]):
                yield f"{change} was deleted while {user} names it"


def _users(companion: Values) -> list[str]:
    found = json.loads(annotations_of(companion).get(compute.ANNOTATION_REFERENCED_BY) or "[]")
    return [str(each) for each in found]


def _named(deployment: Values, kind: str, field: str) -> list[str]:
    """By the present template, and by the list of what its cell is to have."""
    sandbox = deployment["spec"]["template"]["spec"]["runtime"].get("sandbox") or {}
    names = [
        source[field]["name"]
        for container in sandbox.get("containers") or []
        for source in container.get("envFrom") or []
        if field in source
    ]
    listed = annotations_of(deployment).get(compute.ANNOTATION_EXPECTED_REFERENCED_DATA) or "[]"
    return [name for name in names if f"{kind}/{name}" in json.loads(listed)]
