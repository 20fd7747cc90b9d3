"""Small servers on loopback that follow a script, valid HTTP or not."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Script = Callable[["ServedConnection"], Awaitable[None]]


@dataclass(frozen=True)
class RequestHead:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class ServedConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> RequestHead | None:
        """The next request, or None when the client has closed the connection."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            return None
        first, *rest = head.decode("latin-1").strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in rest)}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return RequestHead(method, target, headers, body)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes, status: str = "200 OK", *headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
        await self.send("\r\n".join(lines).encode() + body)

    async def begin_stream(self) -> None:
        await self.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def client_left(self) -> None:
        """Wait until the client has closed its side."""
        try:
            while await self.reader.read(1024):
                pass
        except (ConnectionError, ssl.SSLError):
            pass


@asynccontextmanager
async def serve_script(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Run ``script`` for every connection; gives the port."""
    tasks: list[asyncio.Task[None]] = []

    async def run(connection: ServedConnection) -> None:
        try:
            await script(connection)
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            connection.writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(run(ServedConnection(reader, writer))))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
        for result in results:
            if isinstance(result, Exception):
                raise result


@dataclass(frozen=True)
class ServerCertificate:
    certificate_pem: bytes
    key_pem: bytes

    def server_context(self, client_ca: bytes = b"") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.certificate_pem + self.key_pem)
            file.flush()
            context.load_cert_chain(file.name)
        if client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=client_ca.decode())
        return context


def self_signed(name: str) -> ServerCertificate:
    """A self-signed certificate, for one host name or address."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    try:
        alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return ServerCertificate(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
