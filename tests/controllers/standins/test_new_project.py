"""A project created on a running platform gets all it needs from the stand-ins, and leaves
nothing behind when it is deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.assembly import milo_objects
from datum_compute.assembly.local import bootstrap
from datum_compute.assembly.local.platform import ADMIN, LocalPlatform
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import Client
from datum_compute.runtime.writes.patch import Values, values
from datum_compute.standins.milo_projects import project_controllers
from datum_compute.standins.milo_quota import quota_controllers
from datum_compute.standins.milo_quota.budget import Consumer
from datum_compute.standins.network_services import network_controllers, network_mirror_controllers
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.expectations import eventually
from tests.support.objects import condition, exists, until, until_gone
from tests.support.standins.platform import (
    StandinPlatform,
    build,
    claim,
    create_namespace,
    deployment,
    instance_spec,
    location,
    running,
    settle,
    standin_platform,
    upstream_labels,
)

INSTANCES = "compute.datumapis.com/instances"


@asynccontextmanager
async def platform() -> AsyncIterator[StandinPlatform]:
    """All stand-ins, on the planes a local platform starts with."""
    async with standin_platform(judged=True) as found:
        await bootstrap.ensure_root(found.root, LocalSettings())
        for name, cell in found.cells.items():
            await cell.create(networking.LOCATIONS, location(name.upper()))
        root, env = found.root_fleet, found.env
        controllers = [
            *project_controllers(root(), lambda p: found.embedded.client(f"project/{p}"), env),
            *quota_controllers(found.project_fleet(), root(), env),
            *network_controllers(found.cell_fleet(), env),
            *network_mirror_controllers(found.project_fleet(), found.cell_fleet(), root(), env),
        ]
        async with running(env, controllers):
            yield found


async def limit(client: ApiClient, project: str, expected: int) -> None:
    await until(
        client,
        quota.ALLOWANCE_BUCKETS,
        Consumer("Project", project).bucket_name(INSTANCES),
        "milo-system",
        lambda one: values(one.status).get("limit") == expected,
    )


async def test_a_project_created_later_can_claim_quota_and_run_workloads() -> None:
    async with platform() as found:
        await found.embedded.create_project("late")
        late = found.embedded.client("project/late")
        await limit(late, "late", milo_objects.DEFAULT_GRANT["instances"])
        for name in ("dfw", "lhr"):
            await until(
                late,
                networking.LOCATION_BINDINGS,
                name,
                "",
                lambda one: condition(one, "Available")[0] == "True",
            )
        body = claim("instance-a", {INSTANCES: 1})
        for reference in ("consumerRef", "resourceRef"):
            body["spec"][reference] = {**body["spec"][reference], "name": "late"}
        await late.create(quota.RESOURCE_CLAIMS, body, "default")

        await until(
            late,
            quota.RESOURCE_CLAIMS,
            "instance-a",
            "default",
            lambda one: condition(one, "Granted") == ("True", "QuotaAvailable"),
        )


async def test_the_platforms_own_project_gets_no_second_grant() -> None:
    async with platform() as found:
        await bootstrap.ensure_root(found.root, LocalSettings())
        await settle()

        assert (await found.project.list(quota.RESOURCE_GRANTS)).items == []


async def test_the_platforms_own_project_is_excluded_before_it_is_created() -> None:
    async with platform() as found:
        await bootstrap.ensure_root(found.root, LocalSettings(project="acme"))
        acme = found.embedded.client("project/acme")
        await until(
            found.root,
            resourcemanager.PROJECTS,
            "acme",
            "",
            lambda one: condition(one, "Ready")[0] == "True",
        )
        await settle()

        assert (await acme.list(quota.RESOURCE_GRANTS)).items == []
        policy = await found.root.get(quota.GRANT_CREATION_POLICIES, bootstrap.FIRST_GRANTS)
        assert len(values(policy.spec)["trigger"]["constraints"]) == 2


async def test_deleting_a_project_deletes_its_networks_in_the_cells() -> None:
    async with platform() as found:
        await found.embedded.create_project("late")
        late, dfw = found.embedded.client("project/late"), found.cells["dfw"]
        await limit(late, "late", milo_objects.DEFAULT_GRANT["instances"])
        network = {
            "apiVersion": networking.NETWORKS.api_version,
            "kind": networking.NETWORKS.kind,
            "metadata": {"name": "default"},
            "spec": {"ipam": {"mode": "Auto"}},
        }
        await late.create(networking.NETWORKS, network, "default")
        await create_namespace(dfw, "ns-late", upstream_labels("late"))
        carried = deployment("app", "ns-late", "DFW")
        await dfw.create(compute.WORKLOAD_DEPLOYMENTS, carried, "ns-late")
        await until(dfw, networking.NETWORKS, "default", "ns-late", lambda _: True)
        await found.root.delete(resourcemanager.PROJECTS, "late")

        await until_gone(found.root, resourcemanager.PROJECTS, "late", within=15.0)
        await until_gone(dfw, networking.NETWORKS, "default", "ns-late")
        assert "project/late" not in found.embedded.store.planes
        assert await exists(dfw, NAMESPACES, "ns-late")


async def test_a_project_created_later_runs_a_workload_and_leaves_nothing_behind() -> None:
    """On the whole platform: no controller recreates in the project what the purge deletes."""
    settings = LocalSettings(cities=("DFW", "LHR"))
    whole = LocalPlatform(SimulatedEnvironment(), ":memory:", settings)
    async with whole.run(admin_token="t"):
        root, late = whole.client("root", ADMIN), whole.client("project/late", ADMIN)
        owner = {"kind": "Organization", "name": "local"}
        body = build(resourcemanager.PROJECTS, "late", spec={"ownerRef": owner})
        await root.create(resourcemanager.PROJECTS, body)
        network = build(networking.NETWORKS, "default", spec={"ipam": {"mode": "Auto"}})
        await late.create(networking.NETWORKS, network, "default")
        await eventually("locations", lambda: _unbound(late, len(settings.cities)))
        await late.create(compute.WORKLOADS, _workload(), "default")
        await eventually("running", lambda: _unready(late))
        await root.delete(resourcemanager.PROJECTS, "late")

        await eventually("gone", lambda: _left(root))
        for plane in ("hub", *(f"cell/{cell}" for cell in settings.cells)):
            client = whole.client(plane, ADMIN)
            for resource in (compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
                assert (await client.list(resource)).items == []
        for cell in settings.cells:
            for resource in (networking.NETWORKS, networking.SUBNETS, networking.SUBNET_CLAIMS):
                assert (await whole.client(f"cell/{cell}", ADMIN).list(resource)).items == []


def _workload() -> Values:
    placement = {
        "name": "web",
        "cityCodes": ["DFW", "LHR"],
        "scaleSettings": {"minReplicas": 1},
    }
    spec = {"template": {"spec": instance_spec()}, "placements": [placement]}
    return build(compute.WORKLOADS, "app", spec=spec)


async def _unbound(project_client: Client, expected: int) -> str:
    found = (await project_client.list(networking.LOCATION_BINDINGS)).items
    available = [one for one in found if condition(one, "Available")[0] == "True"]
    return "" if len(available) == expected else f"{len(available)} of {expected} are available"


async def _unready(project_client: Client) -> str:
    workload = await project_client.get(compute.WORKLOADS, "app", "default")
    ready = workload.view(compute.Workload).status.ready_replicas
    return "" if ready == 2 else f"{ready} of 2 are ready"


async def _left(root_client: Client) -> str:
    found = (await root_client.list(resourcemanager.PROJECTS)).items
    return " ".join(bytes(one.status).decode() for one in found if one.name == "late")
