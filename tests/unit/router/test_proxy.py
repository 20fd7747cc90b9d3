"""Requests through the router, on real sockets."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable

import pytest

from datum_compute.decisions.routing import CityBackends, HttpRoute
from datum_compute.router import exchange, upstreams
from tests.support.router import (
    HOST,
    NAME,
    answering,
    free_port,
    hanging_up,
    read_head,
    replying,
    router_stage,
)

pytestmark = pytest.mark.realtime


def status_of(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


def body_of(response: bytes) -> bytes:
    return response.partition(b"\r\n\r\n")[2]


def request(method: str = "GET", headers: str = "", body: bytes = b"") -> bytes:
    head = f"{method} / HTTP/1.1\r\nhost: {NAME}\r\n{headers}\r\n"
    return head.encode() + body


async def test_a_request_is_answered_by_the_instance() -> None:
    async with router_stage() as on:
        await on.add(answering(b"from dfw"))
        response = await on.get()
        assert status_of(response) == 200
        assert body_of(response) == b"from dfw"


async def test_a_city_can_be_chosen_by_its_name() -> None:
    async with router_stage() as on:
        await on.add(answering(b"from dfw"), "DFW")
        await on.add(answering(b"from lhr"), "LHR")
        assert body_of(await on.get()) == b"from dfw"
        assert body_of(await on.get(host=f"lhr.{NAME}:7480")) == b"from lhr"
        unknown = await on.get(host=f"iad.{NAME}")
        assert status_of(unknown) == 404
        assert b"hello is in DFW, LHR, not in IAD." in unknown


async def test_the_instance_sees_who_asked_and_nothing_meant_for_the_connection() -> None:
    seen: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_head(reader))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with router_stage() as on:
        await on.add(record)
        await on.get(
            "/a?b=c",
            "connection: x-own\r\nx-own: 1\r\nx-forwarded-for: 9.9.9.9\r\nkeep-alive: 5\r\n"
            "te: trailers\r\nx-kept: yes\r\n",
        )
    [head] = seen
    lines = head.decode().split("\r\n")
    assert lines[0] == "GET /a?b=c HTTP/1.1"
    assert f"host: {NAME}" in lines
    assert "x-kept: yes" in lines
    assert "x-forwarded-for: 127.0.0.1" in lines
    assert f"x-forwarded-host: {NAME}" in lines
    assert "x-forwarded-proto: http" in lines
    names = {line.partition(":")[0] for line in lines}
    assert not names & {"x-own", "keep-alive", "te", "connection"}
    assert "9.9.9.9" not in head.decode()


async def test_one_connection_takes_many_requests_for_different_workloads() -> None:
    async with router_stage() as on:
        await on.add(answering(b"yes"))
        reader, writer = await on.connect()
        for host, status in ((NAME, 200), ("nobody.demo.localhost", 404), (NAME, 200)):
            writer.write(f"GET / HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
            head = await read_head(reader)
            assert status_of(head) == status
            await reader.readexactly(_length(head))


async def test_requests_that_were_sent_ahead_are_answered_in_order() -> None:
    async with router_stage() as on:
        await on.add(answering(b"yes"))
        reader, writer = await on.connect()
        writer.write(request() * 3)
        for _ in range(3):
            head = await read_head(reader)
            assert await reader.readexactly(_length(head)) == b"yes"


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends a chunked request's body back as it comes."""
    await read_head(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while line := await reader.readline():
        size = int(line, 16)
        part = await reader.readexactly(size + 2)
        writer.write(line + part)
        await writer.drain()
        if size == 0:
            return


async def test_chunks_stream_both_ways_at_once() -> None:
    async with router_stage() as on:
        await on.add(echo)
        reader, writer = await on.connect()
        writer.write(request("POST", "transfer-encoding: chunked\r\n"))
        head = await read_head(reader)
        assert b"transfer-encoding: chunked" in head
        for word in (b"one", b"three", b"x" * 100_000):
            writer.write(b"%x\r\n%b\r\n" % (len(word), word))
            got = b""
            while len(got) < len(word):  # the proxy may cut it anew
                size = int(await reader.readline(), 16)
                got += (await reader.readexactly(size + 2))[:-2]
            assert got == word
        writer.write(b"0\r\n\r\n")
        assert await reader.readline() == b"0\r\n"


async def test_a_large_upload_arrives_whole() -> None:
    total = 8 * 2**20

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await read_head(reader)
        body = await reader.readexactly(_length(head))
        text = str(len(body)).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))

    async with router_stage() as on:
        await on.add(count)
        headers = f"content-length: {total}\r\nconnection: close\r\n"
        response = await on.send(request("PUT", headers, b"x" * total))
        assert body_of(response) == str(total).encode()


