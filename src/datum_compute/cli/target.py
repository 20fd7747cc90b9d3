"""The target of a command: from flags, else the plugin environment, else a local platform."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, NamedTuple

from datum_compute.api.planes import CELL, HUB, PROJECT, plane_type, split_plane, split_project_path
from datum_compute.assembly.local import state_reader
from datum_compute.cli import names
from datum_compute.cli.errors import CommandError, usage
from datum_compute.cli.explain.suggestions import AddFlag, Remark, command
from datum_compute.cli.quick import connect
from datum_compute.client import kubeconfig
from datum_compute.client.auth.credentials import TokenSource
from datum_compute.client.http import server_url
from datum_compute.client.kubeconfig import Connection
from datum_compute.client.retry import RetryPolicy, build_retry_policy
from datum_compute.env import Environment

if TYPE_CHECKING:
    from datum_compute.assembly.local.state import StateDirectory
    from datum_compute.cli.quick.reader import Reader
    from datum_compute.client.client import ApiClient

USER_AGENT = "datumctl-compute"


class ProjectTarget(NamedTuple):
    """A project's control plane and the credential to talk to it with."""

    project: str
    connection: Connection
    retries: RetryPolicy | None = None
    """A command has no other backoff; reader and client share the budget."""

    def reader(self) -> Reader:
        """For plain reads: synchronous, and quick to import."""
        try:
            return connect.reader_for(self.connection, cluster=self.project, retries=self.retries)
        except kubeconfig.KubeconfigError as error:
            raise _unusable_certificates(error) from error

    def root(self) -> Reader | None:
        """For the root plane, which has the projects; None if it cannot be reached from here."""
        root = self.root_connection()
        return None if root is None else self._replace(connection=root).reader()

    def root_connection(self) -> Connection | None:
        base, project = split_project_path(self.connection.prefix)
        return self.connection._replace(prefix=base) if project else None

    def client(self) -> ApiClient:
        """For commands that write or wait; the caller awaits its ``close``.

        Strict: unknown fields are refused, never dropped."""
        from datum_compute.client.connect import client_for

        try:
            return client_for(
                self.connection,
                cluster=self.project,
                retries=self.retries,
                user_agent=USER_AGENT,
                field_manager=USER_AGENT,
                field_validation="Strict",
            )
        except kubeconfig.KubeconfigError as error:
            raise _unusable_certificates(error) from error


def _unusable_certificates(error: kubeconfig.KubeconfigError) -> CommandError:
    return usage(str(error), AddFlag("--certificate-authority", "FILE"))


def find_target(env: Environment, args: Namespace) -> ProjectTarget:
    if args.project is not None and not names.is_project(args.project):
        raise usage(f'--project "{args.project}": expected lower-case letters, digits and -')
    if args.token and not args.token.isprintable():
        raise usage("--token: contains characters that cannot be part of a token")
    if args.kubeconfig:
        found = _from_kubeconfig(env, args)
    elif args.server:
        found = _through_proxy(env, _from_flags(args))
    elif env.variable("DATUM_API_HOST"):
        found = _through_proxy(env, _from_plugin(env, args))
    else:
        found = _from_local_platform(env, args)
    return found._replace(retries=build_retry_policy(env))


def _through_proxy(env: Environment, target: ProjectTarget) -> ProjectTarget:
    connection = target.connection
    try:
        proxy = kubeconfig.proxy_for(connection.origin, env)
    except kubeconfig.KubeconfigError as error:
        raise usage(str(error)) from error
    return target._replace(connection=connection._replace(proxy=proxy))


def _target(project: str, origin: str, token: TokenSource, ca_pem: bytes) -> ProjectTarget:
    connection = Connection(
        name=project,
        origin=origin,
        prefix=PROJECT.path.format(project),
        ca_pem=ca_pem,
        token=token,
    )
    return ProjectTarget(project, connection)


