"""Garbage collection of dependents and of namespaces."""

from __future__ import annotations

import asyncio
from pathlib import Path

from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, owned_by, widget_server

NAMESPACES = "/api/v1/namespaces"


async def _settle() -> None:
    await asyncio.sleep(1)


async def test_dependents_follow_their_owner_in_the_background() -> None:
    async with widget_server() as caller:
        owner = await caller.create("owner")
        child = await caller.create("child", ownerReferences=owned_by(owner))
        await caller.create("grandchild", ownerReferences=owned_by(child))

        await caller.delete("owner", propagationPolicy="Background")
        await _settle()

        assert not await caller.exists("child")
        assert not await caller.exists("grandchild")


async def test_a_dependent_stays_while_one_owner_exists_and_loses_the_other_reference() -> None:
    async with widget_server() as caller:
        one, two = await caller.create("one"), await caller.create("two")
        both = owned_by(one) + owned_by(two)
        await caller.create("child", ownerReferences=both)

        await caller.delete("one")
        await _settle()

        child = await caller.get("child")
        assert child["metadata"]["ownerReferences"] == owned_by(two)
        await caller.delete("two")
        await _settle()
        assert not await caller.exists("child")


async def test_an_owner_that_never_existed_counts_as_deleted() -> None:
    async with widget_server() as caller:
        ghost = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "ghost", "uid": "no-such-uid"},
        }

        await caller.create("child", ownerReferences=owned_by(ghost))
        await _settle()

        assert not await caller.exists("child")


async def test_an_owner_is_identified_by_its_uid_and_not_its_name() -> None:
    async with widget_server() as caller:
        first = await caller.create("owner")
        await caller.create("child", ownerReferences=owned_by(first))

        await caller.delete("owner")
        await caller.create("owner")
        await _settle()

        assert await caller.exists("owner")
        assert not await caller.exists("child")


async def test_an_owner_in_another_namespace_counts_as_absent() -> None:
    async with widget_server() as caller:
        await caller.call("POST", NAMESPACES, {"metadata": {"name": "other"}})
        owner = await caller.create("owner")
        elsewhere = WIDGETS_PATH.replace("default", "other")
        child = {**owner, "metadata": {"name": "child", "ownerReferences": owned_by(owner)}}

        await caller.call("POST", elsewhere, child)
        await _settle()

        assert (await caller.send("GET", f"{elsewhere}/child")).status == 404


