"""Creates, corrects and deletes the deployments of a Workload."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

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
)
from datum_compute.runtime.cache.quarantine import views
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
    for readable in views((deployment,), compute.WorkloadDeployment):
        uids.add(readable.spec.workload_ref.uid)
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


async def ensure_deployments(
    project: Cluster, copies: SpecCopies, workload: Object, plan: PlacementPlan, now: datetime
) -> float | None:
    """Returns the seconds after which a roll that waits is due."""
    waits = []
    cache = project.cache(compute.WORKLOAD_DEPLOYMENTS)
    # Before anything is created: after that, nothing tells what was added with a removal.
    for kept in plan.kept:
        existing = cache.get(kept.deployment.metadata.name, workload.namespace)
        if existing is not None and existing.metadata.uid == kept.deployment.metadata.uid:
            await patch.ensure_metadata(
                project.client,
                compute.WORKLOAD_DEPLOYMENTS,
                existing,
                annotations={compute.ANNOTATION_REPLACED_BY: kept.replaced_by},
            )
    for wanted in plan.wanted:
        existing = cache.get(wanted.name, workload.namespace)
        if existing is None:
            await _create(project, workload, wanted)
        elif f"{workload.namespace}/{workload.metadata.uid}" in workload_uid_of(existing):
            data = _data_roll(workload, existing, now)
            waits += [data.delay] if data.delay is not None else []
            await _correct(project, copies, workload, wanted, existing, data.hash)
    for orphan in plan.orphans:
        if not orphan.metadata.deleting:
            name, uid = orphan.metadata.name, orphan.metadata.uid
            await patch.delete_by_uid(
                project.client, compute.WORKLOAD_DEPLOYMENTS, name, workload.namespace, uid
            )
    return min(waits, default=None)


async def ensure_removed(project: Cluster, deployments: Sequence[Object]) -> None:
    for deployment in deployments:
        if not deployment.metadata.deleting:
            await patch.delete_if_present(project.client, compute.WORKLOAD_DEPLOYMENTS, deployment)


async def _create(project: Cluster, workload: Object, wanted: WantedDeployment) -> None:
    body = {
        "metadata": {
            "name": wanted.name,
            "namespace": workload.namespace,
            "labels": _labels(workload),
            "ownerReferences": [owner_reference(workload, controller=True)],
        },
        "spec": build_deployment_spec(
            workload_name=workload.name,
            workload_uid=workload.metadata.uid,
            workload_spec=bytes(workload.spec),
            wanted=wanted,
        ),
    }
    await create_or_wait(project.client, compute.WORKLOAD_DEPLOYMENTS, body, workload.namespace)


async def _correct(
    project: Cluster,
    copies: SpecCopies,
    workload: Object,
    wanted: WantedDeployment,
    existing: Object,
    data_hash: str,
) -> None:
    spec = build_deployment_spec(
        workload_name=workload.name,
        workload_uid=workload.metadata.uid,
        workload_spec=bytes(workload.spec),
        wanted=wanted,
        existing_spec=bytes(existing.spec),
        data_hash=data_hash,
    )
    existing = await ensure_owner(
        project.client, compute.WORKLOAD_DEPLOYMENTS, existing, workload, controller=True
    )
    await copies.ensure(
        project.client,
        compute.WORKLOAD_DEPLOYMENTS,
        existing,
        spec,
        labels=_labels(workload),
        annotations={compute.ANNOTATION_REPLACED_BY: None},
    )


def _data_roll(workload: Object, existing: Object, now: datetime) -> DataRoll:
    template = workload.view(compute.Workload).spec.template
    if template.metadata.annotations.get(compute.ANNOTATION_ROLL_ON_CONFIG_CHANGE) != "true":
        return DataRoll("")
    delivered = parse_hashes(existing.metadata.annotations.get(compute.ANNOTATION_DELIVERED_DATA))
    references = references_of(template.spec)
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
