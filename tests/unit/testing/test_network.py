"""What the simulated network does to a message, one fault at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from datum_compute.client import errors
from datum_compute.client.transport import HttpRequest, Transport
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.network import Direction, SimulatedNetwork
from datum_compute.testing.network_faults import (
    LATE_SECONDS,
    NO_FAULTS,
    SLOW_SECONDS,
    NetworkFaults,
    draw_faults,
)
from datum_compute.testing.trace import Trace
from tests.support.client.recording_server import RecordingServer

WRITE = HttpRequest("PATCH", "/apis/example.com/v1/widgets/a")
READ = HttpRequest("GET", "/apis/example.com/v1/widgets/a")
WATCH = HttpRequest("GET", "/apis/example.com/v1/widgets", (("watch", "true"),))


def now() -> float:
    return asyncio.get_running_loop().time()


def network(faults: NetworkFaults = NO_FAULTS, seed: int = 1) -> SimulatedNetwork:
    return SimulatedNetwork(SimulatedEnvironment(seed), faults=faults)


async def messages(transport: Transport, watch: HttpRequest = WATCH) -> AsyncIterator[bytes]:
    response = await transport.send(watch, timeout=30)
    assert response.stream is not None
    return response.stream


async def test_without_faults_everything_arrives_once_and_at_once() -> None:
    server = RecordingServer()
    async with network() as calm:
        response = await calm.transport("cell", "hub", server).send(WRITE, timeout=30)

    assert (response.body, now()) == (b"1", 0.0)


async def test_a_lost_request_never_arrives() -> None:
    server = RecordingServer()
    async with network(NetworkFaults(lose_request=1.0)) as bad:
        with pytest.raises(errors.TransportFailure):
            await bad.transport("cell", "hub", server).send(WRITE, timeout=30)

    assert server.arrived == []


async def test_a_request_whose_reply_is_lost_was_carried_out() -> None:
    server = RecordingServer()
    async with network(NetworkFaults(lose_reply=1.0)) as bad:
        with pytest.raises(errors.TransportFailure):
            await bad.transport("cell", "hub", server).send(WRITE, timeout=30)

    assert len(server.arrived) == 1


async def test_a_late_request_arrives_after_its_callers_timeout() -> None:
    server = RecordingServer()
    async with network(NetworkFaults(late_request=1.0)) as bad:
        with pytest.raises(errors.Disconnected):
            await bad.transport("cell", "hub", server).send(WRITE, timeout=30)
        assert server.arrived == []
        await asyncio.sleep(60)

    assert len(server.arrived) == 1


@pytest.mark.parametrize(("method", "times"), [("PATCH", 2), ("DELETE", 2), ("POST", 1)])
async def test_a_doubled_request_arrives_twice_unless_it_creates(method: str, times: int) -> None:
    server = RecordingServer()
    async with network(NetworkFaults(duplicate=1.0)) as bad:
        await bad.transport("cell", "hub", server).send(HttpRequest(method, "/x"), timeout=30)

    assert len(server.arrived) == times


async def test_a_duplicate_arrives_after_its_caller_has_the_response() -> None:
    server = RecordingServer()
    async with network(NetworkFaults(stray=1.0)) as bad:
        await bad.transport("cell", "hub", server).send(HttpRequest("POST", "/x"), timeout=30)
        await bad.transport("cell", "hub", server).send(READ, timeout=30)
        assert server.arrived.count("POST /x") == 1
        bad.kill("cell")
        await asyncio.sleep(LATE_SECONDS)

    assert sorted(server.arrived) == [f"GET {READ.path}", "POST /x", "POST /x"]


async def test_no_duplicate_crosses_a_partition() -> None:
    server = RecordingServer()
    async with network(NetworkFaults(stray=1.0)) as bad:
        await bad.transport("cell", "hub", server).send(HttpRequest("POST", "/x"), timeout=30)
        bad.partition("cell", "hub")
        await asyncio.sleep(LATE_SECONDS)

    assert len(server.arrived) == 1


async def test_requests_may_overtake_one_another_on_slow_paths() -> None:
    server = RecordingServer()
    async with network(NetworkFaults(delay=1.0)) as slow, TaskGroup("callers") as tasks:
        link = slow.transport("cell", "hub", server)
        for number in range(10):
            tasks.start(link.send(HttpRequest("PATCH", f"/{number}"), timeout=30), name=str(number))

    assert len(server.arrived) == 10
    assert server.arrived != sorted(server.arrived)


async def test_a_slow_path_is_bounded_by_the_callers_timeout() -> None:
    async with network(NetworkFaults(slow=1.0)) as slow:
        link = slow.transport("cell", "hub", RecordingServer())
        await link.send(READ, timeout=2 * SLOW_SECONDS)
        began = now()
        with pytest.raises(errors.TimedOut):
            await link.send(READ, timeout=0.001)
        assert now() - began == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("direction", "arrives"),
    [(Direction.BOTH, 0), (Direction.THERE, 0), (Direction.BACK, 1)],
)
async def test_a_partition_stops_requests_or_replies(direction: Direction, arrives: int) -> None:
    server = RecordingServer()
    async with network() as cut:
        link = cut.transport("cell", "hub", server)
        cut.partition("cell", "hub", direction=direction)
        with pytest.raises(errors.TimedOut):
            await link.send(WRITE, timeout=30)
        assert len(server.arrived) == arrives
        cut.heal()
        await link.send(WRITE, timeout=30)


async def test_a_partition_affects_only_those_it_names() -> None:
    async with network() as cut:
        cut.partition("cell-dfw", ["hub", "project/demo"], silent=False)

        with pytest.raises(errors.ConnectFailed):
            await cut.transport("cell-dfw", "hub", RecordingServer()).send(READ, timeout=30)
        await cut.transport("cell-dfw", "cell/dfw", RecordingServer()).send(READ, timeout=30)
        await cut.transport("cell-lhr", "hub", RecordingServer()).send(READ, timeout=30)


async def test_a_partition_also_stops_those_beyond_it_from_reaching_in() -> None:
    async with network() as cut:
        cut.partition({"cell-dfw", "cell/dfw"}, {"propagation", "hub"}, silent=False)

        with pytest.raises(errors.ConnectFailed):
            await cut.transport("propagation", "cell/dfw", RecordingServer()).send(READ, timeout=30)


async def test_a_stalled_watch_continues_or_breaks_when_a_silent_partition_heals() -> None:
    ends = {await _end_of_a_stalled_watch(seed) for seed in range(1, 9)}

    assert ends == {"went on", "broke"}


async def _end_of_a_stalled_watch(seed: int) -> str:
    server = RecordingServer()
    async with network(seed=seed) as cut:
        stream = await messages(cut.transport("cell", "hub", server))
        cut.partition("cell", "hub")
        server.push(b"while partitioned")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1000):
                await anext(stream)
        cut.heal()
        try:
            message = await anext(stream)
        except errors.Disconnected:
            return "broke"
    return "went on" if message == b"while partitioned" else "lost a message"


async def test_a_partition_that_is_not_silent_breaks_watches_at_once() -> None:
    async with network() as cut:
        stream = await messages(cut.transport("cell", "hub", RecordingServer()))
        cut.partition("cell", "hub", silent=False)

        with pytest.raises(errors.Disconnected):
            await anext(stream)


async def test_a_watch_breaks_between_messages_under_faults() -> None:
    server = RecordingServer()
    async with network(NetworkFaults(break_stream=1.0)) as bad:
        stream = await messages(bad.transport("cell", "hub", server))
        server.push(b"1")
        assert await anext(stream) == b"1"

        with pytest.raises(errors.Disconnected):
            await anext(stream)


async def test_a_watch_lags_in_order_while_reads_are_live() -> None:
    server = RecordingServer()
    async with network() as lagging:
        lagging.lags["cell", "widgets"] = 7.0
        link = lagging.transport("cell", "hub", server)
        stream = await messages(link)
        server.push(b"1")
        server.push(b"2")
        await link.send(READ, timeout=30)
        assert now() == 0.0

        assert [await anext(stream), now(), await anext(stream), now()] == [b"1", 7.0, b"2", 7.0]


async def test_lag_applies_to_a_kind_and_not_to_paths_below_an_object_of_its_name() -> None:
    server = RecordingServer()
    below = HttpRequest("GET", f"/clusters/dfw{WATCH.path}", WATCH.query)
    async with network() as lagging:
        lagging.lags["cell", "clusters"] = 7.0
        stream = await messages(lagging.transport("cell", "hub", server), below)
        server.push(b"1")

        assert [await anext(stream), now()] == [b"1", 0.0]


async def test_only_requests_in_flight_of_a_killed_process_may_still_arrive() -> None:
    server = RecordingServer()
    async with network(NetworkFaults(delay=5.0)) as slow, TaskGroup("process") as tasks:
        link = slow.transport("cell", "hub", server)
        sent = tasks.start(link.send(WRITE, timeout=30), name="sent before")
        await asyncio.sleep(0)
        slow.kill("cell")
        await tasks.stop(sent)
        with pytest.raises(errors.ConnectFailed):
            await link.send(WRITE, timeout=30)
        await asyncio.sleep(60)
        assert len(server.arrived) == 1

        slow.revive("cell")
        with pytest.raises(errors.ConnectFailed):
            await link.send(WRITE, timeout=30)
        await slow.transport("cell", "hub", server).send(WRITE, timeout=30)


async def test_the_watches_of_a_killed_process_end() -> None:
    async with network() as calm:
        stream = await messages(calm.transport("cell", "hub", RecordingServer()))
        calm.kill("cell")

        with pytest.raises(errors.Disconnected):
            await anext(stream)


async def test_a_seed_determines_the_faults() -> None:
    first, again, other = [await _course(seed) for seed in (3, 3, 4)]

    assert first == again
    assert first != other


async def _course(seed: int) -> list[str]:
    """The trace without times, since the three runs follow one another."""
    faults = NetworkFaults(lose_request=0.3, duplicate=0.3, lose_reply=0.3)
    trace = Trace()
    async with SimulatedNetwork(SimulatedEnvironment(seed), trace, faults) as bad:
        link = bad.transport("cell", "hub", RecordingServer())
        for _ in range(20):
            try:
                await link.send(WRITE, timeout=5)
            except errors.TransportFailure:
                pass
    return [line.partition(" ")[2] for line in trace.lines]


def test_half_of_all_seeds_have_a_given_fault() -> None:
    days = [draw_faults(SimulatedEnvironment(seed)) for seed in range(200)]

    for kind in (
        "lose_request",
        "lose_reply",
        "late_request",
        "duplicate",
        "stray",
        "delay",
        "lag",
    ):
        assert 60 < sum(getattr(day, kind) > 0 for day in days) < 140
    assert str(NO_FAULTS) == "calm"
