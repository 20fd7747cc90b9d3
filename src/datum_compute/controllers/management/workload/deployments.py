"""Creates, corrects and deletes the deployments of a Workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, owner_reference
from datum_compute.decisions.placement import (
    PlacementPlan,
    WantedDeployment,
    build_deployment_spec,
    derived_names,
)
from datum_compute.decisions.references import (
    DataRoll,
    decide_data_roll,
    parse_hashes,
    references_of,
    with_data_hash,
    without_data_hash,
)
from datum_compute.decisions.restarts import keep_restart
from datum_compute.decisions.rollout.members import ExistingDeployment, RolloutStep
from datum_compute.decisions.rollout.plan import RolloutPlan
from datum_compute.decisions.routing import http_port
from datum_compute.decisions.suspension import decide_suspended_by
from datum_compute.runtime.cache.quarantine import readable, views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_or_wait
from datum_compute.runtime.writes.ownership import ensure_owner
from datum_compute.runtime.writes.spec_copies import SpecCopies

DEPLOYMENTS_BY_WORKLOAD = "workload-uid"


def workload_uid_of(deployment: Object) -> list[str]:
    """The Workloads of a deployment, as index keys: of its label, of its owner and of its spec, so
    that one that lost some of them is found, and corrected."""
    uids = {deployment.metadata.labels.get(compute.LABEL_WORKLOAD_UID)}
    owner = deployment.metadata.controller()
    if owner is not None and owner.kind == compute.WORKLOADS.kind:
        uids.add(owner.uid)
    for view in views((deployment,), compute.WorkloadDeployment):
        uids.add(view.spec.workload_ref.uid)
    return sorted(f"{deployment.namespace}/{uid}" for uid in uids if uid)


def deployments_of(project: Cluster, workload: Object) -> list[Object]:
    key = f"{workload.namespace}/{workload.metadata.uid}"
    return project.cache(compute.WORKLOAD_DEPLOYMENTS).by_index(DEPLOYMENTS_BY_WORKLOAD, key)


def candidates_of(project: Cluster, workload: Object) -> list[Object]:
    """The deployments of a Workload, and those of others that hold a name it wants."""
    cache = project.cache(compute.WORKLOAD_DEPLOYMENTS)
    found = deployments_of(project, workload)
    known = {each.name for each in found}
    for name in derived_names(workload.view(compute.Workload)):
        holder = None if name in known else cache.get(name, workload.namespace)
        if holder is not None:
            found.append(holder)
    return found


def existing_in(
    found: Iterable[Object], ages: Mapping[str, tuple[timedelta, timedelta]]
) -> dict[str, ExistingDeployment]:
    """Deployments for the decision on a rollout, by name."""
    return {
        each.name: ExistingDeployment(
            each.view(compute.WorkloadDeployment),
            without_data_hash(patch.values(each.spec).get("template") or {}),
            *ages.get(each.metadata.uid, ()),
        )
        for each in readable(found, compute.WorkloadDeployment)
    }


async def ensure_suspension(
    project: Cluster, workload: Object, project_suspended: bool | None
) -> bool:
    """Stop or start the deployments with their Workload or project; whether any was written. Also
    those that the spec no longer names, which run until they are deleted."""
    changed = False
    for existing in deployments_of(project, workload):
        current = existing.metadata.annotations.get(compute.ANNOTATION_SUSPENDED, "")
        wanted = decide_suspended_by(
            workload.view(compute.Workload), current, project_suspended=project_suspended
        )
        if (wanted or "") != current and not existing.metadata.deleting:
            changed = True
            await patch.ensure_metadata(
                project.client,
                compute.WORKLOAD_DEPLOYMENTS,
                existing,
                annotations={compute.ANNOTATION_SUSPENDED: wanted},
            )
    return changed


async def ensure_deployments(
    project: Cluster,
    copies: SpecCopies,
    workload: Object,
    plan: PlacementPlan,
    rollout: RolloutPlan,
    found: Mapping[str, Object],
    now: datetime,
    project_suspended: bool | None,
) -> tuple[dict[str, Object], float | None]:
    """Ensure what both plans say, given the deployments by name. Returns those that were written,
    as the server has them, and the seconds after which a roll that waits is due."""
    written: dict[str, Object] = {}
    waits = []
    # Before anything is created: after that, nothing tells what was added with a removal.
    for kept in plan.kept:
        existing = found.get(kept.deployment.metadata.name)
        if existing is not None and existing.metadata.uid == kept.deployment.metadata.uid:
            await patch.ensure_metadata(
                project.client,
                compute.WORKLOAD_DEPLOYMENTS,
                existing,
                annotations={compute.ANNOTATION_REPLACED_BY: kept.replaced_by},
            )
    spec = patch.values(workload.spec)
    for wanted in plan.wanted:
        existing = found.get(wanted.name)
        step = rollout.steps[wanted.name]
        template = step.template
        if existing is not None:
            # Also where it cannot be read, and no decision knows its template.
            template = keep_restart(template, patch.values(existing.spec).get("template"))
        data = _data_roll(template, existing, now)
        waits += [data.delay] if data.delay is not None else []
        body = build_deployment_spec(
            workload_name=workload.name,
            workload_uid=workload.metadata.uid,
            workload_spec=spec,
            wanted=wanted,
            template=with_data_hash(template, data.hash),
        )
        if existing is None:
            suspended_by = decide_suspended_by(
                workload.view(compute.Workload), "", project_suspended=project_suspended
            )
            await _create(project, workload, wanted, body, step, suspended_by)
        elif f"{workload.namespace}/{workload.metadata.uid}" in workload_uid_of(existing):
            written[wanted.name] = await _correct(project, copies, workload, body, step, existing)
    for orphan in plan.orphans:
        if not orphan.metadata.deleting:
            name, uid = orphan.metadata.name, orphan.metadata.uid
            await patch.delete_by_uid(
                project.client, compute.WORKLOAD_DEPLOYMENTS, name, workload.namespace, uid
            )
    return written, min(waits, default=None)


async def ensure_removed(project: Cluster, deployments: Sequence[Object]) -> None:
    for deployment in deployments:
        if not deployment.metadata.deleting:
            await patch.delete_if_present(project.client, compute.WORKLOAD_DEPLOYMENTS, deployment)


async def _create(
    project: Cluster,
    workload: Object,
    wanted: WantedDeployment,
    spec: Mapping[str, Any],
    step: RolloutStep,
    suspended_by: str | None,
) -> None:
    given = {**_annotations(workload, step), compute.ANNOTATION_SUSPENDED: suspended_by}
    notes = {key: text for key, text in given.items() if text is not None}
    body = {
        "metadata": {
            "name": wanted.name,
            "namespace": workload.namespace,
            "labels": _labels(workload),
            **({"annotations": notes} if notes else {}),
            "ownerReferences": [owner_reference(workload, controller=True)],
        },
        "spec": spec,
    }
    await create_or_wait(project.client, compute.WORKLOAD_DEPLOYMENTS, body, workload.namespace)


async def _correct(
    project: Cluster,
    copies: SpecCopies,
    workload: Object,
    spec: Mapping[str, Any],
    step: RolloutStep,
    existing: Object,
) -> Object:
    existing = await ensure_owner(
        project.client, compute.WORKLOAD_DEPLOYMENTS, existing, workload, controller=True
    )
    return await copies.ensure(
        project.client,
        compute.WORKLOAD_DEPLOYMENTS,
        existing,
        spec,
        labels=_labels(workload),
        annotations=_annotations(workload, step),
    )


def _annotations(workload: Object, step: RolloutStep) -> dict[str, str | None]:
    port = http_port(workload.metadata.annotations)
    return {
        compute.ANNOTATION_HTTP_PORT: str(port) if port is not None else None,
        compute.ANNOTATION_REPLACED_BY: None,
        compute.ANNOTATION_ROLLOUT_STATE: step.state,
        compute.ANNOTATION_LAST_GOOD_TEMPLATE: step.last_good,
    }


def _data_roll(template: Mapping[str, Any], existing: Object | None, now: datetime) -> DataRoll:
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    if existing is None or annotations.get(compute.ANNOTATION_ROLL_ON_CONFIG_CHANGE) != "true":
        return DataRoll("")
    typed = compute.read_template(template) or compute.InstanceTemplate()
    references = references_of(typed.spec)
    delivered = parse_hashes(existing.metadata.annotations.get(compute.ANNOTATION_DELIVERED_DATA))
    for deployment in views((existing,), compute.WorkloadDeployment):
        carried = deployment.spec.template.metadata.annotations
        found = deployment.status.conditions
        return decide_data_roll(
            references,
            delivered,
            current=carried.get(compute.ANNOTATION_DATA_HASH, ""),
            reachable=conditions.find(found, compute.CONDITION_CELL_REACHABLE),
            now=now,
        )
    # Its spec cannot be read, and is about to be replaced.
    return decide_data_roll(references, delivered, current="", reachable=None, now=now)


def _labels(workload: Object) -> dict[str, str]:
    return {compute.LABEL_WORKLOAD_UID: workload.metadata.uid}
