"""Applications on ports: they respond, log their address, and present a renewed certificate."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.assembly.manager import http_server
from datum_compute.assembly.manager.http_server import ServingError, TlsFiles
from datum_compute.env import SystemEnvironment
from tests.support.assembly.servers import RELOAD_SECONDS, served

pytestmark = pytest.mark.realtime


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def issue(directory: Path) -> TlsFiles:
    directory.mkdir()
    made = ensure_certificates(directory, SystemEnvironment())
    return TlsFiles(made.certificate, made.key)


def install(source: TlsFiles, target: TlsFiles) -> None:
    shutil.copy(source.certificate, target.certificate)
    shutil.copy(source.key, target.key)


def serial_of(files: TlsFiles) -> int:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).serial_number


def unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def shown_serial(port: int) -> int:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=unverified())
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(certificate).serial_number


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, close: bool = True
) -> bytes:
    connection = b"close" if close else b"keep-alive"
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: " + connection + b"\r\n\r\n")
    answer = b""
    while b"hello" not in answer:
        part = await reader.read(4096)
        assert part, answer
        answer += part
    return answer


async def test_an_application_is_served_on_a_free_port_until_cancelled() -> None:
    async with served(hello, None) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = await ask(reader, writer)
        writer.close()

    assert answer.startswith(b"HTTP/1.1 200 OK")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_renewed_certificate_is_presented_to_new_connections(tmp_path: Path) -> None:
    first, second = issue(tmp_path / "first"), issue(tmp_path / "second")
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    install(first, files)
    async with served(hello, files) as port:
        assert await shown_serial(port) == serial_of(first)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=unverified())
        await ask(reader, writer, close=False)

        install(second, files)
        async with asyncio.timeout(10):
            while await shown_serial(port) != serial_of(second):
                pass

        await ask(reader, writer)  # what was open goes on
        writer.close()


async def test_a_certificate_without_its_key_changes_nothing(tmp_path: Path) -> None:
    first, second = issue(tmp_path / "first"), issue(tmp_path / "second")
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    install(first, files)
    async with served(hello, files) as port:
        shutil.copy(second.certificate, files.certificate)  # the key is still the old one
        for _ in range(5):
            await asyncio.sleep(RELOAD_SECONDS)
            assert await shown_serial(port) == serial_of(first)

        files.certificate.unlink()
        await asyncio.sleep(3 * RELOAD_SECONDS)
        assert await shown_serial(port) == serial_of(first)


async def test_a_client_without_the_required_certificate_is_refused(tmp_path: Path) -> None:
    own = issue(tmp_path / "own")
    files = TlsFiles(own.certificate, own.key, client_ca=tmp_path / "own" / "ca.crt")

    async with served(hello, files) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=unverified())
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            answer = await reader.read()
        except (ssl.SSLError, ConnectionError):
            answer = b""
        writer.close()

    assert answer == b""


async def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ServingError) as refusal:
            await http_server.serve(hello, host="127.0.0.1", port=port, tls=None, name="metrics")

    assert str(refusal.value) == (
        f"metrics: cannot listen on 127.0.0.1:{port}: another process uses it"
    )


async def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")

    with pytest.raises(ServingError, match=r"webhooks: cannot use the certificate of .*tls\.crt"):
        await http_server.serve(hello, host="127.0.0.1", port=0, tls=files, name="webhooks")


def encrypt(key: Path) -> None:
    """Protect a private key with a passphrase."""
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )


async def test_a_key_with_a_passphrase_is_refused_without_a_prompt(tmp_path: Path) -> None:
    own = issue(tmp_path / "own")
    encrypt(own.key)

    with pytest.raises(ServingError, match="is protected by a passphrase: use one without"):
        await http_server.serve(hello, host="127.0.0.1", port=0, tls=own, name="webhooks")


async def test_a_renewed_authority_of_clients_is_trusted_without_a_restart(tmp_path: Path) -> None:
    own, caller = issue(tmp_path / "own"), vouch_for_itself(tmp_path)
    trusted = tmp_path / "client-ca.crt"
    shutil.copy(own.certificate.parent / "ca.crt", trusted)
    client = unverified()
    client.load_cert_chain(caller.certificate, caller.key)

    async with served(hello, TlsFiles(own.certificate, own.key, client_ca=trusted)) as port:
        assert not await is_answered(port, client)

        trusted.write_text("half a certi")
        await asyncio.sleep(3 * RELOAD_SECONDS)
        assert not await is_answered(port, client)

        shutil.copy(caller.certificate, trusted)
        async with asyncio.timeout(10):
            while not await is_answered(port, client):
                pass


def vouch_for_itself(directory: Path) -> TlsFiles:
    """A self-signed certificate of a caller."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "caller")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    files = TlsFiles(directory / "caller.crt", directory / "caller.key")
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


async def is_answered(port: int, client: ssl.SSLContext) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    try:
        return b"hello" in await reader.read()
    except (ssl.SSLError, ConnectionError):
        return False
    finally:
        writer.close()
