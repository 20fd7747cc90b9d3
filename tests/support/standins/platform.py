"""A small platform for tests of stand-ins: planes, fleets, and what runs on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api import conditions, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.assembly.local.admission import build_claim_admission
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.fleets.projects import ProjectFleet
from datum_compute.fleets.single import SingleFleet
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.writes.patch import Values
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.client.intercepted_transport import linked_client

CITY = compute.LABEL_TOPOLOGY_CITY_CODE
SETTLE_SECONDS = 3.0
"""Longer than any delay of a stand-in whose work is not done."""


class StandinPlatform:
    def __init__(self, embedded: EmbeddedServer, env: SimulatedEnvironment) -> None:
        self.embedded = embedded
        self.env = env
        self.root = embedded.client("root")
        self.hub = embedded.client("hub")
        self.project = embedded.client("project/demo")
        self.cells = {name: embedded.client(f"cell/{name}") for name in ("dfw", "lhr")}
        linked = {name: linked_client(embedded, f"cell/{name}") for name in self.cells}
        self.members = {name: client for name, (client, _) in linked.items()}
        """The clients of the cells in the centre."""
        self.links = {name: link for name, (_, link) in linked.items()}
        """The links from the centre to the cells."""

    def hub_fleet(self) -> SingleFleet:
        return SingleFleet("hub", "hub", self.embedded.client("hub", "hub-user"), self.env)

    def root_fleet(self) -> SingleFleet:
        return SingleFleet("root", "root", self.embedded.client("root", "root-user"), self.env)

    def member_fleet(self) -> StaticFleet:
        return StaticFleet("members", self.members, self.env)

    def cell_fleet(self) -> StaticFleet:
        return StaticFleet("cells", self.cells, self.env)

    def own_fleet(self, cell: str) -> SingleFleet:
        return SingleFleet("cell", "single", self.cells[cell], self.env)

    def project_fleet(self) -> ProjectFleet:
        return ProjectFleet(
            "projects",
            self.embedded.client("root"),
            lambda name: self.embedded.client(f"project/{name}"),
            self.env,
        )

    async def set_project_ready(self, name: str = "demo") -> None:
        ready = conditions.with_condition((), "Ready", "True", "Ready", "", now=self.env.now())
        body = {"status": {"conditions": conditions.to_wire(ready)}}
        await self.root.patch(resourcemanager.PROJECTS, name, merge(body), subresource="status")


@asynccontextmanager
async def standin_platform(*, judged: bool = False) -> AsyncIterator[StandinPlatform]:
    """``judged``: new claims pass the admission a local platform has."""
    env = SimulatedEnvironment()
    served: list[EmbeddedServer] = []
    judge = build_claim_admission(lambda: served[0].client("root", "reviewer"))
    async with embedded_server(env, admissions=[judge] if judged else ()) as embedded:
        served.append(embedded)
        yield StandinPlatform(embedded, env)


@asynccontextmanager
async def running(
    env: SimulatedEnvironment, controllers: Iterable[Controller]
) -> AsyncIterator[Manager]:
    """Controllers at work until the block is left."""
    manager = Manager("stand-ins", env)
    manager.add(*controllers)
    task = asyncio.create_task(manager.run())
    try:
        async with asyncio.timeout(60):
            await manager.wait_ready()
        yield manager
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settle() -> None:
    await asyncio.sleep(SETTLE_SECONDS)


async def revisions(clients: Iterable[ApiClient], resources: Sequence[Resource]) -> dict[str, str]:
    """Every object's revision, to see whether anything was written in between."""
    found = {}
    for client in clients:
        for resource in resources:
            try:
                listed = await client.list(resource)
            except (errors.NotServed, errors.NotFound):
                continue
            for obj in listed.items:
                key = f"{client.cluster} {resource} {obj.namespace}/{obj.name}"
                found[key] = obj.metadata.resource_version
    return found


async def in_order(*calls: Awaitable[Any]) -> None:
    for call in calls:
        await call


def build(resource: Resource, name: str, namespace: str = "", **parts: Any) -> Values:
    metadata: Values = {"name": name, **parts.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        **parts,
    }


async def create_cluster(hub: ApiClient, name: str, city: str) -> None:
    body = build(
        karmada.CLUSTERS, name, spec={"syncMode": "Push"}, metadata={"labels": {CITY: city}}
    )
    await hub.create(karmada.CLUSTERS, body)


async def create_namespace(
    client: ApiClient, name: str, labels: Mapping[str, str] | None = None
) -> Object:
    body = build(NAMESPACES, name, metadata={"labels": dict(labels or {})})
    return await client.create(NAMESPACES, body)


