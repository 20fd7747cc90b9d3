"""Plain readers for the servers that kubeconfigs and flags name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datum_compute.client import kubeconfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datum_compute.cli.quick.reader import Reader
    from datum_compute.client.retry import RetryPolicy
    from datum_compute.env import Environment


def load_kubeconfig(files: Sequence[str], context: str, env: Environment) -> kubeconfig.Connection:
    """``load_merged`` for the user's own command line: exec credentials are allowed,
    and a file in the form that tools write is read without the YAML library."""
    from datum_compute.cli.quick.plain_yaml import parse_plain_yaml

    return kubeconfig.load_merged(files, context, env=env, allow_exec=True, parse=parse_plain_yaml)


def reader_for(
    connection: kubeconfig.Connection, *, cluster: str = "", retries: RetryPolicy | None = None
) -> Reader:
    """A reader with one connection. Raises ``KubeconfigError`` for unusable certificates."""
    from datum_compute.cli.quick.reader import Reader

    tls = kubeconfig.tls_for(connection)
    reader = Reader(
        connection.origin,
        cluster=cluster or connection.name,
        prefix=connection.prefix,
        token=connection.token,
        tls=tls,
        server_hostname=connection.server_hostname,
        proxy=connection.proxy,
        retries=retries,
    )
    kubeconfig.bind_credential(connection, tls, reader.close)
    return reader
