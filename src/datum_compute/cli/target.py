"""The target of a command: from flags, else from the environment, the current context, or a
local platform.

What a flag chooses comes before variables, and variables before files. ``--project`` selects a
project on whatever server was chosen, and ``--token`` replaces its credential. The token of a
variable is used where the server brings no credential of its own, so that it is not sent to
another's, and in place of local-admin's.
"""

from __future__ import annotations

import os
from argparse import Namespace
from typing import TYPE_CHECKING, NamedTuple

from datum_compute.api.planes import PROJECT, ROOT, plane_type, split_plane, split_project_path
from datum_compute.assembly.local import state_reader
from datum_compute.cli import names
from datum_compute.cli.errors import CommandError, usage
from datum_compute.cli.explain.suggestions import AddFlag, Remark, command
from datum_compute.cli.quick import connect
from datum_compute.cli.targets import stored_contexts
from datum_compute.cli.targets.stored_contexts import StoredContext
from datum_compute.client import kubeconfig
from datum_compute.client.auth.credentials import TokenFile, TokenSource, is_token
from datum_compute.client.errors import CredentialFailed
from datum_compute.client.http import server_url
from datum_compute.client.kubeconfig import Connection
from datum_compute.client.retry import RetryPolicy, build_retry_policy
from datum_compute.env import Environment

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    source: str = ""
    """What selected the server, for people."""
    credential: str = ""
    """Where the token comes from, for people."""
    local_directory: str = ""
    """The state directory, where the server is a local platform on this machine."""

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

    def root_client(self) -> ApiClient | None:
        """:meth:`client` for the root plane; None if it cannot be reached from here."""
        root = self.root_connection()
        return None if root is None else self._replace(connection=root).client()

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
    """The first of: ``--kubeconfig``, ``--server``, ``--context`` or ``--data-dir``; datumctl's
    environment; the current context; ``KUBECONFIG``; a running local platform."""
    _check_flags(args)
    found = _chosen_by_flags(env, args) or _chosen_by_environment(env, args)
    if args.certificate_authority:
        ca_pem = _certificate_authority(args.certificate_authority)
        found = found._replace(connection=found.connection._replace(ca_pem=ca_pem))
    return found._replace(retries=build_retry_policy(env))


def _check_flags(args: Namespace) -> None:
    if args.project is not None and not names.is_project(args.project):
        raise usage(f'--project "{args.project}": expected lower-case letters, digits and -')
    for chosen in (("kubeconfig", "server", "data_dir"), ("token", "token_file")):
        given = [each for each in chosen if getattr(args, each) is not None]
        if len(given) > 1:
            flags = " and ".join(f"--{each.replace('_', '-')}" for each in given)
            raise usage(f"{flags} cannot be combined")
    if args.context and (args.server or args.data_dir):
        other = "--server" if args.server else "--data-dir"
        raise usage(f"--context cannot be combined with {other}")


def _chosen_by_flags(env: Environment, args: Namespace) -> ProjectTarget | None:
    if args.kubeconfig:
        return _from_kubeconfig(env, args, (args.kubeconfig,), args.project or "")
    if args.server:
        return _through_proxy(env, _from_server(env, args))
    if args.data_dir is not None:
        return _from_local_platform(env, args)
    if args.context:
        return _from_context(env, args)
    return None


def _chosen_by_environment(env: Environment, args: Namespace) -> ProjectTarget:
    project = args.project or _project_of_environment(env)
    if env.variable("DATUM_API_HOST"):
        return _through_proxy(env, _from_plugin(env, args, project))
    current = stored_contexts.current(env)
    if current is not None:
        return _from_stored(env, args, current, project)
    files = stored_contexts.kubeconfig_files(env)
    if files:
        return _from_kubeconfig(env, args, files, project)
    return _from_local_platform(env, args)


def _project_of_environment(env: Environment) -> str:
    project = env.variable("DATUM_PROJECT") or ""
    if project and not names.is_project(project):
        raise usage(f'DATUM_PROJECT "{project}": expected lower-case letters, digits and -')
    return project


class GivenToken(NamedTuple):
    token: TokenSource
    source: str
    """Where it comes from, for people."""