def _from_kubeconfig(env: Environment, args: Namespace) -> ProjectTarget:
    try:
        # The file is the user's own, so a credential program that it names may run.
        connection = connect.load_kubeconfig(args.kubeconfig, args.context or "", env)
    except kubeconfig.KubeconfigError as error:
        raise usage(f"--kubeconfig: {error}") from error
    return _in_project(connection, args.project or "")


def _in_project(connection: Connection, project: str) -> ProjectTarget:
    """The plane of ``project`` on the same platform. Without a project, the plane that the path
    of the server leads to: a project's, or a cluster without projects."""
    base, current = split_project_path(connection.prefix)
    if not project:
        return ProjectTarget(current or connection.name, connection)
    plane, within = split_plane(base)
    if plane_type(plane) in (HUB, CELL) or within.endswith("/control-plane"):
        raise usage(f'--project "{project}": {connection.origin}{base} has no projects')
    prefix = base + PROJECT.path.format(project)
    return ProjectTarget(project, connection._replace(prefix=prefix))


def _from_flags(args: Namespace) -> ProjectTarget:
    origin, path = _address("--server", args.server)
    named = {"project": args.project or split_project_path(path)[1], "token": args.token}
    for flag, value in named.items():
        if not value:
            raise usage(f"--server needs --{flag}", AddFlag(f"--{flag}", flag.upper()))
    ca_pem = b""
    if args.certificate_authority:
        try:
            with open(args.certificate_authority, "rb") as file:
                ca_pem = file.read()
        except OSError as error:
            where = args.certificate_authority
            raise usage(f"--certificate-authority {where}: {error.strerror}") from error
    connection = Connection(
        name=origin, origin=origin, prefix=path, ca_pem=ca_pem, token=args.token
    )
    return _in_project(connection, args.project or "")


def _address(given_as: str, server: str) -> tuple[str, str]:
    """Scheme, host and port of a server, and its path. Raises for anything more, which would be
    ignored."""
    try:
        found = server_url.parse(server if "://" in server else f"https://{server}")
        usable = found.is_server
    except ValueError:  # the port is no number
        usable = False
    if not usable:
        raise usage(
            f'{given_as} "{server}": expected HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH]'
        )
    return found.origin, found.path.rstrip("/")


def _origin(given_as: str, server: str) -> str:
    """Scheme, host and port of a server that is given without a path."""
    origin, path = _address(given_as, server)
    if path:
        raise usage(f'{given_as} "{server}": expected HOST[:PORT] or https://HOST[:PORT]')
    return origin


def _from_plugin(env: Environment, args: Namespace) -> ProjectTarget:
    project = args.project or env.variable("DATUM_PROJECT") or ""
    if not project:
        raise usage(
            "no project is selected",
            AddFlag("--project", "NAME"),
            Remark("select a project with datumctl"),
        )
    from datum_compute.cli.credential_helper import (
        HelperCredential,  # a local platform needs no helper
    )

    origin = _origin("DATUM_API_HOST", env.variable("DATUM_API_HOST") or "")
    token = args.token or HelperCredential(env)
    return _target(project, origin, token, b"")


def local_state(env: Environment, args: Namespace) -> StateDirectory:
    from pathlib import Path

    from datum_compute.assembly.local.state import StateDirectory

    return StateDirectory(Path(_local_directory(env, args)))


def _local_directory(env: Environment, args: Namespace) -> str:
    if args.data_dir == "":
        raise usage("--data-dir: expected a directory")
    return str(args.data_dir or state_reader.default_directory(env))


def _from_local_platform(env: Environment, args: Namespace) -> ProjectTarget:
    there = state_reader.StateReader(_local_directory(env, args))
    try:
        running, token = there.running(), there.token()
        ca_pem = there.ca_pem() if running else b""
    except state_reader.StateUnusable as error:
        raise usage(str(error), AddFlag("--data-dir", "DIR")) from error
    if running is None or token is None:
        raise CommandError(
            "no local platform is running and no server was given",
            command("local", "up", "--detach"),
            Remark("run this command through datumctl"),
            code="NoTarget",
        )
    return _target(args.project or running.project, running.address, token, ca_pem)
