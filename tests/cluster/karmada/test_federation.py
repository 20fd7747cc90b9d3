"""What users and operators of a federation rely on, on real Karmada.

`dfw` has joined in push mode and `lhr` in pull mode.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from tests.support.cluster.karmada_stage import NAMESPACE, KarmadaStage
from tests.support.controllers.planes import counters
from tests.support.federation import data, upstream_suites
from tests.support.federation.lifecycle import BOTH, FIRST, Lifecycle
from tests.support.federation.upstream_suites import DEPLOYMENTS, NAME, hub_copy
from tests.support.objects import condition, exists, find, until, until_gone
from tests.support.simulation.platform import (
    apply,
    list_on_planes,
    missing_for_image,
    workload,
)

pytestmark = [pytest.mark.cluster, pytest.mark.karmada]

WITHIN = 120.0


async def serves(on: KarmadaStage, count: int, image: str = "acme/web:1") -> None:
    await eventually("it serves", lambda: missing_for_image(on, image, count), within=WITHIN)


async def test_workload_deployment_federation(on: KarmadaStage) -> None:
    await upstream_suites.workload_deployment_federation(on)


async def test_deletion_cascade(on: KarmadaStage) -> None:
    await upstream_suites.deletion_cascade(on)


async def test_propagation_policy_lifecycle(on: KarmadaStage) -> None:
    await upstream_suites.propagation_policy_lifecycle(on)


async def test_instance_projection(on: KarmadaStage) -> None:
    await upstream_suites.instance_projection(on)


async def test_instance_writeback(on: KarmadaStage) -> None:
    await upstream_suites.instance_writeback(on)


async def test_full_federation(on: KarmadaStage) -> None:
    await upstream_suites.full_federation(on)


async def test_federation_reclaim_without_cell(on: KarmadaStage) -> None:
    """The cell has 90 seconds to acknowledge the deletion."""
    await upstream_suites.federation_reclaim_without_cell(on)


async def test_federation_finalizer_no_wedge(on: KarmadaStage) -> None:
    await upstream_suites.federation_finalizer_no_wedge(on)


async def test_federation_ownership(on: KarmadaStage) -> None:
    """The project's deployment names its place on the hub, and copies there have owners."""
    await apply(on, workload("acme/web:1", 2, cities=("DFW",)))
    await serves(on, 2)
    source = await on.project.get(DEPLOYMENTS, NAME, NAMESPACE)
    noted = source.metadata.annotations[compute.ANNOTATION_FEDERATION_NAMESPACE]
    assert noted == on.hub_namespace
    assert compute.FINALIZER_FEDERATOR in source.metadata.finalizers
    owner = await hub_copy(on)
    for copy in (await on.hub.list(compute.INSTANCES, on.hub_namespace)).items:
        reference = copy.metadata.controller()
        assert reference is not None
        assert (reference.kind, reference.uid) == ("WorkloadDeployment", owner.metadata.uid)


async def test_federation_hub_reclaim(on: KarmadaStage) -> None:
    """The hub collects copies with their owner, and a cell creates none without one."""
    await apply(on, workload("acme/web:1", 2, cities=("DFW",)))
    await serves(on, 2)

    async def copies_left() -> str:
        found = await list_on_planes(on, compute.INSTANCES, "hub")
        return f"{[obj.name for obj in found]} are left" if found else ""

    async with on.without("management"):
        with on.clusters.without("controller-manager"):
            await on.hub.delete(DEPLOYMENTS, NAME, on.hub_namespace)
            if await find(on.hub, DEPLOYMENTS, NAME, on.hub_namespace) is not None:
                body: dict[str, object] = {"metadata": {"finalizers": []}}
                await on.hub.patch(DEPLOYMENTS, NAME, merge(body), on.hub_namespace)
            await eventually("collected", copies_left, within=60)
            assert len(await list_on_planes(on, compute.INSTANCES, "cell/dfw")) == 2
            async with on.without("dfw"):
                pass
            await asyncio.sleep(on.quiet_seconds)
            assert await copies_left() == "", "the cell created a copy without an owner"
    await serves(on, 2)


