"""ResourceBindings: from a claimed template to its members, and back.

In the order of a reconcile: members are chosen (again, when the placement or the members
changed); each gets a Work and members no longer chosen lose theirs; the status of the Works is
aggregated in the binding's status and, where an interpreter customization exists, in the
status of the template. A binding that is being deleted deletes its Works and waits for them.
The binding of a dependency has no placement: its members are those of the bindings in its
``requiredBy`` (:mod:`.dependencies`).

The real system has a controller for each of these steps. Here one reconcile does them all, so that
one status write carries what several would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from datum_compute.api import karmada
from datum_compute.api.conditions import FALSE, TRUE, wire_time
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result
from datum_compute.runtime.watches.mapping import all_of
from datum_compute.runtime.watches.predicates import changed, content_changed
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import ConditionChange, status_with
from datum_compute.standins.karmada import names, schedule, works
from datum_compute.standins.karmada.orphans import (
    WORKS_BY_BINDING_NAME,
    binding_of,
    remove_orphan_works,
)

WORKS_BY_BINDING = "propagation/binding"
"""Index of Works by the permanent id of their binding."""


def binding_controller(hub: Fleet, kinds: Sequence[Resource], env: Environment) -> Controller:
    reconciler = _Bindings(hub, kinds, env)
    all_bindings = all_of(hub, karmada.RESOURCE_BINDINGS)
    templates = [Watch(hub, kind, binding_of_template, predicate=content_changed) for kind in kinds]
    return Controller(
        "propagation-binding",
        hub,
        reconciler.reconcile,
        watches=[
            Watch.each(hub, karmada.RESOURCE_BINDINGS, predicate=content_changed),
            Watch(
                hub,
                karmada.WORKS,
                binding_of_work,
                indexes={WORKS_BY_BINDING: _binding_id_of, WORKS_BY_BINDING_NAME: binding_of},
            ),
            Watch(hub, karmada.CLUSTERS, all_bindings, predicate=changed(schedule.member_of)),
            *templates,
        ],
        # Not watched: a new customization changes nothing until a status or a template changes.
        reads=[Read(hub, karmada.INTERPRETER_CUSTOMIZATIONS)],
    )


def binding_of_work(cluster: str, work: Object) -> Iterable[Request]:
    if works.is_of_binding(work):
        annotations = work.metadata.annotations
        yield Request(
            cluster,
            annotations.get(karmada.ANNOTATION_BINDING_NAMESPACE, ""),
            annotations[karmada.ANNOTATION_BINDING_NAME],
        )


def _binding_id_of(work: Object) -> Iterable[str]:
    permanent_id = work.metadata.labels.get(karmada.LABEL_BINDING_ID)
    return [permanent_id] if permanent_id else []


def binding_of_template(cluster: str, template: Object) -> Iterable[Request]:
    yield Request(cluster, template.namespace, karmada.binding_name(template.name, template.kind))


def is_attached(binding: Object) -> bool:
    """Whether it is the binding of a dependency, which no policy claims."""
    return binding.view(karmada.ResourceBinding).spec.placement is None


def targets_of(binding: Object) -> list[str]:
    """The members that get the template: its own, and those of the bindings that require it."""
    spec = binding.view(karmada.ResourceBinding).spec
    required = (target for each in spec.required_by for target in each.clusters)
    return sorted({target.name for target in (*spec.clusters, *required)})


class _Bindings:
    def __init__(self, hub: Fleet, kinds: Sequence[Resource], env: Environment) -> None:
        self._hub = hub
        self._kinds = {(kind.api_version, kind.kind): kind for kind in kinds}
        self._env = env

    async def reconcile(self, request: Request) -> Result:
        hub = self._hub.get(request.cluster)
        if hub is None:
            return DONE
        binding = hub.cache(karmada.RESOURCE_BINDINGS).get(request.name, request.namespace)
        await remove_orphan_works(hub, request, binding)
        if binding is None:
            return DONE
        if binding.metadata.deleting:
            await self._finalize(hub, binding)
            return DONE
        if not is_attached(binding):
            binding = await self._ensure_scheduled(hub, binding)
        resource, template = self._template_of(hub, binding)
        if resource is None or template is None:
            return DONE  # the template is gone; the binding follows by garbage collection
        reports = await self._ensure_works(hub, binding, template)
        items = [item for work in reports if (item := works.build_item(work)) is not None]
        await self._report(hub, binding, items)
        await self._aggregate(hub, resource, template, items)
        return DONE

    async def _finalize(self, hub: Cluster, binding: Object) -> None:
        permanent_id = binding.metadata.labels.get(karmada.LABEL_BINDING_ID)
        if permanent_id:
            # Live, because no other reconcile deletes a Work that is missed here.
            found = await hub.client.list(
                karmada.WORKS, label_selector=f"{karmada.LABEL_BINDING_ID}={permanent_id}"
            )
            for work in found.items:
                if not work.metadata.deleting:
                    await patch.delete_if_present(hub.client, karmada.WORKS, work)
            if found.items:
                return  # woken when each of them is gone
        await patch.release_finalizer(
            hub.client, karmada.RESOURCE_BINDINGS, binding, karmada.FINALIZER_BINDING
        )

    async def _ensure_scheduled(self, hub: Cluster, binding: Object) -> Object:
        spec = patch.values(binding.spec)
        placement = spec.get("placement") or {}
        current = [target["name"] for target in spec.get("clusters", [])]
        resource = binding.view(karmada.ResourceBinding).spec.resource
        targets = schedule.decide_clusters(
            schedule.parse_placement(placement),
            (resource.api_version, resource.kind),
            schedule.members_of(hub, current),
            current,
        )
        annotations = {}
        if targets:
            text = schedule.placement_text(placement)
            annotations[karmada.ANNOTATION_APPLIED_PLACEMENT] = text
        clusters = [{"name": target} for target in targets]
        return await patch.ensure_metadata(
            hub.client,
            karmada.RESOURCE_BINDINGS,
            binding,
            annotations=annotations,
            spec={"clusters": clusters} if list(targets) != current else None,
        )

    def _template_of(self, hub: Cluster, binding: Object) -> tuple[Resource | None, Object | None]:
        wanted = binding.view(karmada.ResourceBinding).spec.resource
        resource = self._kinds.get((wanted.api_version, wanted.kind))
        if resource is None:
            return None, None
        template = hub.cache(resource).get(wanted.name, wanted.namespace)
        if template is None or template.metadata.uid != wanted.uid:
            return resource, None
        return resource, template

    async def _ensure_works(self, hub: Cluster, binding: Object, template: Object) -> list[Object]:
        targets = targets_of(binding)
        permanent_id = binding.metadata.labels.get(karmada.LABEL_BINDING_ID, "")
        found = {
            names.cluster_of(work.namespace): work
            for work in hub.cache(karmada.WORKS).by_index(WORKS_BY_BINDING, permanent_id)
        }
        for cluster in sorted(found.keys() - set(targets)):
            if not found[cluster].metadata.deleting:
                await patch.delete_if_present(hub.client, karmada.WORKS, found[cluster])
        return [
            await works.ensure_work(
                hub.client, self._env, template, cluster, found.get(cluster), binding=binding
            )
            for cluster in targets
        ]

    async def _report(self, hub: Cluster, binding: Object, items: list[dict[str, Any]]) -> None:
        view = binding.view(karmada.ResourceBinding)
        attached = is_attached(binding)
        changes = [] if attached else [_scheduled(view)]
        if items or (attached and not targets_of(binding)):
            changes.append(_fully_applied(targets_of(binding), items))
        status = status_with(binding, *changes, now=self._env.now(), observed=False)
        observed = view.status.scheduler_observed_generation
        if not attached and observed != binding.metadata.generation:
            status["schedulerObservedGeneration"] = binding.metadata.generation
            if view.spec.clusters:
                status["lastScheduledTime"] = wire_time(self._env.now())
        if items:
            status["aggregatedStatus"] = items
        elif not targets_of(binding):
            status.pop("aggregatedStatus", None)
        await patch.write_status(hub.client, karmada.RESOURCE_BINDINGS, binding, status)

    async def _aggregate(
        self, hub: Cluster, resource: Resource, template: Object, items: list[dict[str, Any]]
    ) -> None:
        """The rule of our interpreter customization, in Python: the first member's status,
        unchanged."""
        if not items or "status" not in items[0] or not _is_aggregated(hub, resource):
            return
        await patch.write_status(hub.client, resource, template, items[0]["status"])


def _scheduled(view: karmada.ResourceBinding) -> ConditionChange:
    if view.spec.clusters:
        status, reason = TRUE, karmada.REASON_SUCCESS
        message = "Binding has been scheduled successfully."
    else:
        status, reason = FALSE, karmada.REASON_NO_CLUSTER_FIT
        message = "no member cluster is ready, serves the kind and matches the placement"
    return ConditionChange(karmada.CONDITION_SCHEDULED, status, reason, message)


def _fully_applied(targets: list[str], items: list[dict[str, Any]]) -> ConditionChange:
    missing = set(targets) - {item["clusterName"] for item in items if item["applied"]}
    if missing or not targets:
        status, reason = FALSE, karmada.REASON_FULLY_APPLIED_FAILED
        message = f"not applied in {', '.join(sorted(missing)) or 'any member'}"
    else:
        status, reason = TRUE, karmada.REASON_FULLY_APPLIED_SUCCESS
        message = "All works have been successfully applied"
    return ConditionChange(karmada.CONDITION_FULLY_APPLIED, status, reason, message)


def _is_aggregated(hub: Cluster, resource: Resource) -> bool:
    """Whether a customization aggregates the status; without one none is returned."""
    return works.customizations_of(hub, resource).status_aggregation is not None