def upstream_labels(project: str = "demo", namespace: str = "default") -> dict[str, str]:
    return {
        compute.LABEL_UPSTREAM_CLUSTER_NAME: f"cluster-{project}",
        compute.LABEL_UPSTREAM_NAMESPACE: namespace,
    }


async def create_policy(hub: ApiClient, namespace: str, city: str, **spec: Any) -> None:
    body = build(
        karmada.PROPAGATION_POLICIES,
        f"city-{city.lower()}",
        namespace,
        spec={
            "resourceSelectors": [
                {
                    "apiVersion": compute.WORKLOAD_DEPLOYMENTS.api_version,
                    "kind": compute.WORKLOAD_DEPLOYMENTS.kind,
                    "labelSelector": {"matchLabels": {CITY: city}},
                }
            ],
            "placement": {
                "clusterAffinity": {"labelSelector": {"matchLabels": {CITY: city}}},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            },
            **spec,
        },
    )
    await hub.create(karmada.PROPAGATION_POLICIES, body, namespace)


async def create_interpreter(hub: ApiClient) -> None:
    body = build(
        karmada.INTERPRETER_CUSTOMIZATIONS,
        "workloaddeployment-status",
        spec={
            "target": {
                "apiVersion": compute.WORKLOAD_DEPLOYMENTS.api_version,
                "kind": compute.WORKLOAD_DEPLOYMENTS.kind,
            },
            "customizations": {
                "statusAggregation": {"luaScript": "function AggregateStatus(d, i) return d end"},
                "dependencyInterpretation": {"luaScript": "function GetDependencies(d) end"},
            },
        },
    )
    await hub.create(karmada.INTERPRETER_CUSTOMIZATIONS, body)


def deployment(
    name: str,
    namespace: str,
    city: str,
    *,
    replicas: int = 1,
    labels: Mapping[str, str] | None = None,
) -> Values:
    return build(
        compute.WORKLOAD_DEPLOYMENTS,
        name,
        namespace,
        metadata={
            "labels": {CITY: city, **(labels or {})},
            "annotations": {compute.ANNOTATION_SOURCE_GENERATION: "1"},
        },
        spec={
            "workloadRef": {"name": "app", "uid": "workload-uid"},
            "placementName": "web",
            "cityCode": city,
            "scaleSettings": {"minReplicas": replicas},
            "template": {"spec": instance_spec()},
        },
    )


def instance_spec() -> Values:
    return {
        "runtime": {
            "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
            "sandbox": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
        },
        "networkInterfaces": [{"network": {"name": "default"}}],
    }


def claim(name: str, amounts: Mapping[str, int], namespace: str = "default") -> Values:
    project = {"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "demo"}
    return build(
        quota.RESOURCE_CLAIMS,
        name,
        namespace,
        spec={
            "consumerRef": project,
            "resourceRef": project,
            "requests": [
                {"resourceType": kind, "amount": amount} for kind, amount in amounts.items()
            ],
        },
    )


def grant(name: str, amounts: Mapping[str, int], *, project: str = "demo") -> Values:
    return build(
        quota.RESOURCE_GRANTS,
        name,
        "milo-system",
        spec={
            "consumerRef": {
                "apiGroup": "resourcemanager.miloapis.com",
                "kind": "Project",
                "name": project,
            },
            "allowances": [
                {"resourceType": kind, "buckets": [{"amount": amount}]}
                for kind, amount in amounts.items()
            ],
        },
    )


def registration(name: str, **spec: Any) -> Values:
    """A registration of ``compute.datumapis.com/<name>``, as the platform has it."""
    project = {"apiGroup": "resourcemanager.miloapis.com", "kind": "Project"}
    return build(
        quota.RESOURCE_REGISTRATIONS,
        f"compute-{name}",
        spec={
            "consumerType": project,
            "type": "Allocation",
            "resourceType": f"compute.datumapis.com/{name}",
            "baseUnit": name,
            "displayUnit": name,
            "unitConversionFactor": 1,
            "claimingResources": [
                project,
                {"apiGroup": "compute.datumapis.com", "kind": "Instance"},
            ],
            **spec,
        },
    )


async def register(root: ApiClient, *names: str) -> None:
    """Make known what quota counts."""
    for name in names or ("instances", "vcpus", "memory"):
        await root.create(quota.RESOURCE_REGISTRATIONS, registration(name))


def location(city: str) -> Values:
    return build(networking.LOCATIONS, city.lower(), spec={"topology": {CITY: city}})
