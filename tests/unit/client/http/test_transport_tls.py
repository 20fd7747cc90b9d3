"""The HTTP transport trusts the certificates it was given, and no others."""

from __future__ import annotations

import pytest

from datum_compute.client import errors
from datum_compute.client.http.tls import client_context
from datum_compute.client.http.transport import HttpTransport
from tests.support.client.http_transport import (
    reach,
    tls_server,
)
from tests.support.client.socket_server import (
    ServedConnection,
    self_signed,
    serve_script,
)

pytestmark = pytest.mark.realtime


async def test_a_server_with_a_trusted_certificate_is_reached() -> None:
    async with tls_server("127.0.0.1") as (port, pem):
        assert await reach(HttpTransport(f"https://127.0.0.1:{port}", ca_pem=pem)) == b"ok"


async def test_an_untrusted_certificate_is_a_failed_connect() -> None:
    async with tls_server("127.0.0.1") as (port, _):
        other = self_signed("127.0.0.1").certificate_pem
        for transport in (
            HttpTransport(f"https://127.0.0.1:{port}", ca_pem=other),
            HttpTransport(f"https://127.0.0.1:{port}"),
        ):
            with pytest.raises(errors.ConnectFailed, match="certificate verify failed") as caught:
                await reach(transport)
            assert caught.value.fault is errors.Fault.CERTIFICATE_UNTRUSTED


async def test_a_certificate_of_another_name_is_refused_unless_it_is_expected() -> None:
    async with tls_server("api.example.com") as (port, pem):
        url = f"https://127.0.0.1:{port}"
        with pytest.raises(errors.ConnectFailed):
            await reach(HttpTransport(url, ca_pem=pem))
        expecting = HttpTransport(url, ca_pem=pem, server_hostname="api.example.com")
        assert await reach(expecting) == b"ok"


async def test_a_client_certificate_is_presented() -> None:
    me = self_signed("me")
    async with tls_server("127.0.0.1", client_ca=me.certificate_pem) as (port, pem):
        url = f"https://127.0.0.1:{port}"
        mine = client_context(pem, certificate_pem=me.certificate_pem, key_pem=me.key_pem)
        assert await reach(HttpTransport(url, tls=mine)) == b"ok"
        with pytest.raises(errors.TransportFailure):
            await reach(HttpTransport(url, ca_pem=pem))


async def test_verification_can_be_turned_off() -> None:
    async with tls_server("elsewhere.example.com") as (port, _):
        unverified = client_context(insecure=True)
        assert await reach(HttpTransport(f"https://127.0.0.1:{port}", tls=unverified)) == b"ok"


async def test_a_server_without_tls_is_a_failed_connect() -> None:
    async def script(connection: ServedConnection) -> None:
        assert await connection.reader.read(1)
        await connection.answer(b"plain HTTP here", "400 Bad Request")

    async with serve_script(script) as port:
        with pytest.raises(errors.ConnectFailed):
            await reach(HttpTransport(f"https://127.0.0.1:{port}"))


async def test_a_server_that_requires_tls_is_a_failure() -> None:
    async with tls_server("127.0.0.1") as (port, _):
        with pytest.raises(errors.TransportFailure):
            await reach(HttpTransport(f"http://127.0.0.1:{port}"))
