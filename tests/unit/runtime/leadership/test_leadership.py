"""One of several equal processes acts at a time, and the others follow when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.client import errors
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import Client, merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.runtime.leadership import (
    FencedTransport,
    Leadership,
    LeadershipLost,
    LeaseName,
    NotLeader,
)
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.tasks import stop_tasks
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.client.intercepted_transport import (
    CUT,
    InterceptedTransport,
    Rule,
    delay_answer,
    linked_client,
)
from tests.support.client.scripted_server import ScriptedServer

LEASE = LeaseName("default", "e98b06c6.datumapis.com-cell")


def candidate(embedded: EmbeddedServer, identity: str) -> Leadership:
    env = SimulatedEnvironment(seed=len(identity))
    return Leadership(embedded.client("cell/dfw"), LEASE, identity, env)


def linked_candidate(
    embedded: EmbeddedServer, identity: str
) -> tuple[Leadership, InterceptedTransport]:
    client, link = linked_client(embedded, "cell/dfw")
    return Leadership(client, LEASE, identity, SimulatedEnvironment()), link


@asynccontextmanager
async def running(*candidates: Leadership) -> AsyncIterator[list[asyncio.Task[Any]]]:
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(each.run(), name=each.identity) for each in candidates]
    try:
        yield tasks
    finally:
        await stop_tasks(tasks)


async def lease_of(client: Client) -> core.LeaseSpec:
    return (await client.get(core.LEASES, LEASE.name, LEASE.namespace)).view(core.Lease).spec


async def test_the_first_candidate_acquires_the_lease_and_keeps_it() -> None:
    async with embedded_server() as embedded:
        first = candidate(embedded, "first")
        async with running(first):
            await first.wait_elected()
            begun = await lease_of(embedded.client("cell/dfw"))
            second = candidate(embedded, "second")
            async with running(second):
                await asyncio.sleep(120)
                held = await lease_of(embedded.client("cell/dfw"))

                assert first.held()
                assert not second.held()

    assert held.holder_identity == "first"
    assert held.lease_duration_seconds == 15
    assert held.lease_transitions == 0
    assert held.acquire_time == begun.acquire_time
    assert held.renew_time is not None
    assert begun.renew_time is not None
    assert (held.renew_time - begun.renew_time).total_seconds() > 115


async def test_a_released_lease_is_acquired_without_waiting_for_its_expiry() -> None:
    async with embedded_server() as embedded:
        first, second = candidate(embedded, "first"), candidate(embedded, "second")
        async with running(second) as following:
            async with running(first):
                await asyncio.sleep(0)
            # The second may have created the Lease: then it leads from the start.
            await second.wait_elected()
            now = asyncio.get_running_loop().time()
            assert now < 6
            assert not following[0].done()
        spec = await lease_of(embedded.client("cell/dfw"))

    assert spec.holder_identity == ""
    assert spec.lease_duration_seconds == 1


async def test_acquiring_a_released_lease_counts_as_a_transition() -> None:
    async with embedded_server() as embedded:
        first, second = candidate(embedded, "first"), candidate(embedded, "second")
        async with running(first):
            await first.wait_elected()
        async with running(second):
            await second.wait_elected()
            assert (await lease_of(embedded.client("cell/dfw"))).lease_transitions == 1


async def test_a_holder_that_cannot_renew_stops_before_the_next_one_starts() -> None:
    async with embedded_server() as embedded:
        first, link = linked_candidate(embedded, "first")
        second = candidate(embedded, "second")
        loop = asyncio.get_running_loop()
        async with running(first, second) as tasks:
            await first.wait_elected()
            await asyncio.sleep(30)
            link.rules.append(CUT)
            await asyncio.wait([tasks[0]])
            stopped_at = loop.time()
            assert not first.held()
            await second.wait_elected()
            started_at = loop.time()

            with pytest.raises(LeadershipLost, match="the connection is cut"):
                tasks[0].result()
        assert stopped_at <= 30 + 2 * 2.0 + 10.0
        assert started_at - stopped_at >= 3.0


async def test_lease_time_counts_from_the_moment_a_renewal_was_sent() -> None:
    """Its response may be late, and other candidates count from before it."""
    async with embedded_server() as embedded:
        first, link = linked_candidate(embedded, "first")
        async with running(first):
            await first.wait_elected()
            link.rules[:] = [Rule(delay_answer(7.0))]
            await asyncio.sleep(2.0 + 7.0 + 0.5)  # a renewal, and its answer
            sent_at = asyncio.get_running_loop().time() - 7.5
            assert first.held()
            link.rules[:] = [Rule(delay_answer(1000.0))]

            await asyncio.sleep(sent_at + 10.1 - asyncio.get_running_loop().time())
            assert not first.held()


async def test_a_short_loss_of_contact_keeps_the_lease() -> None:
    async with embedded_server() as embedded:
        first, link = linked_candidate(embedded, "first")
        async with running(first, candidate(embedded, "second")) as tasks:
            await first.wait_elected()
            link.rules.append(CUT)
            await asyncio.sleep(6)
            link.rules.remove(CUT)
            await asyncio.sleep(60)

            assert first.held()
            assert not tasks[0].done()


async def test_a_lease_taken_by_force_stops_the_holder_at_its_next_renewal() -> None:
    async with embedded_server() as embedded:
        first = candidate(embedded, "first")
        async with running(first) as tasks:
            await first.wait_elected()
            spec = {"holderIdentity": "another"}
            await embedded.client("cell/dfw").patch(
                core.LEASES, LEASE.name, merge({"spec": spec}), LEASE.namespace
            )
            before = asyncio.get_running_loop().time()
            await asyncio.wait([tasks[0]])

            with pytest.raises(LeadershipLost, match="held by another"):
                tasks[0].result()
            assert asyncio.get_running_loop().time() - before <= 5


async def test_wall_clocks_are_never_compared() -> None:
    """A record from the past is not expired, and one from the future does not last longer."""
    async with embedded_server() as embedded:
        client = embedded.client("cell/dfw")
        for year, name in ((1999, "past"), (2199, "future")):
            lease = LeaseName("default", name)
            spec = {
                "holderIdentity": "gone",
                "leaseDurationSeconds": 15,
                "renewTime": f"{year}-01-01T00:00:00.000000Z",
            }
            body = {"metadata": {"name": name}, "spec": spec}
            await client.create(core.LEASES, body, "default")
            begun = asyncio.get_running_loop().time()
            follower = Leadership(client, lease, "next", SimulatedEnvironment())
            async with running(follower):
                await follower.wait_elected()
                waited = asyncio.get_running_loop().time() - begun
                assert 15 <= waited <= 15 + 2 * 2.0 * 2.2


async def test_a_write_without_leadership_is_not_sent() -> None:
    server = ScriptedServer(HttpResponse(200))
    fenced = FencedTransport(InProcessTransport(server.handle), lambda: False)
    review = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    await fenced.send(HttpRequest("GET", "/api/v1/pods"))
    await fenced.send(HttpRequest("POST", review))
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(NotLeader):
            await fenced.send(HttpRequest(method, "/api/v1/namespaces/default/configmaps/a"))

    assert [request.method for request in server.requests] == ["GET", "POST"]
    assert not issubclass(NotLeader, errors.ClientError)


async def test_leadership_is_reported_as_a_metric() -> None:
    async with embedded_server() as embedded:
        first, second = candidate(embedded, "first"), candidate(embedded, "second")
        registries = [MetricsRegistry(), MetricsRegistry()]
        async with running(first, second):
            for each, registry in zip((first, second), registries, strict=True):
                each.track(registry)
            await asyncio.sleep(30)
            values = [
                registry.gauge("leader_election_master_status", "", "name").value(LEASE.name)
                for registry in registries
            ]

    assert sorted(values) == [0, 1]


async def test_a_lease_that_cannot_be_acquired_is_warned_about_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A candidate that waits for it is ready and does nothing: that must be visible."""
    async with embedded_server() as embedded:
        nowhere = LeaseName("nowhere", LEASE.name)
        client = embedded.client("cell/dfw")
        async with running(Leadership(client, nowhere, "first", SimulatedEnvironment())):
            await asyncio.sleep(60)

    logged = [
        each for each in caplog.records if each.message == "cannot acquire or renew the lease"
    ]
    assert [each.levelname for each in logged] == ["WARNING"]
    assert 'namespaces "nowhere" not found' in getattr(logged[0], "fields", {})["reason"]
