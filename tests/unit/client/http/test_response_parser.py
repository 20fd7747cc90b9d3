"""Responses parse the same however the network splits their bytes."""

from __future__ import annotations

import gzip
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.client.http.faults import MalformedResponse
from datum_compute.client.http.response_parser import ResponseParser

OK = b"HTTP/1.1 200 OK\r\n"
BODY = b'{"items": []}' * 5
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n7\r\n" + BODY[:7]
RESPONSES = {
    "length": OK + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY),
    "chunks": CHUNKED + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY) - 7, BODY[7:]),
    "trailers": CHUNKED + b"\r\n%x\r\n%b\r\n0\r\nX-T: 1\r\n\r\n" % (len(BODY) - 7, BODY[7:]),
    "gzip": OK
    + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(BODY, mtime=0))
    + gzip.compress(BODY, mtime=0),
    "interim": b"HTTP/1.1 100 Continue\r\nX-A: 1\r\n\r\n"
    + OK
    + b"Content-Length: 65\r\n\r\n"
    + BODY,
}
every_response = pytest.mark.parametrize("sent", RESPONSES.values(), ids=RESPONSES)


@every_response
@given(splits=st.lists(st.integers(0, 200), max_size=6))
def test_a_response_may_arrive_in_any_pieces(sent: bytes, splits: list[int]) -> None:
    parser = ResponseParser()
    body = b""
    edges = [0, *sorted(splits), len(sent)]
    for start, end in pairwise(edges):
        parser.feed(sent[start:end])
        body += parser.take()

    assert parser.is_complete
    assert parser.keeps_alive
    assert (parser.status, body) == (200, BODY)
    assert not parser.headers.keys() & {"x-a", "x-t"}


@every_response
def test_a_response_is_complete_with_its_last_byte_only(sent: bytes) -> None:
    parser = ResponseParser()
    parser.feed(sent[:-1])

    assert not parser.is_complete
    with pytest.raises(MalformedResponse, match="before the response was complete"):
        parser.feed_eof()


@every_response
def test_one_response_follows_another(sent: bytes) -> None:
    parser = ResponseParser()
    for _ in range(3):
        parser.expect("GET")
        parser.feed(sent)
        assert (parser.is_complete, parser.take()) == (True, BODY)


def test_without_a_length_the_body_ends_with_the_connection() -> None:
    parser = ResponseParser()
    parser.feed(OK + b"\r\n" + BODY)
    assert not parser.is_complete

    parser.feed_eof()

    assert (parser.is_complete, parser.keeps_alive, parser.take()) == (True, False, BODY)


def test_the_response_to_head_has_no_body() -> None:
    parser = ResponseParser()
    parser.expect("HEAD")

    parser.feed(OK + b"Content-Length: 5\r\n\r\n")

    assert (parser.is_complete, parser.keeps_alive) == (True, False)


@pytest.mark.parametrize("headers", [b"", b"Connection: upgrade\r\n"])
def test_no_response_follows_a_change_of_protocol(headers: bytes) -> None:
    parser = ResponseParser()

    parser.feed(b"HTTP/1.1 101 Switching\r\nUpgrade: tcp\r\n" + headers + b"\r\nraw bytes")

    assert (parser.status, parser.is_complete, parser.keeps_alive) == (101, True, False)


@pytest.mark.parametrize(
    "sent",
    [
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"Content-Length: 2\r\n\r\nokay",
        OK + b"Content-Length: 2\r\n\r\nok" + OK,
    ],
    ids=["close", "HTTP/1.0", "surplus bytes", "a second response"],
)
def test_after_some_responses_the_connection_is_not_used_again(sent: bytes) -> None:
    parser = ResponseParser()

    parser.feed(sent)

    assert (parser.is_complete, parser.keeps_alive, parser.take()) == (True, False, b"ok")


@pytest.mark.parametrize("start", [OK + b"X: ", b"HTTP/1.1 200 "])
def test_an_endless_head_is_refused(start: bytes) -> None:
    parser = ResponseParser()
    parser.feed(start)

    with pytest.raises(MalformedResponse, match="exceed 65536 bytes"):
        for _ in range(100):
            parser.feed(b"x" * 1000)


@pytest.mark.parametrize("name", ["length", "chunks", "gzip"])
def test_a_body_beyond_its_limit_is_refused(name: str) -> None:
    ResponseParser(max_body=len(BODY)).feed(RESPONSES[name])

    with pytest.raises(MalformedResponse, match=f"more than {len(BODY) - 1} bytes"):
        ResponseParser(max_body=len(BODY) - 1).feed(RESPONSES[name])


def test_a_compressed_body_beyond_its_limit_is_not_unpacked() -> None:
    packed = gzip.compress(bytes(50_000_000))
    head = OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
    parser = ResponseParser(max_body=1_000)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedResponse, match="more than 1000 bytes"):
            parser.feed(head + packed)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
