"""A Project becomes a plane, and is emptied before it is removed."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client.protocol import merge
from tests.support.objects import condition, exists, until, until_gone
from tests.support.standins.platform import build, deployment, grant, settle
from tests.support.standins.projects import PROJECTS, projects


async def test_a_project_becomes_ready_with_its_namespaces() -> None:
    async with projects() as found:
        await found.embedded.create_project("fresh")
        project = await until(
            found.root, PROJECTS, "fresh", "", lambda one: condition(one, "Ready")[0] == "True"
        )

        plane = found.embedded.client("project/fresh")
        assert await exists(plane, NAMESPACES, "default")
        assert await exists(plane, NAMESPACES, "milo-system")
        assert resourcemanager.FINALIZER_PROJECT in project.metadata.finalizers


async def test_a_deleted_project_is_emptied_before_it_is_removed() -> None:
    async with projects() as found:
        await until(
            found.root, PROJECTS, "demo", "", lambda one: condition(one, "Ready")[0] == "True"
        )
        held = deployment("held", "default", "DFW")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await found.project.create(compute.WORKLOAD_DEPLOYMENTS, held, "default")
        await found.project.create(
            networking.NETWORKS,
            build(networking.NETWORKS, "default", "default", spec={"ipam": {"mode": "Auto"}}),
            "default",
        )
        await found.project.create(quota.RESOURCE_GRANTS, grant("given", {"a": 1}), "milo-system")
        await found.root.delete(PROJECTS, "demo")
        await until_gone(found.project, networking.NETWORKS, "default", "default")
        await until_gone(found.project, quota.RESOURCE_GRANTS, "given", "milo-system")
        await settle()

        waiting = await found.root.get(PROJECTS, "demo")
        assert condition(waiting, "ResourceCleanup") == ("False", "CleanupAwaitingCompletion")
        release: dict[str, dict[str, list[str]]] = {"metadata": {"finalizers": []}}
        await found.project.patch(compute.WORKLOAD_DEPLOYMENTS, "held", merge(release), "default")
        await until_gone(found.root, PROJECTS, "demo")
