"""The target of a command: from flags, else the plugin environment, else a local platform."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, NamedTuple

from datum_compute.api.planes import PROJECT
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
        prefix = PROJECT.path.format(self.project)
        if not self.connection.prefix.endswith(prefix):
            return None
        above = self.connection._replace(prefix=self.connection.prefix.removesuffix(prefix))
        return self._replace(connection=above).reader()

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
    if args.project and not connection.prefix:
        connection = connection._replace(prefix=PROJECT.path.format(args.project))
    return ProjectTarget(args.project or connection.name, connection)


def _from_flags(args: Namespace) -> ProjectTarget:
    for flag in ("project", "token"):
        if not getattr(args, flag):
            raise usage(f"--server needs --{flag}", AddFlag(f"--{flag}", flag.upper()))
    ca_pem = b""
    if args.certificate_authority:
        try:
            with open(args.certificate_authority, "rb") as file:
                ca_pem = file.read()
        except OSError as error:
            where = args.certificate_authority
            raise usage(f"--certificate-authority {where}: {error.strerror}") from error
    return _target(args.project, _origin("--server", args.server), args.token, ca_pem)


def _origin(given_as: str, server: str) -> str:
    """Scheme, host and port of a server. Raises for anything more, which would be ignored."""
    try:
        found = server_url.parse(server if "://" in server else f"https://{server}")
        usable = found.is_server and not found.path.strip("/")
    except ValueError:  # the port is no number
        usable = False
    if not usable:
        raise usage(f'{given_as} "{server}": expected HOST[:PORT] or https://HOST[:PORT]')
    return found.origin


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

    token = args.token or HelperCredential(env)
    origin = _origin("DATUM_API_HOST", env.variable("DATUM_API_HOST") or "")
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
