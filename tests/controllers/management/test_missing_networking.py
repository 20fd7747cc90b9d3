"""A project plane without networking kinds holds up its own Workloads, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from datum_compute.api import core, crds
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.planes import PROJECT, PlaneType
from datum_compute.assembly.process_groups import add_management
from datum_compute.controllers.planes import HUB
from datum_compute.fleets.single import SingleFleet
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime import health
from datum_compute.runtime.health import HealthCheck
from datum_compute.runtime.manager import Manager
from datum_compute.testing.server import embedded_server
from tests.support.controllers.planes import deployment, workload
from tests.support.objects import find, until_names


def _without_networking(plane_type: PlaneType) -> Sequence[Mapping[str, Any]]:
    return [
        definition
        for definition in crds.crds_for(plane_type)
        if plane_type != PROJECT or definition["spec"]["group"] != networking.GROUP
    ]


async def test_a_manager_is_ready_and_federates_while_a_project_lacks_networking_kinds() -> None:
    async with embedded_server(crds_for=_without_networking) as embedded:
        project, hub = embedded.client("project/demo"), embedded.client("hub")
        projects = StaticFleet("projects", {"demo": project}, embedded.env)
        manager = Manager("management", embedded.env)
        hub_fleet = SingleFleet("hub", HUB, hub, embedded.env)
        add_management(manager, embedded.env, projects=projects, hub=hub_fleet)
        checks = [HealthCheck("caches", manager.missing, manager.unserved)]
        running = asyncio.create_task(manager.run())
        try:
            await project.create(compute.WORKLOAD_DEPLOYMENTS, deployment("web"), "default")
            await until_names(hub, compute.WORKLOAD_DEPLOYMENTS, "web")
            await manager.wait_ready()

            quiet = health.report("readyz", checks, verbose=False)
            verbose = health.report("readyz", checks, verbose=True)
            assert (quiet.healthy, quiet.text) == (True, "ok")
            assert verbose.text.startswith("[+]caches ok\n    workload: demo networks.networking.")
            assert "workload: demo locationbindings.networking.datumapis.com: NotServed" in (
                verbose.text
            )

            # Nothing is decided about a Workload without knowing networks and locations.
            await project.create(compute.WORKLOADS, workload("DFW"), "default")
            await asyncio.sleep(60)
            held = await find(project, compute.WORKLOADS, "web", "default")
            assert held is not None
            assert held.metadata.finalizers == ()

            for definition in crds.crds_for(PROJECT):
                if definition["spec"]["group"] == networking.GROUP:
                    await project.create(core.CUSTOM_RESOURCE_DEFINITIONS, dict(definition))
            await asyncio.sleep(120)
            assert manager.unserved() == []
            held = await find(project, compute.WORKLOADS, "web", "default")
            assert held is not None
            assert held.metadata.finalizers == (compute.FINALIZER_WORKLOAD,)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
