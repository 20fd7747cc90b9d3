"""TLS contexts: whom a client trusts, and its certificate."""

from __future__ import annotations

import ssl


def client_context(
    ca_pem: bytes = b"",
    *,
    insecure: bool = False,
    certificate_pem: bytes = b"",
    key_pem: bytes = b"",
) -> ssl.SSLContext:
    """A context that trusts ``ca_pem``, or the system's authorities when it is empty.

    ``insecure`` trusts every server, as a kubeconfig may require for a development cluster.
    Raises :class:`ssl.SSLError` or :class:`ValueError` for invalid PEM.
    """
    context = ssl.create_default_context(cadata=ca_pem.decode("ascii") if ca_pem else None)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate_pem:
        load_identity(context, certificate_pem, key_pem)
    return context


def certificate_fault(error: ValueError | OSError) -> str:
    """What is wrong with PEM that :func:`client_context` has refused. OpenSSL names few faults."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    if isinstance(error, ssl.SSLError | ValueError):
        return "expected certificates in PEM"
    return str(error.strerror)


def load_identity(context: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes) -> None:
    """Use this client certificate for connections opened from now on."""
    import tempfile

    # The ssl module reads a key only from a file; this one is private and removed at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate_pem + b"\n" + key_pem)
        file.flush()
        context.load_cert_chain(file.name)
