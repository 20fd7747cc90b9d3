"""Execution: the manifest of a Work is applied to its member, and the status comes back.

A Work is applied while its Cluster is ready: the object is created, or brought back to the
manifest when its labels or content were changed in the member, which is watched. Annotations that
were changed in the member alone stay until the Work changes. An object that Karmada does not
manage is left alone, and the Work reports that. The status of the member's object goes into
the Work's status, in the same write as ``Applied``. A Work whose member is not ready is retried
with growing delay; the return of the member wakes none. A deployment or
namespace that was sent and not answered in time counts as applied, and is sent again only when its
Work changes.

A deleted Work deletes the member's object and is released as soon as that was accepted; it
does not wait until the object is gone. With ``preserveResourcesOnDeletion`` the object stays
and only loses Karmada's labels and annotations. While the member is not ready the deletion
waits for it, unless the Cluster itself is being deleted.

A Work whose dispatching is suspended is not applied, and reports that. Objects in a member
whose Work is gone are deleted by :mod:`.orphans`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api import conditions, karmada
from datum_compute.api.core import CONFIG_MAPS, NAMESPACES, SECRETS
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import readable, views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.watches.predicates import content_changed
from datum_compute.runtime.workqueue.token_bucket import SharedTokenBuckets
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import ConditionChange, status_with, write_conditions
from datum_compute.runtime.writes.create import create_or_wait
from datum_compute.runtime.writes.patch import Values
from datum_compute.runtime.writes.spec_copies import UnkeptChanges
from datum_compute.standins.karmada import manifest as manifests
from datum_compute.standins.karmada import names, schedule, works
from datum_compute.standins.karmada.orphans import OBJECTS_BY_WORK, remove_orphan_objects, work_of

WORKS_BY_TARGET = "propagation/target-namespace"
"""Index of Works by the member's namespace their object goes to."""

BURST = 8
"""Status changes of a Work that are reported without delay after a quiet time. A guess: more than
one Instance has in its life."""
PER_SECOND = 2.0
"""The steady rate of one Work's status. A guess: what a person watching a rollout can follow."""
ALL_PER_SECOND = 20.0
"""The steady rate of all Works together, so that fifty cities rolling at once do not keep the
hub busy with counters. Each change is at least two writes to the hub, and Karmada's controllers
may by default send their API server forty requests a second."""

FIRST_RETRY_SECONDS = 0.005
"""Karmada's ``--rate-limiter-base-delay``: the first delay of a Work whose member is not ready."""
RETRIED_KINDS = (CONFIG_MAPS, SECRETS)
"""Kinds whose writes are tried again when they are not answered in time. Karmada does not; no
report would show that one is lost."""
RETRY_SECONDS = 30.0
"""Until a Work that the member refused is tried again: no event reports when the cause is gone. A
guess."""


def execution_controller(
    hub: Fleet, members: Fleet, kinds: Sequence[Resource], env: Environment, *, max_delay: float
) -> Controller:
    reconciler = _Execution(hub, members, kinds, env, max_delay)
    objects = [
        Watch(
            members,
            kind,
            work_of_member_object,
            required=False,
            indexes={OBJECTS_BY_WORK: work_of},
        )
        for kind in kinds
    ]
    return Controller(
        "propagation-execution",
        hub,
        reconciler.reconcile,
        watches=[
            Watch.each(
                hub,
                karmada.WORKS,
                predicate=content_changed,
                indexes={WORKS_BY_TARGET: _target_namespace_of},
            ),
            Watch(members, NAMESPACES, reconciler.works_in_namespace, required=False),
            *objects,
        ],
        reads=[Read(hub, karmada.CLUSTERS), Read(hub, karmada.INTERPRETER_CUSTOMIZATIONS)],
    )


def work_of_member_object(_: str, obj: Object) -> Iterable[Request]:
    annotations = obj.metadata.annotations
    name = annotations.get(karmada.ANNOTATION_WORK_NAME)
    if name and manifests.is_managed(obj):
        yield Request(names.HUB, annotations.get(karmada.ANNOTATION_WORK_NAMESPACE, ""), name)


def _target_namespace_of(work: Object) -> Iterable[str]:
    for manifest in _manifests_of(work):
        if namespace := manifest["metadata"].get("namespace"):
            yield f"{names.cluster_of(work.namespace)}/{namespace}"


