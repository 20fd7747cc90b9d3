"""kr8s: objects by kind from discovery, watches, waiting, scaling, ownership."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kr8s.asyncio
import pytest
from kr8s.asyncio.objects import ConfigMap, Namespace, new_class

from tests.support.clients.gadgets import CONFIG_MAPS, GADGETS_PATH, GadgetPlane, gadget
from tests.support.simulation.power_cut import discard_dead_tasks

pytestmark = [pytest.mark.clients, pytest.mark.realtime]


@pytest.fixture(autouse=True)
def collect() -> Iterator[None]:
    """kr8s closes neither its connections nor its watches."""
    yield
    discard_dead_tasks(lambda: None)


async def connect(plane: GadgetPlane) -> Any:
    return await kr8s.asyncio.api(kubeconfig=str(plane.kubeconfig))


def config_map(api: Any, name: str, **data: str) -> Any:
    metadata = {"name": name, "namespace": "default"}
    return ConfigMap({"metadata": metadata, "data": data}, api=api)


async def test_the_server_says_its_version_its_kinds_and_who_asks(plane: GadgetPlane) -> None:
    api = await connect(plane)
    assert (await api.version())["major"] == "1"
    assert await api.whoami() == "admin"
    kinds = {(one["name"], one["kind"]) for one in await api.api_resources()}
    assert {("configmaps", "ConfigMap"), ("gadgets", "Gadget")} <= kinds
    assert await api.lookup_kind("gadgets") == ("gadget.example.com/v1", "gadgets", True)


async def test_objects_are_created_labelled_patched_refreshed_and_deleted(
    plane: GadgetPlane,
) -> None:
    api = await connect(plane)
    made = config_map(api, "one", color="red")
    await made.create()
    await made.label(app="a")
    await made.annotate(note="text")
    await made.patch({"data": {"size": "2"}})
    await made.patch([{"op": "remove", "path": "/data/color"}], type="json")
    await made.refresh()

    assert made.data.to_dict() == {"size": "2"}
    assert [one.name async for one in api.get("configmaps", label_selector="app=a")] == ["one"]
    stored = plane.get(f"{CONFIG_MAPS}/one")
    assert stored["metadata"]["annotations"] == {"note": "text"}
    await made.remove_label("app")
    assert "labels" not in plane.get(f"{CONFIG_MAPS}/one")["metadata"]
    await made.delete()
    assert not await made.exists()
    with pytest.raises(kr8s.NotFoundError):
        await ConfigMap.get("one", namespace="default", api=api)


async def test_a_custom_kind_is_scaled_and_waited_for(plane: GadgetPlane) -> None:
    api = await connect(plane)
    gadgets = new_class(
        kind="Gadget", version="example.com/v1", namespaced=True, scalable=True, asyncio=True
    )
    one = gadgets(gadget("one", text="a", replicas=1), api=api)
    await one.create()
    # The status is set first: kr8s waits for it after each change of the scale.
    await one.patch({"status": {"replicas": 3}}, subresource="status")
    await one.scale(3)
    ready = {"type": "Ready", "status": "True"}
    await one.patch({"status": {"conditions": [ready]}}, subresource="status")
    await one.wait("condition=Ready", timeout=10)
    child = config_map(api, "child")
    await child.create()
    await child.set_owner(one)
    await one.delete(propagation_policy="Foreground")
    await one.wait("delete", timeout=10)

    plane.wait_until(lambda: plane.get(f"{CONFIG_MAPS}/child") is None, "the child stays")
    assert plane.get(f"{GADGETS_PATH}/one") is None


async def test_a_watch_shows_every_change(plane: GadgetPlane) -> None:
    api = await connect(plane)
    one = config_map(api, "one")
    await one.create()
    seen = []

    async for kind, found in api.watch("configmaps", namespace="default"):
        seen.append((kind, found.name, found.data.to_dict() if "data" in found.raw else {}))
        if kind == "ADDED":
            await one.patch({"data": {"a": "b"}})
        elif kind == "MODIFIED":
            await one.delete()
        else:
            break

    assert seen == [
        ("ADDED", "one", {}),
        ("MODIFIED", "one", {"a": "b"}),
        ("DELETED", "one", {"a": "b"}),
    ]


async def test_a_long_list_arrives_in_pages_and_a_namespace_goes_with_its_content(
    plane: GadgetPlane,
) -> None:
    api = await connect(plane)
    team = Namespace({"metadata": {"name": "team"}}, api=api)
    await team.create()
    names = [f"n{number:03}" for number in range(250)]
    for name in names:
        body = {"metadata": {"name": name}}
        assert plane.send("POST", "/api/v1/namespaces/team/configmaps", body)[0] == 201

    found = [one.name async for one in api.get("configmaps", namespace="team")]
    await team.delete()
    await team.wait("delete", timeout=20)

    assert found == names
    assert plane.get("/api/v1/namespaces/team/configmaps")["items"] == []
