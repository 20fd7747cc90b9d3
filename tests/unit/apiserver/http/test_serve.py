"""The server on a real port, over TLS."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509

from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.apiserver.http.listener import serve
from datum_compute.env import SystemEnvironment
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import ServerAddress
from tests.support.apiserver.connections import Connection, connected
from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, widget, widget_server

pytestmark = pytest.mark.realtime


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Caller, ServerAddress]]:
    async with (
        widget_server(SystemEnvironment()) as caller,
        caller.embedded.serve_https() as address,
    ):
        yield caller, address


async def test_objects_are_written_and_read_over_tls() -> None:
    async with served() as (caller, address), connected(address) as connection:
        connection.send("POST", WIDGETS_PATH, json.dumps(widget("one", {"size": 5})).encode())
        code, made = await connection.response()
        connection.send("GET", f"{WIDGETS_PATH}/one")
        _, found = await connection.response()

        assert code == 201
        assert found == made
        assert (await caller.get("one"))["spec"]["size"] == 5


async def test_the_response_head_of_a_watch_is_sent_before_its_first_event() -> None:
    async with served() as (caller, address), connected(address) as connection:
        connection.send("GET", f"{WIDGETS_PATH}?watch=true&labelSelector=a%3Db")
        code, head = await connection.head()
        await caller.create("two")
        await caller.create("one", labels={"a": "b"})

        event = json.loads(await connection.chunk())

        assert code == 200
        assert "transfer-encoding: chunked" in head
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "one")


async def test_a_client_that_disconnects_frees_its_watch() -> None:
    async with served() as (caller, address):
        table = caller.embedded.store.planes["cell/dfw"].table("widgets.example.com")
        async with connected(address) as connection:
            connection.send("GET", f"{WIDGETS_PATH}?watch=true")
            await connection.head()
            opened = len(table.sinks)

        async with asyncio.timeout(10):
            while table.sinks:  # noqa: ASYNC110 - the server notices with the socket
                await asyncio.sleep(0.01)
        assert opened == 1


async def test_a_body_beyond_the_limit_is_refused_while_it_arrives() -> None:
    async with served() as (_, address), connected(address) as connection:
        connection.send("POST", WIDGETS_PATH, b" " * (3 * 2**20 + 1))

        code, _ = await connection.response()

        assert code == 413


async def test_shutting_down_ends_open_watches_cleanly() -> None:
    async with widget_server(SystemEnvironment()) as caller:
        async with caller.embedded.serve_https() as address:
            connection = await _open(address)
            connection.send("GET", f"{WIDGETS_PATH}?watch=true")
            await connection.head()

        assert await connection.reader.readline() == b"0\r\n"
        connection.writer.close()


async def _open(address: ServerAddress) -> Connection:
    context = ssl.create_default_context(cadata=address.ca_pem.decode())
    url = urlsplit(address.base_url)
    return Connection(address, await asyncio.open_connection(url.hostname, url.port, ssl=context))


async def test_a_port_in_use_is_skipped(tmp_path: Path) -> None:
    env = SystemEnvironment()
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = taken.getsockname()[1]
    try:
        async with (
            widget_server(env) as caller,
            serve(caller.embedded.server, env, directory=tmp_path, ports=[port, 0]) as found,
        ):
            assert found not in (0, port)
    finally:
        taken.close()


def test_certificates_are_kept_private_and_used_again(tmp_path: Path) -> None:
    env = SimulatedEnvironment()

    first = ensure_certificates(tmp_path, env)
    kept = first.certificate.read_bytes()
    again = ensure_certificates(tmp_path, env)

    assert again.ca_pem == first.ca_pem
    assert again.certificate.read_bytes() == kept
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_certificate_near_expiry_is_renewed_under_the_same_authority(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    first = ensure_certificates(tmp_path, SimulatedEnvironment(start=start))
    kept = first.certificate.read_bytes()

    later = SimulatedEnvironment(start=start + timedelta(days=340))
    renewed = ensure_certificates(tmp_path, later)

    assert renewed.ca_pem == first.ca_pem
    certificate = x509.load_pem_x509_certificate(renewed.certificate.read_bytes())
    assert renewed.certificate.read_bytes() != kept
    assert certificate.not_valid_after_utc > later.now() + timedelta(days=300)


@pytest.mark.parametrize("damage", [b"", b"cut off"])
@pytest.mark.parametrize("name", ["server.crt", "server.key", "ca.crt", "ca.key"])
def test_what_cannot_be_read_of_the_certificates_is_made_anew(
    tmp_path: Path, name: str, damage: bytes
) -> None:
    first = ensure_certificates(tmp_path, SimulatedEnvironment())
    (tmp_path / name).write_bytes(damage)

    again = ensure_certificates(tmp_path, SimulatedEnvironment())

    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(again.certificate, again.key)
    certificate = x509.load_pem_x509_certificate(again.certificate.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(again.ca_pem))
    assert (again.ca_pem == first.ca_pem) is name.startswith("server")


def test_a_certificate_with_the_key_of_another_is_made_anew(tmp_path: Path) -> None:
    """The key is written first, and the process may end before the certificate is."""
    (tmp_path / "other").mkdir()
    ensure_certificates(tmp_path / "other", SimulatedEnvironment())
    made = ensure_certificates(tmp_path, SimulatedEnvironment())
    made.key.write_bytes((tmp_path / "other" / "server.key").read_bytes())

    again = ensure_certificates(tmp_path, SimulatedEnvironment())

    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(again.certificate, again.key)


async def test_an_upgrade_request_is_served_without_the_upgrade_and_closes_the_connection() -> None:
    async with served() as (_, address), connected(address) as connection:
        connection.send("GET", WIDGETS_PATH, b"", "Connection: upgrade", "Upgrade: websocket")

        code, head = await connection.head()
        rest = await connection.reader.read()

    assert code == 200
    assert "connection: close" in head
    assert b"WidgetList" in rest
