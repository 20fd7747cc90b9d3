"""The activator on real sockets: sleep, waking, and what passes through it."""

from __future__ import annotations

import asyncio
import os
import struct
from socket import AF_INET, SO_LINGER, SOL_SOCKET
from socket import socket as Socket

import pytest

from datum_compute.decisions.sleep import Rest, SleepPolicy
from datum_compute.providers.container.activator import WakeFailed, listeners
from datum_compute.providers.container.engine import EngineRefused, EngineUnreachable
from tests.support.providers.activator import (
    ADDRESS,
    activated_instance,
    echo,
    on_both_loops,
    wait_until,
)

MEBIBYTE = 2**20


# Waking.


@pytest.mark.parametrize("rest", [Rest.PAUSED, Rest.STOPPED])
@on_both_loops
async def test_a_connection_wakes_a_sleeping_instance_and_is_answered(rest: Rest) -> None:
    async with activated_instance(rest=rest) as found:
        assert await found.ask(b"first") == b"first"

        assert found.containers.steps == [f"resume {rest.name}"]
        assert found.sleeper.rest is Rest.AWAKE
        assert found.wakes("woken") == 1


@on_both_loops
async def test_the_first_request_has_the_first_connection_to_the_program() -> None:
    connections: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(await reader.read())
        writer.write(b"answer")
        writer.close()

    async with activated_instance(rest=Rest.STOPPED, handler=take) as found:
        assert await found.ask(b"first") == b"answer"
        assert connections == [b"first"]
        found.changes.clear()
        await asyncio.wait_for(found.changes.wait(), 5)  # and only then it is reported


@on_both_loops
async def test_a_connection_that_no_request_takes_is_closed() -> None:
    ended = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        ended.set()
        writer.close()

    async with activated_instance(rest=Rest.PAUSED, handler=take) as found:
        await found.sleeper.wait_awake()  # as for a command
        await asyncio.wait_for(ended.wait(), 5)


@on_both_loops
async def test_a_connection_waits_until_the_program_listens() -> None:
    async with activated_instance(rest=Rest.STOPPED, start_seconds=0.3) as found:
        assert await found.ask() == b"hello"


@on_both_loops
async def test_two_hundred_connections_at_once_wake_it_once_and_none_is_lost() -> None:
    async with activated_instance(rest=Rest.STOPPED, start_seconds=0.2) as found:
        asked = [b"%d" % number for number in range(2 * listeners.MOST_HELD)]
        assert await asyncio.gather(*map(found.ask, asked)) == asked

        assert found.containers.steps == ["resume STOPPED"]


@on_both_loops
async def test_no_more_than_the_bound_are_taken_while_it_wakes() -> None:
    async with activated_instance(rest=Rest.STOPPED, start_seconds=3600) as found:
        asking = [asyncio.create_task(found.ask()) for _ in range(2 * listeners.MOST_HELD)]
        await wait_until(lambda: found.sleeper._open == listeners.MOST_HELD)
        await asyncio.sleep(0.2)
        assert found.sleeper._open == listeners.MOST_HELD
        await found.containers.listen()

        assert {await each for each in asking} == {b"hello"}


@on_both_loops
async def test_a_waking_that_fails_closes_the_connection_within_its_deadline() -> None:
    policy = SleepPolicy(3600.0, wake_seconds=0.3)
    async with activated_instance(policy, rest=Rest.STOPPED, start_seconds=60) as found:
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert await found.ask() == b""

        assert loop.time() - started < 10.0
        port = found.containers.port
        assert found.sleeper.failure == (
            f"a connection has waited for 0.3s: port {port} does not accept connections"
        )
        assert found.wakes("failed") == 1
        assert found.changes.is_set()


@on_both_loops
async def test_a_waking_fails_when_the_engine_stays_away() -> None:
    policy = SleepPolicy(3600.0, wake_seconds=0.3)
    async with activated_instance(policy, rest=Rest.PAUSED) as found:
        found.containers.failure = EngineUnreachable("no socket of it answers")
        with pytest.raises(WakeFailed, match="the container engine does not answer"):
            await found.sleeper.wait_awake()


