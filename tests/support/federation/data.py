"""Workloads that name ConfigMaps and Secrets, on a whole federation."""

from __future__ import annotations

import base64
from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.federation.stage import NAMESPACE, Stage
from tests.support.objects import condition, until
from tests.support.simulation.platform import workload

READY = ("True", compute.REASON_DATA_READY)
SETTINGS, KEYS = "settings", "keys"
PLANTED = "s3cr3t-planted-value"
"""A value that no output may show, in any encoding."""


def named(
    name: str = "web",
    *,
    image: str = "acme/web:1",
    settings: str = SETTINGS,
    keys: str = KEYS,
    optional: str = "",
    minimum: int = 1,
    cities: tuple[str, ...] = ("DFW", "LHR"),
    rolls: bool = False,
) -> dict[str, Any]:
    """A workload with files from a ConfigMap and a variable from a Secret; an empty name leaves
    the reference out. ``rolls``: its Instances are replaced when one of them changes."""
    body = workload(image, minimum)
    if rolls:
        annotations = {compute.ANNOTATION_ROLL_ON_CONFIG_CHANGE: "true"}
        body["spec"]["template"]["metadata"] = {"annotations": annotations}
    body["metadata"]["name"] = name
    [placement] = body["spec"]["placements"]
    placement["cityCodes"] = list(cities)
    spec = body["spec"]["template"]["spec"]
    [container] = spec["runtime"]["sandbox"]["containers"]
    volumes, env = [], []
    if settings:
        volumes.append({"name": "settings", "configMap": {"name": settings}})
    if optional:
        volumes.append({"name": "extra", "configMap": {"name": optional, "optional": True}})
    if keys:
        ref = {"name": keys, "key": "token"}
        env.append({"name": "TOKEN", "valueFrom": {"secretKeyRef": ref}})
    container["volumeAttachments"] = [
        {"name": each["name"], "mountPath": f"/etc/{each['name']}"} for each in volumes
    ]
    container["env"] = env
    spec["volumes"] = volumes
    return body


def config_map(name: str = SETTINGS, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data or {"colour": "blue"}}


def secret(name: str = KEYS, token: str = PLANTED) -> dict[str, Any]:
    encoded = base64.b64encode(token.encode()).decode()
    return {"metadata": {"name": name}, "data": {"token": encoded}}


async def create_sources(on: Stage) -> None:
    await on.project.create(core.CONFIG_MAPS, config_map(), NAMESPACE)
    await on.project.create(core.SECRETS, secret(), NAMESPACE)


async def deploy(on: Stage, body: dict[str, Any]) -> None:
    await on.project.create(compute.WORKLOADS, body, NAMESPACE)


async def redeploy(on: Stage, body: dict[str, Any]) -> None:
    change = merge({"spec": body["spec"]})
    await on.project.patch(compute.WORKLOADS, body["metadata"]["name"], change, NAMESPACE)


async def until_running(on: Stage, city: str, *, name: str = "web", image: str = "") -> Object:
    """The cell's Instance, once it is ready."""

    def is_ready(instance: Object) -> bool:
        containers = values(instance.spec)["runtime"]["sandbox"]["containers"]
        return condition(instance, "Ready")[0] == "True" and (
            not image or containers[0]["image"] == image
        )

    where = f"{name}-default-{city.lower()}-0"
    return await until(on.cell(city), compute.INSTANCES, where, on.hub_namespace, is_ready)


async def until_deployment(
    on: Stage, reason: str, *, city: str = "DFW", name: str = "web"
) -> Object:
    """The project's deployment, once its data is reported with this reason."""
    where = f"{name}-default-{city.lower()}"
    return await until(
        on.project,
        compute.WORKLOAD_DEPLOYMENTS,
        where,
        NAMESPACE,
        lambda one: condition(one, compute.CONDITION_REFERENCED_DATA_READY)[1] == reason,
    )


def secret_value(found: Object) -> str:
    return base64.b64decode(values(found.data)["token"]).decode()