class ReflectionFailed(Exception):
    """The script that reads the status of a member's object returned nil."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    applied: bool
    message: str
    member: Object | None = None


class _Execution:
    def __init__(
        self,
        hub: Fleet,
        members: Fleet,
        kinds: Sequence[Resource],
        env: Environment,
        max_delay: float,
    ) -> None:
        self._hub = hub
        self._members = members
        self._max_delay = max_delay
        self._attempts: dict[Request, tuple[int, float]] = {}
        """Of each Work: how often in a row its member was not ready, and when it is tried again."""
        self._applied: dict[Request, tuple[int, str]] = {}
        """Of each Work: its generation and the uid of the member's object when last applied."""
        self._unanswered: dict[Request, tuple[int, int]] = {}
        """Of each Work whose write was not answered in time: its generation and that of the
        member's object, 0 without one."""
        self._propagated = kinds
        self._kinds = {(kind.api_version, kind.kind): kind for kind in (*kinds, NAMESPACES)}
        self._env = env
        self._unkept = UnkeptChanges()
        self._status_writes = SharedTokenBuckets(BURST, PER_SECOND, ALL_PER_SECOND)

    def works_in_namespace(self, member: str, namespace: Object) -> Iterable[Request]:
        yield from work_of_member_object(member, namespace)
        hub = self._hub.get(names.HUB)
        if hub is None:
            return
        for work in hub.cache(karmada.WORKS).by_index(
            WORKS_BY_TARGET, f"{member}/{namespace.name}"
        ):
            yield Request(names.HUB, work.namespace, work.name)

    async def reconcile(self, request: Request) -> Result:
        hub = self._hub.get(request.cluster)
        if hub is None:
            return DONE
        work = hub.cache(karmada.WORKS).get(request.name, request.namespace)
        if work is None:
            self._forget(request)
            await self._remove_orphans(hub, request)
            return DONE
        cluster = hub.cache(karmada.CLUSTERS).get(names.cluster_of(work.namespace))
        if work.metadata.deleting:
            return await self._remove(hub, work, cluster, request)
        if cluster is None or not schedule.is_ready(cluster):
            wait = await self._reflect(hub, work, request)
            return after(wait) if wait else self._retry(request)
        self._attempts.pop(request, None)
        manifest = next(iter(_manifests_of(work)), None)
        if manifest is None:
            return DONE
        if work.view(karmada.Work).spec.suspend_dispatching:
            await self._report_suspended(hub, work)
            return DONE  # woken when it is not
        outcome = await self._apply(self._member(cluster.name), request, work, manifest)
        if outcome is None:
            return DONE
        if wait := await self._report(hub, work, request, manifest, outcome):
            return after(wait)
        self._check_reflection(hub, outcome)
        return DONE if outcome.applied else after(RETRY_SECONDS)

    def _check_reflection(self, hub: Cluster, outcome: _Outcome) -> None:
        """A script is taken to return the status as it is. Nil is an error, which is retried;
        without a script a status that does not exist yet is none."""
        member = outcome.member
        if member is None or patch.values(member.status):
            return
        resource = self._kinds[(member.api_version, member.kind)]
        if works.customizations_of(hub, resource).status_reflection is not None:
            raise ReflectionFailed(f"ReflectStatus of {member!r}: expected a table, got nil")

    def _retry(self, request: Request) -> Result:
        """Try a Work whose member is not ready again, with growing delay."""
        now = asyncio.get_running_loop().time()
        attempt, due = self._attempts.get(request, (0, now))
        if now >= due:
            due = now + min(self._max_delay, FIRST_RETRY_SECONDS * 2.0 ** min(attempt, 30))
            self._attempts[request] = (attempt + 1, due)
        return after(due - now)

    async def _reflect(self, hub: Cluster, work: Object, request: Request) -> float:
        """Report the status of the member's object, as Karmada's informers bring it also from a
        member that counts as not ready. Returns the seconds to wait, as ``_report``."""
        manifest = next(iter(_manifests_of(work)), None)
        member = self._members.get(names.cluster_of(work.namespace))
        known = work.view(karmada.Work).status.conditions
        applied = conditions.find(known, karmada.CONDITION_APPLIED)
        if manifest is None or member is None or applied is None:
            return 0.0
        resource = self._kinds.get((manifest["apiVersion"], manifest["kind"]))
        if resource is None:
            return 0.0
        metadata = manifest["metadata"]
        current = member.cache(resource).get(metadata["name"], metadata.get("namespace", ""))
        if current is None or not manifests.is_managed(current):
            return 0.0
        outcome = _Outcome(applied.status == conditions.TRUE, applied.message, current)
        return await self._report(hub, work, request, manifest, outcome)

    def _forget(self, request: Request) -> None:
        self._status_writes.forget(request)
        self._attempts.pop(request, None)
        self._applied.pop(request, None)
        self._unanswered.pop(request, None)

    async def _remove_orphans(self, hub: Cluster, request: Request) -> None:
        member = self._members.get(names.cluster_of(request.namespace))
        if member is not None:
            await remove_orphan_objects(hub.client, member, self._propagated, request)

    def _member(self, name: str) -> Cluster:
        member = self._members.get(name)
        if member is None:
            raise Waiting(f"member {name} is not engaged", 1.0)
        return member

    async def _apply(
        self, member: Cluster, request: Request, work: Object, manifest: Values
    ) -> _Outcome | None:
        """None where nothing is tried: the object has lost Karmada's label, and the Work has not
        changed since it was applied."""
        resource = self._kinds.get((manifest["apiVersion"], manifest["kind"]))
        if resource is None:
            kind = f"{manifest['apiVersion']} {manifest['kind']}"
            return _Outcome(False, f"{kind} is not among the propagated kinds")
        name = manifest["metadata"]["name"]
        namespace = manifest["metadata"].get("namespace", "")
        if namespace and not _has_namespace(member, namespace):
            raise Waiting(f"namespace {namespace} is not in member {member.name} yet", 5.0)
        cache = member.cache(resource)
        if not cache.synced:
            raise Waiting(f"{resource} of member {member.name} are not synced yet", 1.0)
        current = cache.get(name, namespace)
        attempt = (work.metadata.generation, current.metadata.generation if current else 0)
        if self._unanswered.get(request) == attempt:
            return _applied(current)
        try:
            if current is None:
                created = await create_or_wait(member.client, resource, manifest, namespace)
                self._applied[request] = (work.metadata.generation, created.metadata.uid)
                return _applied(created)
            if current.metadata.deleting:
                raise Waiting(f"{current!r} in member {member.name} is being deleted", 5.0)
            version = (work.metadata.generation, current.metadata.uid)
            is_new = self._applied.get(request) != version
            if not is_new and not manifests.is_managed(current):
                return None
            if not manifests.may_take_over(current, manifest):
                return _Outcome(False, _unmanaged(resource, name))
            written = await self._update(member, resource, current, manifest, is_new=is_new)
            self._applied[request] = version
            return _applied(written)
        except (errors.Invalid, errors.Forbidden, errors.NotServed, errors.NotFound) as error:
            return _Outcome(False, str(error))
        except errors.TimedOut:
            if resource in RETRIED_KINDS:
                raise
            # Karmada writes inside client-go's RetryOnConflict, which returns no error then.
            self._unanswered[request] = attempt
            return _applied(current)

    async def _update(
        self,
        member: Cluster,
        resource: Resource,
        current: Object,
        manifest: Values,
        *,
        is_new: bool,
    ) -> Object:
        """``is_new``: the Work has changed since it was last applied to this object."""
        change = manifests.decide_change(current, manifest)
        if not self._unkept.is_due(current, change):
            return current
        if not is_new and not manifests.is_drift(change):
            return current
        metadata = change.setdefault("metadata", {})
        metadata["uid"] = current.metadata.uid
        metadata["resourceVersion"] = current.metadata.resource_version
        written = await member.client.patch(
            resource, current.name, merge(change), current.namespace
        )
        self._unkept.record(written, manifests.decide_change(written, manifest))
        return written

    async def _report(
        self, hub: Cluster, work: Object, request: Request, manifest: Values, outcome: _Outcome
    ) -> float:
        """Write the outcome. Returns the seconds to wait if it is too soon for another write."""
        status = status_with(
            work, *_applied_changes(work, outcome), now=self._env.now(), observed=False
        )
        reported = patch.values(outcome.member.status) if outcome.member is not None else {}
        known = work.view(karmada.Work).status.conditions
        if status["conditions"] == conditions.to_wire(known):
            if not reported or reported == works.member_status(work):
                return 0.0
            now = asyncio.get_running_loop().time()
            if wait := self._status_writes.take(request, now):
                return wait
        if reported:
            item = {"identifier": self._identifier(manifest), "status": reported}
            status["manifestStatuses"] = [{**item, "health": "Unknown"}]
        await patch.write_status(hub.client, karmada.WORKS, work, status)
        return 0.0

    async def _report_suspended(self, hub: Cluster, work: Object) -> None:
        suspended = ConditionChange(
            karmada.CONDITION_DISPATCHING,
            conditions.FALSE,
            karmada.REASON_SUSPEND_DISPATCHING,
            "Dispatching of the Work is suspended",
        )
        await write_conditions(
            hub.client, karmada.WORKS, work, suspended, now=self._env.now(), observed=False
        )

    def _identifier(self, manifest: Values) -> dict[str, Any]:
        resource = self._kinds[(manifest["apiVersion"], manifest["kind"])]
        identifier = {
            "ordinal": 0,
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
            "resource": resource.plural,
            "namespace": manifest["metadata"].get("namespace", ""),
            "name": manifest["metadata"]["name"],
        }
        return {key: value for key, value in identifier.items() if value != ""}

    async def _remove(
        self, hub: Cluster, work: Object, cluster: Object | None, request: Request
    ) -> Result:
        if karmada.FINALIZER_EXECUTION not in work.metadata.finalizers:
            return DONE
        ready = [
            each
            for each in readable((cluster,) if cluster else (), karmada.Cluster)
            if schedule.is_ready(each)
        ]
        member = self._members.get(ready[0].name) if ready else None
        if member is not None:
            # One that cannot be read is released: its object is then without a Work, and removed.
            for spec in (view.spec for view in views((work,), karmada.Work)):
                for manifest in _manifests_of(work):
                    keep = spec.preserve_resources_on_deletion
                    await self._remove_object(member, manifest, keep=keep)
        elif cluster is not None and not cluster.metadata.deleting:
            return self._retry(request)  # blocked until the member is back
        self._env.fault("propagation.before-work-release")
        await patch.release_finalizer(hub.client, karmada.WORKS, work, karmada.FINALIZER_EXECUTION)
        return DONE

    async def _remove_object(self, member: Cluster, manifest: Values, *, keep: bool) -> None:
        """Delete the member's object, or keep it there unmanaged."""
        resource = self._kinds.get((manifest["apiVersion"], manifest["kind"]))
        if resource is None:
            return
        metadata = manifest["metadata"]
        # Live: a stale cache would miss a new object.
        current = await find_live(
            member.client, resource, metadata["name"], metadata.get("namespace", "")
        )
        if current is None or not manifests.is_managed(current) or current.metadata.deleting:
            return
        self._unkept.forget(current.metadata.uid)
        if not keep:
            await patch.delete_if_present(member.client, resource, current)
            return
        labels, annotations = manifests.decide_release(current)
        await patch.ensure_metadata(
            member.client, resource, current, labels=labels, annotations=annotations
        )


