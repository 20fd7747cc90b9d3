"""Requests as bytes: one is never two, and a header is never another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.client.http.request_encoder import RequestEncoder
from datum_compute.client.transport import HttpRequest

ENCODER = RequestEncoder({"host": "api.example.com"})

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_a_request_is_written_in_one_piece() -> None:
    request = HttpRequest("PATCH", "/x", (("a", "b"),), {"x-toy": "1"}, b"{}")

    written = ENCODER.encode(request)

    head = "PATCH /x?a=b HTTP/1.1\r\nhost: api.example.com\r\nx-toy: 1\r\ncontent-length: 2"
    assert written == f"{head}\r\n\r\n{{}}".encode()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_without_a_body_has_length_zero(method: str) -> None:
    assert b"\r\ncontent-length: 0\r\n" in ENCODER.encode(HttpRequest(method, "/x"))


def test_only_reads_accept_compression() -> None:
    assert b"accept-encoding: gzip\r\n" in ENCODER.encode(HttpRequest("GET", "/x"))
    assert b"accept-encoding" not in ENCODER.encode(HttpRequest("PATCH", "/x"))


@pytest.mark.parametrize("value", ["a\r\nx-more: 1", "a\nb", "a\rb", "a\0b"])
def test_a_header_cannot_add_another(value: str) -> None:
    for headers in ({"authorization": value}, {value: "1"}):
        with pytest.raises(ValueError, match="line break") as caught:
            ENCODER.encode(HttpRequest("GET", "/x", (), headers))
    with pytest.raises(ValueError, match="'authorization'") as caught:
        ENCODER.encode(HttpRequest("GET", "/x", (), {"authorization": f"secret {value}"}))
    assert "secret" not in str(caught.value)


@settings(deadline=None)
@given(path=texts, query=st.lists(st.tuples(texts, texts), max_size=3).map(tuple))
def test_any_path_and_query_stay_within_the_first_line(
    path: str, query: tuple[tuple[str, str], ...]
) -> None:
    head = ENCODER.encode(HttpRequest("GET", "/" + path, query)).removesuffix(b"\r\n\r\n")

    first, *rest = head.split(b"\r\n")
    assert len(first.split(b" ")) == 3
    assert first.isascii()
    assert not set(first) & set(range(32))
    assert [line.split(b":")[0] for line in rest] == [b"host", b"accept-encoding"]
