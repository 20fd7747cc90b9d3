"""The HTTP port of a Workload on its way to the cells, and the routes and URLs that follow."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.decisions.routing import HttpRoute, RequestedHost
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.simulation.platform import apply, list_on_planes, missing_for_image, workload

PORT = compute.ANNOTATION_HTTP_PORT
URL = compute.ANNOTATION_URL
IMAGE = "acme/web:1"
PLANES = ("project/demo", "hub", "cell/dfw", "cell/lhr")


async def deployed(on: Stage, minimum: int = 2) -> None:
    await apply(on, workload(IMAGE, minimum))
    await eventually("deployed", lambda: missing_for_image(on, IMAGE, 2 * minimum))


async def annotate(on: Stage, **annotations: str | None) -> None:
    names = {"port": PORT, "url": URL}
    body = {"metadata": {"annotations": {names[key]: text for key, text in annotations.items()}}}
    await on.project.patch(compute.WORKLOADS, "web", merge(body), NAMESPACE)


async def ports(on: Stage) -> dict[str, set[str | None]]:
    """Of the deployments, by plane."""
    return {
        plane: {
            each.metadata.annotations.get(PORT)
            for each in await list_on_planes(on, compute.WORKLOAD_DEPLOYMENTS, plane)
        }
        for plane in PLANES
    }


async def url(on: Stage) -> str | None:
    found = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
    return found.metadata.annotations.get(URL)


def find(on: Stage, city: str = "") -> HttpRoute | None:
    return on.platform.routes.find(RequestedHost("demo", "web", city))


def serving(on: Stage, city: str) -> list[str]:
    route = find(on, city)
    assert route is not None
    return [each.instance for each in route.cities[0].backends]


async def test_the_port_reaches_every_plane_and_leaves_it_without_a_roll() -> None:
    async with stage() as on:
        await deployed(on)
        before = {each.metadata.uid for each in await list_on_planes(on, compute.INSTANCES, "hub")}
        for port in ("8080", "9090", None):
            await annotate(on, port=port)

            async def missing(port: str | None = port) -> str:
                found = await ports(on)
                return "" if all(each == {port} for each in found.values()) else str(found)

            await eventually(f"port {port} on every plane", missing)
        after = {each.metadata.uid for each in await list_on_planes(on, compute.INSTANCES, "hub")}
        assert after == before


async def test_a_url_is_written_restored_and_removed_with_the_port() -> None:
    async with stage(router_port=7480) as on:
        await deployed(on)
        wanted = "http://web.demo.localhost:7480"

        async def is_wanted(expected: str | None) -> None:
            async def missing() -> str:
                found = await url(on)
                return "" if found == expected else f"the URL is {found}"

            await eventually(f"URL {expected}", missing)

        assert await url(on) is None
        await annotate(on, port="8080")
        await is_wanted(wanted)
        await annotate(on, url=None)
        await is_wanted(wanted)
        await annotate(on, url="http://web.demo.localhost:1")
        await is_wanted(wanted)
        of_cities = {
            each.metadata.annotations.get(URL)
            for each in await list_on_planes(on, compute.WORKLOAD_DEPLOYMENTS, "project/demo")
        }
        assert of_cities == {f"http://{city}.web.demo.localhost:7480" for city in ("dfw", "lhr")}
        await annotate(on, port=None)
        await is_wanted(None)
        assert find(on) is None


async def test_a_route_follows_what_is_available_and_keeps_a_city_that_is_cut_off() -> None:
    async with stage(router_port=7480) as on:
        await deployed(on)
        await annotate(on, port="8080")
        for city in ("dfw", "lhr"):

            async def missing(city: str = city) -> str:
                route = find(on, city)
                return "" if route and len(route.cities[0].backends) == 2 else f"{city}: {route}"

            await eventually("a route", missing)
        within = {"compute-cell-dfw", "provider-dfw", "cell/dfw", "standin-network"}
        beyond = {"root", "hub", "project/demo", *(set(on.parts) - within)}
        on.network.partition(within, beyond, silent=False)
        await annotate(on, port="9090")
        await apply(on, workload(IMAGE, 1))

        async def missing_in_lhr() -> str:
            found = serving(on, "lhr")
            return "" if found == ["web-default-lhr-0"] else str(found)

        await eventually("LHR scales down", missing_in_lhr)
        assert serving(on, "dfw") == ["web-default-dfw-0", "web-default-dfw-1"]
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("no route", lambda: _no_route(on))


async def _no_route(on: Stage) -> str:
    return "" if find(on) is None else "there is a route"
