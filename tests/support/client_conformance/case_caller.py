"""Identities of callers, and callers that cancel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from tests.support.client_conformance.fixture import WIDGETS, ConformanceFixture


async def a_wrong_credential_is_unauthorized(world: ConformanceFixture) -> None:
    client = world.target.client_with(token="wrong")

    with pytest.raises(errors.Unauthorized) as caught:
        await client.list(WIDGETS, world.namespace)
    with pytest.raises(errors.Unauthorized):
        await client.create(WIDGETS, {"metadata": {"name": "one"}}, world.namespace)

    assert caught.value.code == 401
    assert not await world.exists("one")


async def a_wrong_credential_opens_no_watch(world: ConformanceFixture) -> None:
    client = world.target.client_with(token="wrong")

    with pytest.raises(errors.Unauthorized):
        async with client.watch(WIDGETS, world.namespace):
            raise AssertionError("the watch opened")


async def a_user_without_rights_is_forbidden(world: ConformanceFixture) -> None:
    await world.create("one")
    client = world.target.client_with(token=world.target.powerless_token)

    with pytest.raises(errors.Forbidden) as caught:
        await client.get(WIDGETS, "one", world.namespace)
    with pytest.raises(errors.Forbidden):
        await client.list(WIDGETS, world.namespace)
    with pytest.raises(errors.Forbidden):
        await client.delete(WIDGETS, "one", world.namespace)
    with pytest.raises(errors.Forbidden):
        await client.create(core.NAMESPACES, {"metadata": {"name": "mine"}})
    with pytest.raises(errors.Forbidden):
        async with client.watch(WIDGETS, world.namespace):
            raise AssertionError("the watch opened")

    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert await world.exists("one")


async def a_caller_without_a_name_is_refused(world: ConformanceFixture) -> None:
    client = world.target.client_with(token="")

    with pytest.raises((errors.Forbidden, errors.Unauthorized)):
        await client.list(WIDGETS, world.namespace)


async def a_cancelled_request_leaves_the_client_usable(world: ConformanceFixture) -> None:
    await world.create("one")

    for turns in range(6):
        task = asyncio.create_task(world.get("one"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    assert (await world.get("one")).name == "one"


async def a_cancelled_write_happened_or_not_but_never_half(world: ConformanceFixture) -> None:
    for turns in range(12):
        name = f"w{turns}"
        task = asyncio.create_task(world.create(name, {"size": 3, "color": "red"}))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    page = await world.client.list(WIDGETS, world.namespace)
    for item in page.items:
        assert item.metadata.generation == 1
        assert bytes(item.spec) in (b'{"color":"red","size":3}', b'{"size":3,"color":"red"}')


async def a_deadline_ends_a_call(world: ConformanceFixture) -> None:
    hurried = world.target.client_with(request_timeout=0.0)
    body = {"metadata": {"name": "one"}, "spec": {"size": 3}}

    with pytest.raises(errors.TimedOut):
        await hurried.create(WIDGETS, body, world.namespace)

    # Whether it happened is not known, but it can be found out.
    assert await world.names() in (["one"], [])


async def a_deadline_ends_every_kind_of_write(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3})
    hurried = world.target.client_with(request_timeout=0.0)
    body = {
        "metadata": {
            "name": "one",
            "namespace": world.namespace,
            "resourceVersion": made.metadata.resource_version,
        },
        "spec": {"size": 4},
    }

    for call in (
        lambda: hurried.update(WIDGETS, body),
        lambda: hurried.patch(WIDGETS, "one", merge({"spec": {"size": 5}}), world.namespace),
        lambda: hurried.delete(WIDGETS, "one", world.namespace),
    ):
        with pytest.raises(errors.TimedOut):
            await call()

    # Whatever happened of it, the client goes on and the object is whole or gone.
    for item in (await world.client.list(WIDGETS, world.namespace)).items:
        assert bytes(item.spec) in (b'{"size":3}', b'{"size":4}', b'{"size":5}')


async def cancelled_reads_of_every_kind_leave_the_client_usable(world: ConformanceFixture) -> None:
    await world.create_many("a", "b", "c")

    for turns in range(6):
        tasks = [
            asyncio.ensure_future(call)
            for call in (
                world.get("a"),
                world.names(),
                world.client.list(WIDGETS, world.namespace, limit=1),
                world.client.raw("/version"),
            )
        ]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    assert await world.names() == ["a", "b", "c"]


async def user_of(client: Client) -> core.UserInfo:
    review = await client.create(core.SELF_SUBJECT_REVIEWS, {})
    return review.view(core.SelfSubjectReview).status.user_info


async def is_allowed(
    client: Client, attributes: dict[str, str], user: core.UserInfo | None = None
) -> bool:
    """Whether the client, or with its rights another user, may do something."""
    kind, spec = core.SELF_SUBJECT_ACCESS_REVIEWS, dict[str, Any](resourceAttributes=attributes)
    if user is not None:
        kind = core.SUBJECT_ACCESS_REVIEWS
        spec |= {"user": user.username, "groups": list(user.groups)}
    review = await client.create(kind, {"spec": spec})
    return review.view(core.SubjectAccessReview).status.allowed


def attributes_of(verb: str, resource: Resource, **more: str) -> dict[str, str]:
    return {"verb": verb, "group": resource.group, "resource": resource.plural, **more}


async def a_caller_can_review_its_own_user(world: ConformanceFixture) -> None:
    powerless = world.target.client_with(token=world.target.powerless_token)

    me, other = await user_of(world.client), await user_of(powerless)

    assert me.username
    assert other.username not in ("", me.username)
    assert "system:authenticated" in other.groups


async def a_caller_can_review_its_own_rights(world: ConformanceFixture) -> None:
    powerless = world.target.client_with(token=world.target.powerless_token)
    attributes = [
        attributes_of("create", WIDGETS, namespace=world.namespace),
        attributes_of(
            "patch", WIDGETS, namespace=world.namespace, name="one", subresource="status"
        ),
        attributes_of("list", core.NAMESPACES),
    ]

    assert [await is_allowed(world.client, each) for each in attributes] == [True, True, True]
    assert [await is_allowed(powerless, each) for each in attributes] == [False, False, False]


async def rights_of_others_can_be_reviewed(world: ConformanceFixture) -> None:
    powerless = world.target.client_with(token=world.target.powerless_token)
    other = await user_of(powerless)
    boss = core.UserInfo(username="boss", groups=("system:masters",))
    attributes = attributes_of("list", WIDGETS, namespace=world.namespace)

    assert not await is_allowed(world.client, attributes, other)
    assert await is_allowed(world.client, attributes, boss)
    with pytest.raises(errors.Forbidden):
        await is_allowed(powerless, attributes, other)


async def a_review_is_not_stored(world: ConformanceFixture) -> None:
    answer = await world.client.create(core.SELF_SUBJECT_REVIEWS, {})

    assert (answer.kind, answer.name, answer.metadata.uid) == ("SelfSubjectReview", "", "")
    with pytest.raises(errors.Unsupported):
        await world.client.list(core.SELF_SUBJECT_REVIEWS)


async def a_wrong_credential_has_no_user(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Unauthorized):
        await user_of(world.target.client_with(token="wrong"))


async def messages_name_the_call_and_the_cluster(world: ConformanceFixture) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await world.get("missing")

    assert caught.value.message.startswith(
        f"get {WIDGETS.group_resource} {world.namespace}/missing on {world.client.cluster}: "
    )


async def a_message_never_holds_the_credential(world: ConformanceFixture) -> None:
    client = world.target.client_with(token="very-secret-token")

    with pytest.raises(errors.ClientError) as caught:
        await client.list(WIDGETS, world.namespace)

    assert "very-secret-token" not in str(caught.value)
