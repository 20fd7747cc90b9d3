"""The HTTP transport through a proxy."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.client import errors
from datum_compute.client.http.transport import HttpTransport
from tests.support.client.http_transport import (
    GET,
    LONG,
    Recorder,
    reach,
    tls_server,
    transport_to,
)
from tests.support.client.socket_server import (
    ServedConnection,
    serve_script,
)

pytestmark = pytest.mark.realtime


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async with transport_to(Recorder()) as transport:
        assert (await transport.send(GET, timeout=LONG)).body == b"ok"


async def test_a_given_proxy_is_used() -> None:
    recorder = Recorder()

    async with serve_script(recorder) as port:
        proxy = f"http://127.0.0.1:{port}"
        assert await reach(HttpTransport("http://api.example.com", proxy=proxy)) == b"ok"

    assert recorder.heads[0].target == "http://api.example.com/x"


async def test_tls_goes_through_a_proxy_and_its_connection_is_used_again() -> None:
    targets: list[str] = []
    authorizations: list[str] = []

    async def proxy(connection: ServedConnection) -> None:
        head = await connection.request()
        assert head is not None
        targets.append(f"{head.method} {head.target}")
        authorizations.append(head.headers["proxy-authorization"])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        ways = (piped(connection.reader, writer), piped(reader, connection.writer))
        await asyncio.gather(*ways)

    async with tls_server("127.0.0.1") as (port, pem), serve_script(proxy) as proxy_port:
        transport = HttpTransport(
            f"https://127.0.0.1:{port}", ca_pem=pem, proxy=f"http://me:pw@127.0.0.1:{proxy_port}"
        )
        try:
            for _ in range(3):
                assert (await transport.send(GET, timeout=LONG)).body == b"ok"
        finally:
            await transport.close()

    assert targets == [f"CONNECT 127.0.0.1:{port}"]
    assert authorizations == ["Basic bWU6cHc="]


async def piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
    writer.close()


@pytest.mark.parametrize("status", ["403 Forbidden", "502 Bad Gateway"])
async def test_a_proxy_that_does_not_connect_is_a_failed_connect(status: str) -> None:
    recorder = Recorder(b"no", status)

    async with serve_script(recorder) as port:
        proxy = f"http://127.0.0.1:{port}"
        with pytest.raises(errors.ConnectFailed):
            await reach(HttpTransport("https://api.example.com", proxy=proxy))

    assert recorder.heads[0].method == "CONNECT"
