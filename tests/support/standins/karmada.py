"""A hub on which propagation is at work, for the tests of what is known of Karmada."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api import karmada
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.karmada import karmada_controllers
from tests.controllers.standins.karmada.test_status_and_deletion import BINDING, NS, WDS
from tests.support.standins.platform import (
    StandinPlatform,
    create_namespace,
    running,
    standin_platform,
    until,
    upstream_labels,
)

BINDINGS, WORKS, CLUSTERS = karmada.RESOURCE_BINDINGS, karmada.WORKS, karmada.CLUSTERS
POLICIES = karmada.PROPAGATION_POLICIES
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
