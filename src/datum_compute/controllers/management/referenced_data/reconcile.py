"""Reconciles the data that one WorkloadDeployment of a project names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.management.referenced_data.companions import (
    Companions,
    companions_of,
    find_companion,
    users_of,
)
from datum_compute.controllers.management.referenced_data.signals import DataSignals
from datum_compute.controllers.planes import HUB, hub_namespace_of
from datum_compute.decisions.references import (
    Delivery,
    Reference,
    decide_delivery,
    entries_to_text,
    hashes_to_text,
    parse_hashes,
    references_of,
)
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.writes import patch

log = get_logger(__name__)

NAMESPACES_BY_PROJECT = "project-namespace"
"""Index of hub namespaces by project and the project's namespace."""

ERROR_SECONDS = 30.0
"""How often sources with an error are read again: a right that is granted is no event."""

_ANNOTATIONS = (
    compute.ANNOTATION_EXPECTED_REFERENCED_DATA,
    compute.ANNOTATION_REFERENCED_DATA_ERROR,
    compute.ANNOTATION_DELIVERED_DATA,
)


class ReferencedDataReconciler:
    def __init__(self, projects: Fleet, hub: Fleet, env: Environment, signals: DataSignals) -> None:
        self._projects = projects
        self._hub = hub
        self._env = env
        self._signals = signals
        self._companions = Companions(env, signals)

    async def reconcile(self, request: Request) -> Result:
        project = self._projects.get(request.cluster)
        if project is None:
            return DONE
        hub = self._hub.require(HUB)
        if "/" in request.name:
            await self._remove_unused(project, hub, request)
            return DONE
        deployment = project.cache(compute.WORKLOAD_DEPLOYMENTS).get(
            request.name, request.namespace
        )
        if deployment is None:
            await self._release_deleted(project, hub, request)
            return DONE
        if deployment.metadata.deleting:
            await self._finalize(project, hub, deployment)
            return DONE
        references = names_in(deployment)
        if references:
            return await self._deliver(project, hub, deployment, references)
        if is_managed(deployment):
            return await self._stop(project, hub, deployment)
        return DONE

    async def _deliver(
        self, project: Cluster, hub: Cluster, deployment: Object, references: Sequence[Reference]
    ) -> Result:
        hub_namespace = _require_namespace(project, hub, deployment)
        kept = companions_of(hub, hub_namespace, user_of(deployment))
        _require_named(project, deployment, [each for each in references if each.entry not in kept])
        deployment = await patch.ensure_metadata(
            project.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            finalizer=compute.FINALIZER_REFERENCED_DATA,
        )
        self._env.fault("referenced-data.before-companions")
        delivery = await self._copy(project, hub, deployment, hub_namespace, references)
        self._env.fault("referenced-data.before-annotations")
        deployment = await self._annotate(project, deployment, delivery)
        await self._release(project, hub, deployment, keep=(hub_namespace, delivery.expected))
        return after(ERROR_SECONDS) if delivery.error else DONE

    async def _copy(
        self,
        project: Cluster,
        hub: Cluster,
        deployment: Object,
        hub_namespace: str,
        references: Sequence[Reference],
    ) -> Delivery:
        user = user_of(deployment)
        kept = companions_of(hub, hub_namespace, user)
        sources = {
            each.entry: await self._companions.read_source(
                project, hub, deployment.namespace, hub_namespace, each
            )
            for each in references
        }
        facts = {entry: source.fact for entry, source in sources.items()}
        decide = partial(
            decide_delivery,
            references,
            kept=kept,
            has_old=has_old_instances(deployment),
            delivered=_delivered(deployment),
        )
        delivery = decide(facts)
        for each in references:
            if each.entry in delivery.copied:
                wrong = await self._companions.ensure(
                    hub, hub_namespace, each, sources[each.entry], user
                )
                facts |= {each.entry: wrong} if wrong is not None else {}
        return decide(facts)

    async def _annotate(self, project: Cluster, deployment: Object, delivery: Delivery) -> Object:
        error = delivery.error
        text = error.to_text() if error is not None else None
        present = deployment.metadata.annotations.get(compute.ANNOTATION_REFERENCED_DATA_ERROR)
        written = await patch.ensure_metadata(
            project.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            annotations={
                compute.ANNOTATION_EXPECTED_REFERENCED_DATA: entries_to_text(delivery.expected),
                compute.ANNOTATION_REFERENCED_DATA_ERROR: text,
                compute.ANNOTATION_DELIVERED_DATA: hashes_to_text(delivery.hashes),
            },
        )
        if error is not None and text != present:
            self._signals.record_error(error.reason)
            log.info(
                "data of a deployment cannot be delivered",
                namespace=deployment.namespace,
                name=deployment.name,
                reason=error.reason,
            )
        return written

    async def _stop(self, project: Cluster, hub: Cluster, deployment: Object) -> Result:
        """The template no longer names any data. What older Instances use stays until they are
        replaced."""
        hub_namespace = _require_namespace(project, hub, deployment)
        if has_old_instances(deployment):
            kept = companions_of(hub, hub_namespace, user_of(deployment))
            delivery = Delivery((), tuple(sorted(kept)), None, _delivered(deployment))
            await self._annotate(project, deployment, delivery)
            return DONE
        deployment = await patch.ensure_metadata(
            project.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            annotations=dict.fromkeys(_ANNOTATIONS),
        )
        await self._release(project, hub, deployment)
        await patch.release_finalizer(
            project.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            compute.FINALIZER_REFERENCED_DATA,
        )
        return DONE

    async def _finalize(self, project: Cluster, hub: Cluster, deployment: Object) -> None:
        finalizers = deployment.metadata.finalizers
        if compute.FINALIZER_REFERENCED_DATA not in finalizers:
            return
        if compute.FINALIZER_FEDERATOR in finalizers:
            return  # its Instances may still run; the release of that finalizer is the next event
        await self._release(project, hub, deployment)
        await patch.release_finalizer(
            project.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            compute.FINALIZER_REFERENCED_DATA,
        )

    async def _release(
        self,
        project: Cluster,
        hub: Cluster,
        deployment: Object,
        keep: tuple[str, Sequence[str]] = ("", ()),
    ) -> None:
        """Drop the deployment from companions, but for some entries in one hub namespace."""
        user = user_of(deployment)
        for hub_namespace in _hub_namespaces(project, hub, deployment.namespace):
            kept = keep[1] if hub_namespace == keep[0] else ()
            for entry, companion in companions_of(hub, hub_namespace, user).items():
                if entry not in kept:
                    await self._companions.release(hub, entry, companion, user)

    async def _release_deleted(self, project: Cluster, hub: Cluster, request: Request) -> None:
        """Drop a deployment that no longer exists from companions: it was deleted without its
        finalizer, or a write arrived late."""
        user = f"{request.namespace}/{request.name}"
        used = [
            (entry, companion)
            for hub_namespace in _hub_namespaces(project, hub, request.namespace)
            for entry, companion in companions_of(hub, hub_namespace, user).items()
        ]
        if not used:
            return
        deployments = compute.WORKLOAD_DEPLOYMENTS
        if await find_live(project.client, deployments, request.name, request.namespace):
            raise Waiting("the cache has not seen this deployment yet", 1.0)
        for entry, companion in used:
            await self._companions.release(hub, entry, companion, user)

    async def _remove_unused(self, project: Cluster, hub: Cluster, request: Request) -> None:
        """Delete a companion that names no deployment, and that no deployment names."""
        kind, _, name = request.name.partition("/")
        for hub_namespace in _hub_namespaces(project, hub, request.namespace):
            companion = find_companion(hub, hub_namespace, kind, name)
            if companion is None or users_of(companion):
                continue
            found = await project.client.list(compute.WORKLOAD_DEPLOYMENTS, request.namespace)
            if any(
                reference.entry == request.name
                for each in views(found.items, compute.WorkloadDeployment)
                for reference in references_of(each.spec.template.spec)
            ):
                continue  # its reconcile adds it
            await self._companions.release(hub, request.name, companion, "")