async def test_a_deleted_binding_is_made_again_and_the_cell_filled(on: KarmadaStage) -> None:
    """Karmada empties the cell when a binding is deleted, and does not bind again by itself."""
    steps = Lifecycle(on, within=WITHIN)
    await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
    await steps.settled(FIRST)
    name = karmada.binding_name(NAME, "WorkloadDeployment")
    before = await on.hub.get(karmada.RESOURCE_BINDINGS, name, on.hub_namespace)
    await on.hub.delete(karmada.RESOURCE_BINDINGS, name, on.hub_namespace)

    def is_new(found: Object) -> bool:
        return found.metadata.uid != before.metadata.uid

    await until(on.hub, karmada.RESOURCE_BINDINGS, name, on.hub_namespace, is_new)
    await steps.settled(FIRST)


async def test_a_late_interpreter_brings_the_status_of_what_runs(
    on: KarmadaStage,
) -> None:
    """A deployment that has reported already is reported once the interpreter comes."""
    [found] = (await on.hub.list(karmada.INTERPRETER_CUSTOMIZATIONS)).items
    await on.hub.delete(karmada.INTERPRETER_CUSTOMIZATIONS, found.name)
    await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)

    def is_ready(obj: Object) -> bool:
        return counters(obj) == (2, 2, 2, 2)

    for city in BOTH:
        where = f"web-default-{city.lower()}"
        await until(on.cell(city), DEPLOYMENTS, where, on.hub_namespace, is_ready)
    assert not (await hub_copy(on)).status
    body = {"metadata": {"name": found.name}, "spec": values(found.spec)}
    await on.hub.create(karmada.INTERPRETER_CUSTOMIZATIONS, body)
    await Lifecycle(on, within=WITHIN).settled(FIRST)


async def test_a_project_shows_that_the_hub_refuses_and_is_served_later(on: KarmadaStage) -> None:
    """While the hub refuses the policy, the project says so; then it goes on."""
    with on.clusters.without("webhook"):
        await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)

        def is_explained(obj: Object) -> bool:
            return condition(obj, "Scheduled")[0] == "False"

        await until(on.project, DEPLOYMENTS, NAME, NAMESPACE, is_explained)
    await Lifecycle(on, within=WITHIN).settled(FIRST)


async def test_what_is_changed_in_a_cell_by_hand_is_put_back(on: KarmadaStage) -> None:
    """What an operator changes in a cell by hand is put back."""
    steps = Lifecycle(on, within=WITHIN)
    await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
    await steps.settled(FIRST)
    change = merge({"spec": {"scaleSettings": {"minReplicas": 1}}})
    for city in BOTH:
        where = f"web-default-{city.lower()}"
        await on.cell(city).patch(DEPLOYMENTS, where, change, on.hub_namespace)
    await steps.settled(FIRST)


async def test_a_deployment_that_lost_its_labels_still_gets_changes(
    on: KarmadaStage,
) -> None:
    """A cell's deployment that has lost Karmada's labels still gets changes, and is deleted."""
    steps = Lifecycle(on, within=WITHIN)
    await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
    await steps.settled(FIRST)
    bare = merge({"metadata": {"labels": None}})
    for city in BOTH:
        where = f"web-default-{city.lower()}"
        await on.cell(city).patch(DEPLOYMENTS, where, bare, on.hub_namespace)
    await steps.become(replace(FIRST, image="acme/web:2"))


async def test_a_namespace_that_lost_its_labels_still_gets_instances(on: KarmadaStage) -> None:
    """Karmada does not put them back, and new Instances are claimed for all the same."""
    steps = Lifecycle(on, within=WITHIN)
    await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
    await steps.settled(FIRST)
    bare = merge({"metadata": {"labels": None, "annotations": None}})
    before = [await on.cell(city).get(core.NAMESPACES, on.hub_namespace) for city in BOTH]
    try:
        for city in BOTH:
            await on.cell(city).patch(core.NAMESPACES, on.hub_namespace, bare)
        await steps.become(replace(FIRST, minimum=3))
    finally:
        for city, found in zip(BOTH, before, strict=True):
            kept = {"labels": found.metadata.labels, "annotations": found.metadata.annotations}
            whole = merge({"metadata": {key: dict(value) for key, value in kept.items()}})
            await on.cell(city).patch(core.NAMESPACES, on.hub_namespace, whole)