def _token_of_flags(args: Namespace) -> GivenToken | None:
    if args.token is not None:
        return GivenToken(_usable_token("--token", args.token), "--token")
    if args.token_file is not None:
        source = f"--token-file {args.token_file}"
        return GivenToken(_token_file("--token-file", args.token_file), source)
    return None


def _token_of_environment(env: Environment) -> GivenToken | None:
    if token := env.variable("DATUM_TOKEN"):
        return GivenToken(_usable_token("DATUM_TOKEN", token.strip()), "DATUM_TOKEN")
    if file := env.variable("DATUM_TOKEN_FILE"):
        return GivenToken(_token_file("DATUM_TOKEN_FILE", file), f"DATUM_TOKEN_FILE {file}")
    return None


def _usable_token(given_as: str, token: str) -> str:
    if not token:
        raise usage(f"{given_as}: expected a token")
    if not is_token(token):
        raise usage(f"{given_as}: contains characters that cannot be part of a token")
    return token


def _token_file(given_as: str, path: str) -> TokenFile:
    token = TokenFile(path)
    try:
        token()  # fail here, where the flag or the variable can be named
    except CredentialFailed as failure:
        raise usage(f"{given_as}: {failure.detail}") from failure
    return token


def _through_proxy(env: Environment, target: ProjectTarget) -> ProjectTarget:
    connection = target.connection
    try:
        proxy = kubeconfig.proxy_for(connection.origin, env)
    except kubeconfig.KubeconfigError as error:
        raise usage(str(error)) from error
    return target._replace(connection=connection._replace(proxy=proxy))


def _from_kubeconfig(
    env: Environment, args: Namespace, files: Sequence[str], project: str
) -> ProjectTarget:
    given_as = "--kubeconfig" if args.kubeconfig else "KUBECONFIG"
    try:
        # The file is the user's own, so a credential program that it names may run.
        connection = connect.load_kubeconfig(files, args.context or "", env)
    except kubeconfig.KubeconfigError as error:
        raise usage(f"{given_as}: {error}") from error
    if not split_project_path(connection.prefix)[1]:
        project = project or _project_of_environment(env)
    source = f"{given_as} {os.pathsep.join(files)}, context {connection.name}"
    credential = f"the user of context {connection.name}"
    token = _token_of_flags(args)
    if token is None and not connection.token and not connection.certificate_pem:
        token = _token_of_environment(env)
        credential = token.source if token else "none"
    if token is not None:
        # As with kubectl, a token that is given replaces the whole user of the file.
        credential = token.source
        connection = connection._replace(token=token.token, certificate_pem=b"", key_pem=b"")
    return _in_project(connection, project)._replace(source=source, credential=credential)


def _in_project(connection: Connection, project: str) -> ProjectTarget:
    """The plane of ``project`` on the same platform. Without a project, the plane that the path
    of the server leads to: a project's, or a cluster without projects."""
    base, current = split_project_path(connection.prefix)
    if not project:
        return ProjectTarget(current or connection.name, connection)
    plane, within = split_plane(base)
    if plane_type(plane) not in (ROOT, PROJECT) or within.endswith("/control-plane"):
        raise usage(f'project "{project}": {connection.origin}{base} has no projects')
    prefix = base + PROJECT.path.format(project)
    return ProjectTarget(project, connection._replace(prefix=prefix))


def _from_server(env: Environment, args: Namespace) -> ProjectTarget:
    origin, path = _address("--server", args.server)
    project = args.project or split_project_path(path)[1] or _project_of_environment(env)
    if not project:
        raise usage("--server needs --project", AddFlag("--project", "PROJECT"))
    token = _token_of_flags(args) or _token_of_environment(env)
    if token is None:
        raise usage(
            "--server needs a token",
            AddFlag("--token-file", "FILE"),
            Remark("set DATUM_TOKEN"),
        )
    connection = Connection(name=origin, origin=origin, prefix=path, token=token.token)
    found = _in_project(connection, project)
    return found._replace(source=f"--server {args.server}", credential=token.source)