async def test_foreground_waits_for_the_dependents_that_block() -> None:
    async with widget_server() as caller:
        owner = await caller.create("owner")
        held = {"finalizers": ["example.com/hold"]}
        await caller.create("blocks", ownerReferences=owned_by(owner, blocks=True), **held)
        await caller.create("does-not", ownerReferences=owned_by(owner))

        _, answered = await caller.delete("owner", propagationPolicy="Foreground")
        await _settle()
        waiting = await caller.get("owner")
        blocking = await caller.get("blocks")
        loose = await caller.exists("does-not")
        await caller.patch("blocks", {"metadata": {"finalizers": None}})
        await _settle()

        assert answered["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert waiting["metadata"]["deletionTimestamp"]
        assert blocking["metadata"]["deletionTimestamp"]
        assert not loose
        assert not await caller.exists("owner")
        assert not await caller.exists("blocks")


async def test_foreground_without_dependents_ends_at_once() -> None:
    async with widget_server() as caller:
        await caller.create("owner")

        await caller.delete("owner", propagationPolicy="Foreground")
        await _settle()

        assert not await caller.exists("owner")


async def test_foreground_spreads_to_dependents_of_dependents() -> None:
    async with widget_server() as caller:
        owner = await caller.create("owner")
        child = await caller.create("child", ownerReferences=owned_by(owner, blocks=True))
        await caller.create(
            "grandchild",
            ownerReferences=owned_by(child, blocks=True),
            finalizers=["example.com/hold"],
        )

        await caller.delete("owner", propagationPolicy="Foreground")
        await _settle()
        waiting = [await caller.exists(name) for name in ("owner", "child", "grandchild")]
        await caller.patch("grandchild", {"metadata": {"finalizers": None}})
        await _settle()

        assert waiting == [True, True, True]
        for name in ("owner", "child", "grandchild"):
            assert not await caller.exists(name)


async def test_orphans_lose_the_reference_and_stay() -> None:
    async with widget_server() as caller:
        owner = await caller.create("owner")
        await caller.create("child", ownerReferences=owned_by(owner))

        await caller.delete("owner", propagationPolicy="Orphan")
        await _settle()

        assert not await caller.exists("owner")
        assert "ownerReferences" not in (await caller.get("child"))["metadata"]


async def _namespace_with_content(caller: Caller) -> str:
    await caller.call("POST", NAMESPACES, {"metadata": {"name": "room"}})
    path = WIDGETS_PATH.replace("default", "room")
    for number in range(250):
        body = {"metadata": {"name": f"w{number}"}, "kind": "Widget"}
        await caller.call("POST", path, {**body, "apiVersion": "example.com/v1"})
    await caller.call("POST", f"{NAMESPACES}/room/configmaps", {"metadata": {"name": "settings"}})
    return path


async def test_a_namespace_is_removed_after_its_content() -> None:
    async with widget_server() as caller:
        path = await _namespace_with_content(caller)

        _, terminating = await caller.call("DELETE", f"{NAMESPACES}/room")
        await _settle()

        assert terminating["status"]["phase"] == "Terminating"
        assert terminating["metadata"]["deletionTimestamp"]
        assert (await caller.send("GET", f"{NAMESPACES}/room")).status == 404
        _, left = await caller.call("GET", path)
        assert left["items"] == []


async def test_a_namespace_waits_for_content_with_finalizers_and_accepts_no_more() -> None:
    async with widget_server() as caller:
        await caller.call("POST", NAMESPACES, {"metadata": {"name": "room"}})
        path = f"{NAMESPACES}/room/configmaps"
        body = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        await caller.call("POST", path, body)

        await caller.call("DELETE", f"{NAMESPACES}/room")
        await _settle()
        code, refused = await caller.call("POST", path, {"metadata": {"name": "late"}})
        again, _ = await caller.call("DELETE", f"{NAMESPACES}/room")
        waiting = (await caller.send("GET", f"{NAMESPACES}/room")).status
        await caller.call(
            "PATCH",
            f"{path}/held",
            {"metadata": {"finalizers": None}},
            headers={"content-type": "application/merge-patch+json"},
        )
        await _settle()

        assert (code, refused["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
        assert again == 409
        assert waiting == 200
        assert (await caller.send("GET", f"{NAMESPACES}/room")).status == 404


async def test_the_default_namespace_cannot_be_deleted() -> None:
    async with widget_server() as caller:
        code, refused = await caller.call("DELETE", f"{NAMESPACES}/default")

        assert (code, refused["reason"]) == (403, "Forbidden")


async def test_a_restart_resumes_interrupted_collection(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with widget_server(path=path) as caller:
        owner = await caller.create("owner")
        await caller.create("child", ownerReferences=owned_by(owner))
        await caller.call("POST", NAMESPACES, {"metadata": {"name": "room"}})
        _, room = await caller.call("GET", f"{NAMESPACES}/room")
    # What a server leaves that is killed before it collects.
    store = LogStore(SimulatedEnvironment(), str(path))
    plane = store.planes["cell/dfw"]
    stored = plane.get(("widgets.example.com", "default", "owner"))
    assert stored is not None
    plane.remove("widgets.example.com", owner, stored)
    room["metadata"]["deletionTimestamp"] = room["metadata"]["creationTimestamp"]
    room["status"] = {"phase": "Terminating"}
    plane.put("namespaces", room, plane.get(("namespaces", "", "room")))
    await store.wait_durable()
    store.close()

    async with widget_server(path=path) as caller:
        await _settle()

        assert not await caller.exists("child")
        assert (await caller.send("GET", f"{NAMESPACES}/room")).status == 404
