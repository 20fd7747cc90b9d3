"""Transports and clients of a connection."""

from __future__ import annotations

from typing import Any

from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.kubeconfig import Connection, bind_credential, tls_for
from datum_compute.client.retry import RetryPolicy
from datum_compute.client.retry_transport import RetryingTransport
from datum_compute.client.transport import Transport


def transport_for(connection: Connection) -> HttpTransport:
    """The transport of a connection. Tokens are the client's, not the transport's."""
    tls = tls_for(connection)
    transport = HttpTransport(
        connection.origin,
        tls=tls,
        server_hostname=connection.server_hostname,
        proxy=connection.proxy,
    )
    bind_credential(connection, tls, transport.reconnect)
    return transport


def client_for(
    connection: Connection,
    *,
    cluster: str = "",
    retries: RetryPolicy | None = None,
    **options: Any,
) -> ApiClient:
    """A client that owns its transport and closes it. ``retries`` is for the command line:
    controllers have their own backoff. ``options`` are those of
    :class:`~datum_compute.client.client.ApiClient`."""
    transport: Transport = transport_for(connection)
    if retries is not None:
        transport = RetryingTransport(transport, retries)
    return ApiClient(
        transport,
        cluster=cluster or connection.name,
        prefix=connection.prefix,
        token=connection.token,
        **options,
    )