@pytest.mark.campaign
@pytest.mark.timeout(1800)
async def test_a_deployment_that_only_its_cell_knows_is_reported_and_removed(
    on: KarmadaStage,
) -> None:
    """Without its labels, when the hub copy is deleted, Karmada leaves it to run for ever."""
    await apply(on, workload("acme/web:1", 1, cities=("DFW",)))
    await serves(on, 1)
    async with on.without("management"):
        bare = merge({"metadata": {"labels": None, "annotations": None}})
        await on.cell().patch(DEPLOYMENTS, NAME, bare, on.hub_namespace)
        await on.hub.delete(DEPLOYMENTS, NAME, on.hub_namespace)
        await until_gone(on.hub, DEPLOYMENTS, NAME, on.hub_namespace, within=WITHIN)
        await until(
            *(on.cell(), DEPLOYMENTS, NAME, on.hub_namespace),
            lambda obj: condition(obj, compute.CONDITION_FOUND_ON_HUB)[0] == "False",
            within=WITHIN,
        )
        assert len(await list_on_planes(on, compute.INSTANCES, "cell/dfw")) == 1, "it runs on"
        await until_gone(on.cell(), DEPLOYMENTS, NAME, on.hub_namespace, within=900)
        await until_gone(on.cell(), compute.INSTANCES, f"{NAME}-0", on.hub_namespace)
    await serves(on, 1)


async def test_karmada_finds_no_fault_with_our_interpreter(on: KarmadaStage) -> None:
    """From before the first status to the end."""
    before = len(on.clusters.log("controller-manager"))
    steps = Lifecycle(on, within=WITHIN)
    await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
    await steps.settled(FIRST)
    await on.empty()
    written = on.clusters.log("controller-manager")[before:]
    faults = [line for line in written.splitlines() if "expect the returned" in line]
    assert faults == []
    [found] = (await on.hub.list(karmada.INTERPRETER_CUSTOMIZATIONS)).items
    scripts = values(found.spec)["customizations"]
    assert "statusAggregation" in scripts
    assert "statusReflection" not in scripts, "Karmada copies the whole status by itself"


async def test_data_follows_a_workload_to_its_cells_and_leaves_with_it(on: KarmadaStage) -> None:
    """A ConfigMap and a Secret follow the workload to its cells, change there and leave."""
    with_data = replace(FIRST, data=("ConfigMap/settings", "Secret/keys"))
    sources = ((core.CONFIG_MAPS, data.config_map()), (core.SECRETS, data.secret()))
    for resource, body in sources:
        await on.project.create(resource, body, NAMESPACE)
    steps = Lifecycle(on, within=WITHIN)
    await on.project.create(compute.WORKLOADS, with_data.to_create(), NAMESPACE)
    await steps.settled(with_data)
    change = merge({"data": {"colour": "red"}})
    await on.project.patch(core.CONFIG_MAPS, "settings", change, NAMESPACE)
    await steps.settled(with_data)
    for city in BOTH:
        copy = await on.cell(city).get(core.CONFIG_MAPS, "settings", on.hub_namespace)
        assert values(copy.data) == {"colour": "red"}
    await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
    await until_gone(on.project, compute.WORKLOADS, "web", NAMESPACE, within=WITHIN)
    for resource, body in sources:
        name = str(body["metadata"]["name"])
        await until_gone(on.hub, resource, name, on.hub_namespace)
        for city in BOTH:
            await until_gone(on.cell(city), resource, name, on.hub_namespace)
        assert await exists(on.project, resource, name, NAMESPACE)
        await on.project.delete(resource, name, NAMESPACE)