def _certificate_authority(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise usage(f"--certificate-authority {path}: {error.strerror}") from error


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


def _from_plugin(env: Environment, args: Namespace, project: str) -> ProjectTarget:
    if not project:
        raise usage(
            "no project is selected",
            AddFlag("--project", "NAME"),
            Remark("select a project with datumctl"),
        )
    host = env.variable("DATUM_API_HOST") or ""
    origin, path = _address("DATUM_API_HOST", host)
    if path:
        raise usage(f'DATUM_API_HOST "{host}": expected HOST[:PORT] or https://HOST[:PORT]')
    token = _token_of_flags(args) or _token_of_environment(env)
    if token is None:
        # A local platform needs no helper.
        from datum_compute.cli.targets.credential_helper import HelperCredential

        token = GivenToken(HelperCredential(env), "DATUM_CREDENTIALS_HELPER")
    connection = Connection(name=project, origin=origin, token=token.token)
    found = _in_project(connection, project)
    return found._replace(source=f"DATUM_API_HOST {host}", credential=token.source)


def _from_context(env: Environment, args: Namespace) -> ProjectTarget:
    """The context that ``--context`` names: one of this program's own, else one of
    ``KUBECONFIG``."""
    stored = stored_contexts.read(env).contexts
    if args.context in stored:
        chosen = stored[args.context]
        return _from_stored(env, args, chosen, args.project or chosen.project)
    files = stored_contexts.kubeconfig_files(env)
    if files:
        return _from_kubeconfig(env, args, files, args.project or "")
    known = ", ".join(sorted(stored)) or "none"
    raise usage(
        f'--context "{args.context}": no context has this name (contexts: {known}), '
        "and neither --kubeconfig nor KUBECONFIG is set",
        command("context", "list"),
    )


def _from_stored(
    env: Environment, args: Namespace, chosen: StoredContext, project: str
) -> ProjectTarget:
    """``project`` comes first, then the context's own."""
    args = Namespace(**{**vars(args), "project": project or chosen.project or None})
    own = chosen.with_flags(args)
    if chosen.kubeconfig:
        found = _from_kubeconfig(env, own, (chosen.kubeconfig,), own.project or "")
    elif chosen.server:
        found = _through_proxy(env, _from_server(env, own))
        if own.certificate_authority:
            ca_pem = _certificate_authority(own.certificate_authority)
            found = found._replace(connection=found.connection._replace(ca_pem=ca_pem))
    else:
        found = _from_local_platform(env, own, f", which context {chosen.name} selects")
    return found._replace(source=f"context {chosen.name}: {found.source}")


def local_state(env: Environment, args: Namespace) -> StateDirectory:
    from pathlib import Path

    from datum_compute.assembly.local.state import StateDirectory

    return StateDirectory(Path(_local_directory(env, args)))


def _local_directory(env: Environment, args: Namespace) -> str:
    if args.data_dir == "":
        raise usage("--data-dir: expected a directory")
    return str(args.data_dir or state_reader.default_directory(env))


def _from_local_platform(env: Environment, args: Namespace, selected_by: str = "") -> ProjectTarget:
    directory = _local_directory(env, args)
    there = state_reader.StateReader(directory)
    try:
        running, admin = there.running(), there.token()
        ca_pem = there.ca_pem() if running else b""
    except state_reader.StateUnusable as error:
        raise usage(str(error), AddFlag("--data-dir", "DIR")) from error
    if running is None or admin is None:
        start = command("local", "up", "--detach")
        if args.data_dir:
            message = f"no local platform is running in {directory}{selected_by}"
            raise CommandError(message, start, code="NoTarget")
        raise CommandError(
            "no local platform is running and no server was given",
            start,
            Remark("run this command through datumctl"),
            code="NoTarget",
        )
    token = (
        _token_of_flags(args)
        or _token_of_environment(env)
        or GivenToken(admin, f"the token of local-admin in {directory}")
    )
    project = args.project or _project_of_environment(env) or running.project
    connection = Connection(name=project, origin=running.address, ca_pem=ca_pem, token=token.token)
    return _in_project(connection, project)._replace(
        source=f"the local platform in {directory}",
        credential=token.source,
        local_directory=directory,
    )
