"""Look at objects on a plane, and wait until they are as a test expects."""

from __future__ import annotations

from collections.abc import Callable

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually


async def find(client: Client, resource: Resource, name: str, namespace: str = "") -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except errors.NotFound:
        return None


async def exists(client: Client, resource: Resource, name: str, namespace: str = "") -> bool:
    return await find(client, resource, name, namespace) is not None


async def until(
    client: Client,
    resource: Resource,
    name: str,
    namespace: str,
    holds: Callable[[Object], object],
    *,
    within: float = 60.0,
) -> Object:
    """The object, once it exists and ``holds`` is true of it."""
    found: list[Object] = []

    async def look() -> str:
        obj = await find(client, resource, name, namespace)
        if obj is None:
            return f"no {resource} {namespace}/{name} on {client.cluster}"
        found[:] = [obj]
        return "" if holds(obj) else obj.to_wire().decode()

    await eventually(f"{resource} {name}", look, within=within)
    return found[0]


async def until_gone(
    client: Client, resource: Resource, name: str, namespace: str = "", *, within: float = 60.0
) -> None:
    async def look() -> str:
        obj = await find(client, resource, name, namespace)
        return "" if obj is None else obj.to_wire().decode()

    await eventually(f"{resource} {name} is gone", look, within=within)


async def until_names(client: Client, resource: Resource, *expected: str) -> list[Object]:
    """All objects of a kind, once they have exactly these names."""
    found: list[Object] = []

    async def look() -> str:
        found[:] = (await client.list(resource)).items
        names = sorted(each.name for each in found)
        return "" if names == sorted(expected) else str(names)

    await eventually(f"{resource} are {sorted(expected)}", look, within=60.0)
    return found


def condition(obj: Object, type_: str) -> tuple[str, str]:
    """Status and reason of a condition; empty where there is none."""
    for each in values(obj.status).get("conditions") or []:
        if each["type"] == type_:
            return each["status"], each["reason"]
    return "", ""


def message(obj: Object, type_: str) -> str:
    for each in values(obj.status).get("conditions") or []:
        if each["type"] == type_:
            return str(each["message"])
    return ""