def names_in(deployment: Object) -> tuple[Reference, ...]:
    view = deployment.view(compute.WorkloadDeployment)
    return references_of(view.spec.template.spec)


def user_of(deployment: Object) -> str:
    return f"{deployment.namespace}/{deployment.name}"


def is_managed(deployment: Object) -> bool:
    """Whether this controller has written to the deployment."""
    metadata = deployment.metadata
    return compute.FINALIZER_REFERENCED_DATA in metadata.finalizers or any(
        key in metadata.annotations for key in _ANNOTATIONS
    )


def _delivered(deployment: Object) -> dict[str, str]:
    text = deployment.metadata.annotations.get(compute.ANNOTATION_DELIVERED_DATA)
    return parse_hashes(text) or {}


def has_old_instances(deployment: Object) -> bool:
    """Whether Instances of an older template may run: as long as the cell's report does not show
    that there are none."""
    view = deployment.view(compute.WorkloadDeployment)
    status = view.status
    is_current = status.observed_generation == view.metadata.generation
    return not is_current or status.updated_replicas < status.replicas


def _require_namespace(project: Cluster, hub: Cluster, deployment: Object) -> str:
    recorded = deployment.metadata.annotations.get(compute.ANNOTATION_FEDERATION_NAMESPACE)
    name = hub_namespace_of(project, deployment.namespace) or recorded or ""
    found = hub.cache(core.NAMESPACES).get(name)
    if found is None or found.metadata.deleting:
        raise Waiting("the federator has not created the hub namespace yet", 1.0)
    return name


def _require_named(project: Cluster, deployment: Object, references: Sequence[Reference]) -> None:
    """Raise ``Waiting`` unless the Workload names these too: admission has asked its author for the
    right to read them. A deployment that was changed by hand gets the template of its Workload
    back."""
    owner = deployment.view(compute.WorkloadDeployment).spec.workload_ref
    workload = project.cache(compute.WORKLOADS).get(owner.name, deployment.namespace)
    named: set[str] = set()
    if workload is not None and workload.metadata.uid == owner.uid:
        template = workload.view(compute.Workload).spec.template.spec
        named = {each.entry for each in references_of(template)}
    foreign = [str(each) for each in references if each.entry not in named]
    if foreign:
        raise Waiting(f"the Workload does not name {', '.join(foreign)}", 5.0)


def _hub_namespaces(project: Cluster, hub: Cluster, namespace: str) -> list[str]:
    """The hub namespaces of a project's namespace: one, and those of deleted namespaces of the
    same name."""
    found = hub.cache(core.NAMESPACES).by_index(
        NAMESPACES_BY_PROJECT, f"{project.name}/{namespace}"
    )
    return [each.name for each in found]
