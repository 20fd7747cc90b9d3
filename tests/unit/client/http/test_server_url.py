"""A server's URL: the usual form by hand, and everything as the standard library sees it."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.client.http.server_url import parse

URLS = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "HTTPS", "ftp", ""]),
    st.sampled_from(["a", "api.example.com", "10.0.0.1", "[::1]", "A.b", "u:p@h", "", "é.example"]),
    st.sampled_from(["", ":", ":1", ":443", ":65535", ":0443"]),
    st.sampled_from(["", "/", "/a/B.c-_~", "/a%20b", "/a?b=c", "?x", "#y", "/a b", "//x", "/../a"]),
)


@given(URLS)
def test_a_server_url_parses_as_in_urllib(url: str) -> None:
    parts, found = urlsplit(url), parse(url)
    default = {"http": 80, "https": 443}.get(parts.scheme, 0)

    assert (found.scheme, found.authority) == (parts.scheme, parts.netloc)
    assert (found.host, found.path) == (parts.hostname or "", parts.path)
    assert found.port == (default if parts.port is None else parts.port)
    assert found.user == (parts.username or "")
    assert found.rest == parts.query + parts.fragment


@pytest.mark.parametrize("url", ["https://h:x", "https://h:-1", "https://h:65536", "http://h:0"])
def test_an_invalid_port_is_an_error(url: str) -> None:
    with pytest.raises(ValueError, match=r"[Pp]ort"):
        parse(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h", True),
        ("http://h:1/a/b", True),
        ("https://[::1]:7443", True),
        ("https://", False),
        ("ftp://h", False),
        ("h", False),
        ("https://u@h", False),
        ("https://:p@h", False),
        ("https://@h", False),
        ("https://h?a", False),
        ("https://h#a", False),
    ],
)
def test_a_server_is_a_host_and_a_path(url: str, expected: bool) -> None:
    assert parse(url).is_server is expected
