"""TLS towards an API server: one context per set of trust and client certificate."""

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

    ``insecure`` trusts everybody, as a kubeconfig may demand for a development cluster.
    Raises :class:`ssl.SSLError` or :class:`ValueError` for PEM that is none.
    """
    context = ssl.create_default_context(cadata=ca_pem.decode("ascii") if ca_pem else None)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate_pem:
        load_identity(context, certificate_pem, key_pem)
    return context


def load_identity(context: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes) -> None:
    """Show this certificate on connections made from now on."""
    import tempfile

    # The ssl module reads a key only from a file; this one is ours alone and goes at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate_pem + b"\n" + key_pem)
        file.flush()
        context.load_cert_chain(file.name)