@on_both_loops
async def test_an_engine_that_comes_back_wakes_it() -> None:
    async with activated_instance(rest=Rest.PAUSED) as found:
        found.containers.failure = EngineUnreachable("no socket of it answers")
        asking = asyncio.create_task(found.ask())
        await wait_until(lambda: len(found.containers.steps) >= 2)
        found.containers.failure = None

        assert await asking == b"hello"


@on_both_loops
async def test_the_provider_learns_that_the_engine_refuses_to_wake_it() -> None:
    async with activated_instance(rest=Rest.STOPPED) as found:
        found.containers.failure = EngineRefused(404, "no such container")
        found.changes.clear()
        asking = asyncio.create_task(found.ask())
        await found.changes.wait()
        assert found.sleeper.rest is Rest.AWAKE  # the provider is to start it
        assert found.sleeper.asleep
        await found.containers.listen()

        assert await asking == b"hello"


@on_both_loops
async def test_an_instance_that_is_awake_and_does_not_listen_is_not_waited_for() -> None:
    async with activated_instance() as found:
        await found.containers.close()
        assert await asyncio.wait_for(found.ask(), 2) == b""
        assert found.wakes("failed") == 0


# Sleeping.


@on_both_loops
async def test_an_idle_instance_is_paused_and_later_stopped() -> None:
    async with activated_instance(SleepPolicy(0.1, 0.4)) as found:
        await asyncio.wait_for(found.changes.wait(), 5)
        await found.sleeper.deepen()
        assert found.sleeper.rest is Rest.PAUSED
        found.changes.clear()
        await asyncio.wait_for(found.changes.wait(), 5)
        await found.sleeper.deepen()

        assert found.containers.steps == ["PAUSED", "STOPPED"]
        assert await found.ask() == b"hello"


@on_both_loops
async def test_an_open_connection_keeps_it_awake_also_without_traffic() -> None:
    async with activated_instance(SleepPolicy(0.05, 0.5)) as found:
        reader, writer = await found.connect()
        writer.write(b"x")
        await reader.readexactly(1)
        await asyncio.sleep(0.2)
        await found.sleeper.deepen()
        assert found.containers.steps == []
        writer.close()

        await wait_until(lambda: found.sleeper.is_due)


@on_both_loops
async def test_a_connection_that_comes_while_it_is_paused_wakes_it_again() -> None:
    async with activated_instance(SleepPolicy(0.05, 60)) as found:
        await wait_until(lambda: found.sleeper.is_due)
        sleeping = asyncio.create_task(found.sleeper.deepen())
        answer = await found.ask()
        await sleeping

        assert answer == b"hello"
        assert found.sleeper.rest is Rest.AWAKE


@on_both_loops
async def test_an_instance_that_was_woken_sleeps_again_after_its_idle_time() -> None:
    async with activated_instance(SleepPolicy(0.5, 3600)) as found:
        await wait_until(lambda: found.sleeper.is_due)
        await found.sleeper.deepen()
        found.changes.clear()
        assert await found.ask() == b"hello"
        await asyncio.wait_for(found.changes.wait(), 5)
        assert not found.sleeper.is_due  # it is awake
        found.changes.clear()

        await asyncio.wait_for(found.changes.wait(), 5)
        assert found.sleeper.is_due


@on_both_loops
async def test_a_pause_that_fails_is_repeated_and_the_instance_wakes_all_the_same() -> None:
    async with activated_instance(SleepPolicy(0.05, 60)) as found:
        found.containers.failure = EngineUnreachable("broke off")
        await wait_until(lambda: found.sleeper.is_due)
        with pytest.raises(EngineUnreachable):
            await found.sleeper.deepen()
        assert (found.sleeper.rest, found.sleeper.is_due) == (Rest.PAUSED, True)
        found.containers.failure = None
        await found.sleeper.deepen()
        await wait_until(lambda: not found.sleeper.is_due)

        assert await found.ask() == b"hello"


