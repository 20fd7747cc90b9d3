"""The certificates of a server: its own authority, and one for its names, by default loopback.

Made once and kept beside the state, readable by the owner only. A server certificate that
is about to expire is replaced; the authority stays, so clients still trust it. What cannot be read
is made anew, like what is missing.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from datum_compute.env import Environment

AUTHORITY_VALIDITY = timedelta(days=3650)
SERVER_VALIDITY = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_BACKDATED = timedelta(hours=1)
"""Validity starts this long ago, for clients whose clocks are behind."""


@dataclass(frozen=True, slots=True)
class Certificates:
    ca_pem: bytes
    certificate: Path
    key: Path


def ensure_certificates(
    directory: Path, env: Environment, hosts: Sequence[str] = LOOPBACK
) -> Certificates:
    """The certificates in ``directory``, created and renewed where needed."""
    now = env.now()
    authority, authority_key = _authority(directory, now)
    certificate = directory / "server.crt"
    key = directory / "server.key"
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    if not _is_good(certificate, key, authority, names, now):
        _make_server(certificate, key, authority, authority_key, names, now)
    pem = authority.public_bytes(serialization.Encoding.PEM)
    return Certificates(pem, certificate, key)


def _authority(
    directory: Path, now: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate_path, key_path = directory / "ca.crt", directory / "ca.key"
    found = _load(certificate_path, key_path)
    if found is not None and found[0].not_valid_after_utc > now:
        return found
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "datum-compute local authority")])
    certificate = (
        _builder(name, name, key.public_key(), now, AUTHORITY_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    write_private(key_path, _key_pem(key))
    write_private(certificate_path, certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _load(
    certificate_path: Path, key_path: Path
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None:
    """None where one of them is missing or damaged, or they do not belong together."""
    if not certificate_path.exists() or not key_path.exists():
        return None
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    except (ValueError, TypeError):  # TypeError where it has a password
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    return (certificate, key) if certificate.public_key() == key.public_key() else None


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _is_good(
    path: Path,
    key: Path,
    authority: x509.Certificate,
    names: x509.SubjectAlternativeName,
    now: datetime,
) -> bool:
    pair = _load(path, key)
    if pair is None or pair[0].issuer != authority.subject:
        return False
    certificate = pair[0]
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    if found.value != names:
        return False
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False  # issued by an earlier authority of the same name
    return certificate.not_valid_after_utc - RENEW_BEFORE > now


def _make_server(
    path: Path,
    key_path: Path,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    names: x509.SubjectAlternativeName,
    now: datetime,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "datum-compute apiserver")])
    certificate = (
        _builder(name, authority.subject, key.public_key(), now, SERVER_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    write_private(key_path, _key_pem(key))
    write_private(path, certificate.public_bytes(serialization.Encoding.PEM))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    validity: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + validity)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def write_private(path: Path, content: bytes) -> None:
    """Atomically, and at no moment readable by other users."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