async def test_the_instance_decides_whether_an_upload_continues() -> None:
    async def cautious(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"expect: 100-continue" in await read_head(reader)
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(5)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n" + body)

    async with router_stage() as on:
        await on.add(cautious)
        reader, writer = await on.connect()
        writer.write(request("POST", "expect: 100-continue\r\ncontent-length: 5\r\n"))
        assert status_of(await read_head(reader)) == 100
        writer.write(b"hello")
        assert status_of(await read_head(reader)) == 200
        assert await reader.readexactly(5) == b"hello"


async def test_an_answer_before_the_end_of_an_upload_reaches_the_client() -> None:
    async with router_stage() as on:
        await on.add(replying(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nno!"))
        reader, writer = await on.connect()
        writer.write(request("POST", "content-length: 1000000\r\n", b"x" * 1000))
        response = await reader.read()
        assert status_of(response) == 413
        assert body_of(response) == b"no!"


async def test_a_head_request_has_the_length_and_no_body() -> None:
    async with router_stage() as on:
        await on.add(replying(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"))
        response = await on.send(request("HEAD", "connection: close\r\n"))
        assert b"content-length: 1000" in response
        assert body_of(response) == b""


async def test_a_body_that_ends_with_its_connection_is_chunked_for_the_client() -> None:
    async with router_stage() as on:
        await on.add(replying(b"HTTP/1.0 200 OK\r\n\r\nuntil the end"))
        response = await on.get()
        assert b"transfer-encoding: chunked" in response
        assert body_of(response) == b"d\r\nuntil the end\r\n0\r\n\r\n"
        old = await on.send(f"GET / HTTP/1.0\r\nhost: {NAME}\r\n\r\n".encode())
        assert body_of(old) == b"until the end"
        assert b"connection: close" in old


async def test_a_client_that_has_closed_its_end_gets_its_answer() -> None:
    async with router_stage() as on:
        await on.add(answering(b"late"))
        reader, writer = await on.connect()
        writer.write(request())
        writer.write_eof()
        assert body_of(await reader.read()) == b"late"


async def websocket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await read_head(reader)
    assert b"upgrade: websocket" in head
    assert b"sec-websocket-key: k" in head
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-accept: a\r\n\r\n"
    )
    while data := await reader.read(1000):
        writer.write(data.upper())
    writer.write(b"bye")
    writer.write_eof()


UPGRADE = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: k\r\n"


async def test_a_websocket_is_carried_until_both_ends_are_closed() -> None:
    async with router_stage() as on:
        await on.add(websocket)
        reader, writer = await on.connect()
        writer.write(request(headers=UPGRADE))
        head = await read_head(reader)
        assert status_of(head) == 101
        assert b"sec-websocket-accept: a" in head
        for word in (b"ping", b"pong"):
            writer.write(word)
            assert await reader.readexactly(4) == word.upper()
        writer.write_eof()
        assert await reader.read() == b"bye"


async def test_a_protocol_whose_requests_could_not_be_routed_is_not_switched_to() -> None:
    seen: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_head(reader))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async with router_stage() as on:
        await on.add(record)
        await on.get(headers="connection: upgrade, http2-settings\r\nupgrade: h2c\r\n")
    assert b"upgrade" not in seen[0]


async def test_an_instance_that_refuses_connections_is_passed_over() -> None:
    async with router_stage() as on:
        on.list(free_port())
        await on.add(answering(b"second"))
        for _ in range(4):
            assert body_of(await on.get()) == b"second"
        # Nothing was sent to the first one, so any request may be tried on the next.
        response = await on.send(
            request("POST", "content-length: 1\r\nconnection: close\r\n", b"x")
        )
        assert body_of(response) == b"second"


async def test_an_instance_that_does_not_answer_a_connection_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstreams, "CONNECT_SECONDS", 3600.0)
    async with router_stage() as on:
        await on.add_deaf()
        await on.add(answering(b"second"))
        for _ in range(2):
            assert body_of(await on.get()) == b"second"
        post = request("POST", "content-length: 1\r\nconnection: close\r\n", b"x")
        assert body_of(await on.send(post)) == b"second"


async def test_a_successor_is_tried_although_it_has_the_name_and_the_address_of_the_last() -> None:
    async def end_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        successor = dataclasses.replace(first, uid="successor")
        if on.table.route == (replaced := HttpRoute((CityBackends("DFW", (successor,), 1),))):
            await answering(b"successor")(reader, writer)
        await read_head(reader)
        on.table.route = replaced

    async with router_stage() as on:
        first = await on.add(end_once)
        assert body_of(await on.get()) == b"successor"


async def test_a_city_whose_instances_refuse_connections_is_passed_over() -> None:
    async with router_stage() as on:
        on.list(free_port(), "DFW")
        on.list(free_port(), "DFW")
        await on.add(answering(b"from lhr"), "LHR")
        assert body_of(await on.get()) == b"from lhr"


async def test_a_safe_request_without_an_answer_is_tried_on_the_next_instance() -> None:
    async with router_stage() as on:
        await on.add(hanging_up)
        await on.add(answering(b"second"))
        for _ in range(4):
            assert body_of(await on.get()) == b"second"


async def test_a_request_that_no_instance_takes_waits_for_a_successor() -> None:
    """As in a roll: one has ended, and the report about the next is on its way."""
    async with router_stage() as on:
        on.list(free_port())
        asking = [
            asyncio.create_task(on.get()),
            asyncio.create_task(
                on.send(request("POST", "content-length: 1\r\nconnection: close\r\n", b"x"))
            ),
        ]
        await asyncio.sleep(0.1)
        on.table.route = None  # which has no instance for a while
        await asyncio.sleep(0.1)
        await on.add(answering(b"new"))
        assert [body_of(each) for each in await asyncio.gather(*asking)] == [b"new", b"new"]


async def test_a_request_that_changes_something_is_not_sent_twice() -> None:
    received: list[str] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append((await read_head(reader)).decode().split(" ")[0])

    async with router_stage() as on:
        await on.add(take)
        await on.add(take)
        response = await on.send(request("DELETE", "connection: close\r\n"))
        assert status_of(response) == 502
        assert received == ["DELETE"]
        assert b"may have processed the request" in response
        response = await on.send(request("GET", "connection: close\r\n"))
        assert status_of(response) == 503
        assert received == ["DELETE", "GET", "GET"]
        assert b"retry-after: 1" in response


async def test_a_connection_that_the_instance_closed_meanwhile_is_replaced() -> None:
    async def one_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1")
        await reader.read(1)  # the next request: closed without an answer

    async with router_stage() as on:
        await on.add(one_each)
        for _ in range(5):
            assert body_of(await on.get()) == b"1"


async def test_requests_go_to_the_instance_with_the_fewest() -> None:
    busy = asyncio.Event()
    release = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        busy.set()
        await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nslow")

    async with router_stage() as on:
        await on.add(slow)
        first = asyncio.create_task(on.get())
        await busy.wait()
        await on.add(answering(b"idle"))
        for _ in range(5):
            assert body_of(await on.get()) == b"idle"
        release.set()
        assert body_of(await first) == b"slow"


async def test_an_answer_that_breaks_off_is_no_whole_answer_to_the_client() -> None:
    async with router_stage() as on:
        await on.add(replying(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"))
        reader, writer = await on.connect()
        writer.write(request())
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await read_head(reader)
            await reader.readexactly(10)


@pytest.mark.parametrize(
    "response",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\nx",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 40_000 + b"\r\n\r\n",
    ],
)
async def test_an_answer_that_is_not_http_is_a_502_with_the_reason(response: bytes) -> None:
    async with router_stage() as on:
        await on.add(replying(response))
        found = await on.get()
        assert status_of(found) == 502
        assert b"hello-dfw-0" in found


SMUGGLED = [
    request("POST", "content-length: 1\r\ntransfer-encoding: chunked\r\n", b"0\r\n\r\n"),
    request("POST", "content-length: 1\r\ncontent-length: 1\r\n", b"x"),
    request("POST", "content-length: 1, 1\r\n", b"x"),
    request("POST", "content-length: +1\r\n", b"x"),
    request("POST", "content-length: -1\r\n", b"x"),
    request("POST", "transfer-encoding: identity\r\n", b"x"),
    request("POST", "transfer-encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    request("POST", "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", b"0\r\n\r\n"),
    request("POST", "transfer-encoding : chunked\r\n", b"0\r\n\r\n"),
    request("POST", "transfer-encoding:\x0bchunked\r\n", b"0\r\n\r\n"),
    request("POST", "transfer-encoding: chunked\r\n", b"xyz\r\n\r\n"),
    request("POST", "transfer-encoding: chunked\r\n", b"1\nx\r\n0\r\n\r\n"),
    request("POST", "transfer-encoding: chunked\r\n", b"1\r\nxyz0\r\n\r\n"),
    request("POST", "transfer-encoding: chunked\r\n", b"0x1\r\nx\r\n0\r\n\r\n"),
    request("GET", "host: other\r\n"),
    request("GET", "a: b\r\n c: d\r\n"),
    request("GET", "a: b\nc: d\r\n"),
    request("GET", "a: b\rc: d\r\n"),
    request("GET", "a: b\0\r\n"),
    request("GET", "no colon\r\n"),
    b"GET / HTTP/2.0\r\nhost: x\r\n\r\n",
    b"GET /a b HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET http://user@hello.demo.localhost/ HTTP/1.1\r\nhost: x\r\n\r\n",
    b"CONNECT hello.demo.localhost:80 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
]


@pytest.mark.parametrize("sent", SMUGGLED)
async def test_what_could_mean_two_things_is_refused(sent: bytes) -> None:
    async with router_stage() as on:
        await on.add(mute)
        response = await on.send(sent)
        assert status_of(response) in (400, 405, 501, 505)
        assert b"The request is refused: " in response
        assert response.count(b"server: datum-compute") == 1  # what follows is no request


async def test_a_head_is_bounded() -> None:
    async with router_stage() as on:
        await on.add(answering(b"yes"))
        assert status_of(await on.get(headers=f"x: {'y' * 40_000}\r\n")) == 431
        assert status_of(await on.get(headers="x: y\r\n" * 300)) == 431
        assert status_of(await on.get(headers="x: y\r\n" * 100)) == 200


async def test_an_unknown_host_gets_a_list_of_those_that_are_served() -> None:
    async with router_stage() as on:
        nothing = await on.get(host="hello.demo.localhost")
        assert status_of(nothing) == 404
        assert b"none has an HTTP port yet" in nothing
        await on.add(answering(b"yes"))
        for host in ("other.demo.localhost", "127.0.0.1:7480", "example.com"):
            response = await on.get(host=host)
            assert status_of(response) == 404
            assert f"http://{NAME}:{on.port}".encode() in response


async def test_without_an_available_instance_the_answer_says_where_there_is_none() -> None:
    async with router_stage() as on:
        on.list(free_port())
        response = await on.get()
        assert status_of(response) == 503
        assert b"retry-after: 1" in response
        assert b"hello-dfw-0 refuses connections" in response
        found = await on.get(headers="accept: application/json\r\n")
        assert b"content-type: application/json" in found
        said = json.loads(body_of(found))
        assert (said["code"], said["reason"]) == (503, "NoInstanceAnswers")


async def test_simulated_instances_are_said_to_be() -> None:
    async with router_stage("its instances are simulated") as on:
        await on.add(answering(b"never"))
        response = await on.get()
        assert status_of(response) == 503
        assert b"its instances are simulated" in response


TOTAL = 32 * 2**20


async def test_a_client_that_reads_slowly_stops_the_instance_not_the_router() -> None:
    sent = 0
    part = b"x" * 65536

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % TOTAL)
        for _ in range(TOTAL // len(part)):
            writer.write(part)
            await writer.drain()
            sent += len(part)

    async with router_stage() as on:
        await on.add(endless)
        reader, writer = await on.connect()
        writer.write(request())
        await read_head(reader)
        await _until_still(lambda: sent)
        assert sent < TOTAL  # what buffers of the kernel hold
        await on.add(answering(b"others"), "LHR")
        assert body_of(await on.get(host=f"lhr.{NAME}")) == b"others"
        assert len(await reader.readexactly(TOTAL)) == TOTAL


async def _until_still(value: Callable[[], int]) -> None:
    before = None
    while before != value():
        before = value()
        for _ in range(200):
            await asyncio.sleep(0.001)


async def test_a_thousand_idle_connections_stay_open_and_hinder_no_request() -> None:
    async with router_stage() as on:
        await on.add(answering(b"yes"))
        idle = [await on.connect() for _ in range(1000)]
        assert body_of(await on.get()) == b"yes"
        for reader, writer in idle:
            writer.write(request())
            head = await read_head(reader)
            assert await reader.readexactly(_length(head)) == b"yes"


async def test_when_the_router_stops_a_request_that_is_in_progress_ends_first() -> None:
    started = asyncio.Event()
    release = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        started.set()
        await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")

    async with router_stage() as on:
        await on.add(slow)
        # Not by the stage, which would close them first.
        reader, writer = await asyncio.open_connection(HOST, on.port)
        idle, other = await asyncio.open_connection(HOST, on.port)
        writer.write(request(headers="connection: close\r\n"))
        await started.wait()
        asyncio.get_running_loop().call_later(0.05, release.set)
    assert body_of(await reader.read()) == b"done"
    assert await idle.read() == b""
    writer.close()
    other.close()


async def test_the_connection_that_is_idle_longest_makes_room_for_the_next() -> None:
    async with router_stage(max_connections=2) as on:
        await on.add(answering(b"yes"))
        first, _ = await on.connect()
        second, writer = await on.connect()
        writer.write(request())
        head = await read_head(second)
        assert await second.readexactly(_length(head)) == b"yes"
        assert body_of(await on.get()) == b"yes"
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await first.readexactly(1)


async def test_the_time_for_an_answer_begins_with_the_end_of_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "RESPONSE_SECONDS", 0.2)
    async with router_stage() as on:
        await on.add(mute)
        reader, writer = await on.connect()
        writer.write(request("POST", "content-length: 2\r\n", b"x"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.5)
        writer.write(b"x")
        head = await read_head(reader)
        assert status_of(head) == 504
        assert b"hello-dfw-0 has not answered" in await reader.readexactly(_length(head))


async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads, and never answers."""
    await reader.read()


async def test_a_client_that_sends_its_body_too_slowly_gets_a_408(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.2)
    async with router_stage() as on:
        await on.add(mute)
        reader, writer = await on.connect()
        writer.write(request("POST", "content-length: 2\r\n", b"x"))
        assert status_of(await read_head(reader)) == 408