# What passes through it.


@on_both_loops
async def test_a_client_that_has_closed_its_half_gets_the_whole_answer() -> None:
    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = await reader.read()
        await asyncio.sleep(0.05)
        writer.write(b"%d" % len(received))
        writer.close()

    async with activated_instance(handler=count) as found:
        assert await found.ask(b"x" * 1000) == b"1000"


@on_both_loops
async def test_a_server_that_has_closed_its_half_gets_what_is_sent_later() -> None:
    received: list[bytes] = []

    async def speak_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.write_eof()
        received.append(await reader.read())
        writer.close()

    async with activated_instance(handler=speak_first) as found:
        reader, writer = await found.connect()
        assert await reader.read() == b"hello"
        writer.write(b"later")
        writer.write_eof()
        await wait_until(lambda: bool(received))

        assert received == [b"later"]
        writer.close()


@on_both_loops
async def test_a_streamed_upload_arrives_whole_and_byte_for_byte() -> None:
    sent = os.urandom(16 * MEBIBYTE)
    async with activated_instance(rest=Rest.PAUSED) as found:
        reader, writer = await found.connect()

        async def send() -> None:
            for start in range(0, len(sent), MEBIBYTE // 2):
                writer.write(sent[start : start + MEBIBYTE // 2])
                await writer.drain()
            writer.write_eof()

        sending = asyncio.create_task(send())
        assert await reader.read(-1) == sent
        await sending
        writer.close()


@on_both_loops
async def test_a_slow_client_slows_its_instance_down_and_loses_nothing() -> None:
    size = 32 * MEBIBYTE
    written = 0

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        while written < size:
            writer.write(bytes(65536))
            await writer.drain()
            written += 65536
        writer.close()

    async with activated_instance(handler=pour) as found:
        reader, writer = await found.connect()
        await reader.readexactly(1)
        await asyncio.sleep(0.3)
        assert written < size / 2  # no memory holds what the client does not take
        received = 1
        while data := await reader.read(MEBIBYTE):
            received += len(data)

        assert received == size
        writer.close()


@on_both_loops
async def test_a_reset_is_passed_on_to_the_other_side() -> None:
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    async def wait_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
            ended.set_result(None)
        except ConnectionError as error:
            ended.set_result(error)
        writer.close()

    async with activated_instance(handler=wait_end) as found:
        client = Socket(AF_INET)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, (ADDRESS, found.containers.port))
        await asyncio.get_running_loop().sock_sendall(client, b"x")
        await asyncio.sleep(0.05)
        client.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

        assert isinstance(await asyncio.wait_for(ended, 5), ConnectionResetError)


@on_both_loops
async def test_bytes_of_other_protocols_pass_unchanged() -> None:
    """A WebSocket's upgrade and frames, and the preface of HTTP/2 with a SETTINGS frame."""
    upgrade = b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    masked = bytes([0x81, 0x85, 1, 2, 3, 4]) + b"hello"
    http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
    async with activated_instance(rest=Rest.PAUSED, handler=echo) as found:
        for exchange in ([upgrade, masked, masked], [http2, b"\x00\x00\x08\x06" + bytes(13)]):
            reader, writer = await found.connect()
            for message in exchange:
                writer.write(message)
                assert await reader.readexactly(len(message)) == message
            writer.close()
            await writer.wait_closed()
        await wait_until(lambda: found.sleeper._open == 0)


@on_both_loops
async def test_a_thousand_idle_connections_stay_open_and_answer() -> None:
    async with activated_instance(handler=echo) as found:
        opened = await asyncio.gather(*(found.connect() for _ in range(1000)))
        for _, writer in opened:
            writer.write(b"x")
        for reader, _ in opened:
            assert await reader.readexactly(1) == b"x"
        assert found.sleeper._open == 1000
        for _, writer in opened:
            writer.close()
        await wait_until(lambda: found.sleeper._open == 0)