def _applied_changes(work: Object, outcome: _Outcome) -> list[ConditionChange]:
    changes = []
    current = work.view(karmada.Work).status.conditions
    if conditions.find(current, karmada.CONDITION_DISPATCHING) is not None:
        # A Work that was suspended before reports that it no longer is.
        changes.append(
            ConditionChange(
                karmada.CONDITION_DISPATCHING,
                conditions.TRUE,
                karmada.REASON_DISPATCHING,
                "The Work is being dispatched",
            )
        )
    changes.append(
        ConditionChange(
            karmada.CONDITION_APPLIED,
            conditions.TRUE if outcome.applied else conditions.FALSE,
            karmada.REASON_APPLIED_SUCCESSFUL if outcome.applied else karmada.REASON_APPLIED_FAILED,
            outcome.message,
        )
    )
    return changes


def _applied(member: Object | None) -> _Outcome:
    return _Outcome(True, "Manifest has been successfully applied", member)


def _unmanaged(resource: Resource, name: str) -> str:
    return (
        f"{resource} {name} already exists in the cluster and is not managed by Karmada:"
        " Karmada will not manage this resource"
    )


def _has_namespace(member: Cluster, namespace: str) -> bool:
    found = member.cache(NAMESPACES).get(namespace)
    return found is not None and not found.metadata.deleting


def _manifests_of(work: Object) -> list[Values]:
    raw = work.view(karmada.Work).spec.workload.manifests
    return [msgspec.json.decode(manifest) for manifest in raw]
