"""A cell whose hub or project does not respond, or refuses."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from tests.support.client.intercepted_transport import CUT, forbid
from tests.support.controllers import cell_deployments as deployments
from tests.support.controllers.cell_instances import (
    CLAIM,
    NAME,
    controller,
    create_prerequisites,
    finalizers,
    granted,
)
from tests.support.controllers.planes import (
    NAMESPACE,
    controller_planes,
    remove_finalizers,
    settle,
    template,
)
from tests.support.objects import condition, find, message, until, until_gone, until_names


async def test_the_finalizer_stays_while_the_hub_refuses_and_is_retried() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        hub, link = w.linked("hub")
        async with w.running(controller(w, hub=hub)):
            await granted(w)
            link.rules.append(forbid("DELETE"))
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await settle()
            assert await finalizers(w) == [compute.FINALIZER_INSTANCE]

            link.rules.clear()
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            assert await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace) is None


async def test_the_finalizer_stays_while_the_project_refuses_and_is_retried() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        project, link = w.linked("project/demo")
        async with w.running(controller(w, project=project)):
            await granted(w)
            link.rules.append(forbid("DELETE"))
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            assert await finalizers(w) == [compute.FINALIZER_QUOTA_CLAIM]

            link.rules.clear()
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is None


async def test_rolls_wait_for_an_unreachable_project_and_the_deployment_reports_it() -> None:
    """Its claims cannot be read, so a replacement would stay at its gate."""
    async with controller_planes() as w:
        await deployments.given(w, 1)
        project, link = w.linked("project/demo")
        cell = deployments.federated_controller(w, project)
        link.rules.append(CUT)
        async with w.running(cell):
            await deployments.all_run(w, deployments.ZERO)
            await deployments.change(w, template=template("acme/web:2"))
            reported = await until(
                w.cell,
                compute.WORKLOAD_DEPLOYMENTS,
                deployments.NAME,
                w.hub_namespace,
                lambda obj: "CellDisconnected" in message(obj, "ReplicasReady"),
            )
            assert condition(reported, "ReplicasReady") == ("True", "ReplicasAvailable")
            assert condition(reported, "Available") == ("True", "StableInstanceFound")
            await settle()
            (kept,) = await until_names(w.cell, compute.INSTANCES, deployments.ZERO)
            assert not kept.metadata.deleting

            link.rules.remove(CUT)
            await deployments.deleting(w, deployments.ZERO)


async def test_a_roll_resumes_soon_after_a_short_and_a_long_partition() -> None:
    """Contact returns without an event, so a held roll is checked, less and less often."""
    async with controller_planes() as w:
        await deployments.given(w, 1)
        project, link = w.linked("project/demo")
        cell = deployments.federated_controller(w, project)
        link.rules.append(CUT)
        async with w.running(cell):
            await deployments.all_run(w, deployments.ZERO)
            await deployments.change(w, template=template("acme/web:2"))
            await settle(1)
            link.rules.remove(CUT)
            await settle(8)
            (rolled,) = (await w.cell.list(compute.INSTANCES)).items
            assert rolled.metadata.deleting
            await remove_finalizers(w.cell, compute.INSTANCES, deployments.ZERO, w.hub_namespace)
            await deployments.all_run(w, deployments.ZERO)

            link.rules.append(CUT)
            await settle(3600)  # until no watch is left
            await deployments.change(w, template=template("acme/web:3"))
            await settle(60)
            before = cell.statistics().runs
            await settle(3600)
            assert cell.statistics().runs - before <= 3600 / 10
            link.rules.clear()
            await deployments.deleting(w, deployments.ZERO)


async def test_a_project_that_forbids_reading_claims_is_not_unreachable() -> None:
    """A plane that refuses is reachable: the roll goes on, and quota decides."""
    async with controller_planes() as w:
        await deployments.given(w, 1)
        project, link = w.linked("project/demo")
        cell = deployments.federated_controller(w, project)
        link.rules.append(forbid("GET"))
        async with w.running(cell):
            await deployments.all_run(w, deployments.ZERO)
            await deployments.change(w, template=template("acme/web:2"))
            await deployments.deleting(w, deployments.ZERO)
            reported = await w.cell.get(
                compute.WORKLOAD_DEPLOYMENTS, deployments.NAME, w.hub_namespace
            )
            assert "CellDisconnected" not in message(reported, "ReplicasReady")


async def test_a_roll_in_progress_is_reported_as_held_when_contact_is_lost_silently() -> None:
    """Nothing of the cell changes any more, and the watches end only when their time is up."""
    async with controller_planes() as w:
        await deployments.given(w, 2)
        project, link = w.linked("project/demo")
        cell = deployments.federated_controller(w, project)
        async with w.running(cell):
            await deployments.all_run(w, deployments.ZERO, deployments.ONE)
            await deployments.change(w, template=template("acme/web:2"))
            await deployments.deleting(w, deployments.ONE)
            await remove_finalizers(w.cell, compute.INSTANCES, deployments.ONE, w.hub_namespace)
            await settle()
            link.rules.append(CUT)
            await settle(900)
            reported = await w.cell.get(
                compute.WORKLOAD_DEPLOYMENTS, deployments.NAME, w.hub_namespace
            )
            assert "CellDisconnected" in message(reported, "ReplicasReady")
            kept = await w.cell.get(compute.INSTANCES, deployments.ZERO, w.hub_namespace)
            assert not kept.metadata.deleting
