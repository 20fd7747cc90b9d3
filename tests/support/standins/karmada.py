"""A hub on which propagation is at work, for the tests of what is known of Karmada."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.karmada import MAX_DELAY_SECONDS, karmada_controllers
from tests.support.objects import condition, until
from tests.support.standins.platform import (
    StandinPlatform,
    create_cluster,
    create_interpreter,
    create_namespace,
    create_policy,
    deployment,
    running,
    standin_platform,
    upstream_labels,
)

NS = "ns-1"
NAME = "app-web-dfw"
BINDING = "app-web-dfw-workloaddeployment"
WDS = compute.WORKLOAD_DEPLOYMENTS
BINDINGS, WORKS, CLUSTERS = karmada.RESOURCE_BINDINGS, karmada.WORKS, karmada.CLUSTERS
POLICIES = karmada.PROPAGATION_POLICIES
INTERPRETERS = karmada.INTERPRETER_CUSTOMIZATIONS
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
HUB_KINDS = (CLUSTERS, POLICIES, BINDINGS, WORKS, NAMESPACES, WDS)
NO_FIT = ("False", karmada.REASON_NO_CLUSTER_FIT)


@asynccontextmanager
async def propagation() -> AsyncIterator[StandinPlatform]:
    """A hub with one synchronized namespace and nothing else, and propagation at work."""
    async with standin_platform() as found:
        await create_namespace(found.hub, NS, upstream_labels())
        controllers = karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            yield found


async def change(found: StandinPlatform, resource: Resource, name: str, **parts: Any) -> Object:
    namespace = NS if resource.namespaced else ""
    return await found.hub.patch(resource, name, merge(parts), namespace)


async def bound(found: StandinPlatform, *clusters: str) -> Object:
    """The binding once it targets exactly these."""
    return await until(
        found.hub,
        BINDINGS,
        BINDING,
        NS,
        lambda one: (
            [each["name"] for each in values(one.spec).get("clusters", [])] == list(clusters)
        ),
    )


def taints(cluster: Object) -> list[tuple[str, str]]:
    return [(one["key"], one["effect"]) for one in values(cluster.spec).get("taints", [])]


@asynccontextmanager
async def propagated(
    *, interpreter: bool = True, max_delay: float = MAX_DELAY_SECONDS
) -> AsyncIterator[StandinPlatform]:
    """One deployment that has arrived in dfw."""
    async with standin_platform() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, NS, upstream_labels())
        await create_policy(found.hub, NS, "DFW")
        if interpreter:
            await create_interpreter(found.hub)
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        controllers = karmada_controllers(
            found.hub_fleet(), found.member_fleet(), found.env, max_delay=max_delay
        )
        async with running(found.env, controllers):
            await until(found.cells["dfw"], WDS, NAME, NS, lambda _: True)
            yield found


async def report(found: StandinPlatform, **status: Any) -> None:
    """As the cell's controllers would report."""
    body = {"status": {"replicas": 0, "currentReplicas": 0, "desiredReplicas": 1, **status}}
    await found.cells["dfw"].patch(WDS, NAME, merge(body), NS, subresource="status")


async def work_of(found: StandinPlatform) -> Object:
    works = (await found.hub.list(karmada.WORKS, "karmada-es-dfw")).items
    return next(work for work in works if work.name.startswith(f"{NAME}-"))


async def until_ready(found: StandinPlatform, ready: str, *, within: float = 60.0) -> Object:
    return await until(
        found.hub,
        karmada.CLUSTERS,
        "dfw",
        "",
        lambda one: condition(one, "Ready")[0] == ready,
        within=within,
    )
