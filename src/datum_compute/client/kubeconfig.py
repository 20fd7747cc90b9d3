"""Server, trust and identity, from a kubeconfig or from inside a pod.

Both give a :class:`Connection`. It holds the content of the files it names, except a token
file, because such tokens are replaced while the process runs.

Unsupported entries are errors, never ignored: a connection with less identity than intended
would fail later in ways hard to understand.
"""

from __future__ import annotations

import binascii
import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from datum_compute.client.auth.credentials import TokenFile, TokenSource
from datum_compute.client.errors import CredentialFailed
from datum_compute.client.http import server_url
from datum_compute.env import Environment

if TYPE_CHECKING:
    import ssl
    from pathlib import Path


SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where Kubernetes mounts a pod's identity."""


class KubeconfigError(Exception):
    """The configuration cannot be used; the message names the file and the entry."""


class Connection(NamedTuple):
    """Everything a transport and a client need."""

    name: str
    """The context's name, for messages."""
    origin: str
    prefix: str = ""
    """The path of the server's URL: on Milo each project has its own."""
    namespace: str = "default"
    ca_pem: bytes = b""
    insecure: bool = False
    server_hostname: str = ""
    proxy: str = ""
    token: TokenSource = ""
    certificate_pem: bytes = b""
    key_pem: bytes = b""

    def tls(self) -> ssl.SSLContext:
        from datum_compute.client.http.tls import certificate_fault, client_context

        try:
            return client_context(
                self.ca_pem,
                insecure=self.insecure,
                certificate_pem=self.certificate_pem,
                key_pem=self.key_pem,
            )
        except (ValueError, OSError) as error:
            fault = certificate_fault(error)
            raise KubeconfigError(f"{self.name}: unusable certificate data: {fault}") from error

    def __repr__(self) -> str:  # keeps credentials out of logs
        return f"<Connection {self.name} {self.origin}{self.prefix}>"


def load(
    path: str | os.PathLike[str],
    context: str = "",
    *,
    env: Environment | None = None,
    allow_exec: bool = False,
) -> Connection:
    """The connection of one context of a file, by default its current one.

    With ``env`` its proxy variables apply where the file names no proxy. With ``allow_exec``
    the file may name a program that prints the credential; it runs with the rights of this
    process, so only the user's own command line may allow it, and it needs ``env``.
    """
    return load_merged([os.fspath(path)], context, env=env, allow_exec=allow_exec)


def load_merged(
    files: Sequence[str],
    context: str = "",
    *,
    env: Environment | None = None,
    allow_exec: bool = False,
    parse: Callable[[str], dict[str, Any] | None] | None = None,
) -> Connection:
    """:func:`load` for several files, merged as kubectl merges those of ``KUBECONFIG``: the first
    that has an entry or a current context wins, files that do not exist are skipped, and paths
    are relative to the file they are in. ``parse`` is tried before the YAML library and returns
    None for what it cannot read.
    """
    present = [file for file in files if os.path.exists(file)] if len(files) > 1 else files
    contents: dict[str, dict[str, Any]] = {}
    for file in present or files[:1]:
        try:
            with open(file, encoding="utf-8") as opened:
                text = opened.read()
        except (OSError, UnicodeDecodeError) as error:
            fault = error.strerror if isinstance(error, OSError) else "not a UTF-8 text file"
            raise KubeconfigError(f"cannot read {file}: {fault}") from error
        if text.strip() or len(present) == 1:
            contents[file] = _parsed(text, file, parse)
    return _Kubeconfig(contents or {files[0]: {}}, env, allow_exec).connection(context)


def in_cluster(env: Environment, directory: str | Path = SERVICE_ACCOUNT) -> Connection:
    """The connection of a pod to its own cluster."""
    host = env.variable("KUBERNETES_SERVICE_HOST")
    port = env.variable("KUBERNETES_SERVICE_PORT") or "443"
    if not host:
        raise KubeconfigError(
            "not in a cluster: KUBERNETES_SERVICE_HOST is not set; name a kubeconfig instead"
        )
    try:
        ca_pem = _content(os.path.join(directory, "ca.crt"))
        namespace = _content(os.path.join(directory, "namespace")).decode().strip()
    except OSError as error:
        where = f"{error.filename}: {error.strerror}"
        raise KubeconfigError(f"cannot read the service account: {where}") from error
    token = _token_file(os.path.join(directory, "token"))
    origin = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Connection(
        name="in-cluster",
        origin=origin,
        namespace=namespace or "default",
        ca_pem=ca_pem,
        proxy=proxy_for(origin, env),
        token=token,
    )


def proxy_for(origin: str, env: Environment) -> str:
    """The proxy of the environment for a server, or an empty string."""
    from datum_compute.client.http.proxy import proxy_from_environment

    try:
        return proxy_from_environment(origin, env.variable)
    except ValueError as error:
        raise KubeconfigError(str(error)) from error


def tls_for(connection: Connection) -> ssl.SSLContext | None:
    """The TLS context of a connection; None for plain HTTP."""
    return connection.tls() if connection.origin.startswith("https:") else None


def bind_credential(
    connection: Connection, tls: ssl.SSLContext | None, reconnect: Callable[[], None]
) -> None:
    """Load the certificates of an exec credential into this TLS context, now and later."""
    bind = getattr(connection.token, "bind", None)
    if bind is not None and tls is not None:
        bind(tls, reconnect)


def render(
    *, server: str, ca_pem: bytes, token: str, name: str, user: str, namespace: str = "default"
) -> str:
    """A kubeconfig with everything embedded, for kubectl and ourselves to load.

    JSON strings are YAML strings, so no name can break the form.
    """
    quoted = json.dumps
    ca = binascii.b2a_base64(ca_pem, newline=False).decode()
    return f"""\
apiVersion: v1
kind: Config
current-context: {quoted(name)}
clusters:
- name: {quoted(name)}
  cluster:
    server: {quoted(server)}
    certificate-authority-data: {quoted(ca)}
users:
- name: {quoted(user)}
  user:
    token: {quoted(token)}
contexts:
- name: {quoted(name)}
  context:
    cluster: {quoted(name)}
    user: {quoted(user)}
    namespace: {quoted(namespace)}
"""


class _Kubeconfig:
    """Parsed files; relative paths start at the directory of the file they are in."""

    def __init__(
        self, contents: dict[str, dict[str, Any]], env: Environment | None, allow_exec: bool
    ) -> None:
        self._contents = contents
        self._env = env
        self._allow_exec = allow_exec

    def connection(self, context: str) -> Connection:
        current = (each.get("current-context") for each in self._contents.values())
        name = context or str(next(filter(None, current), ""))
        if not name:
            raise self._error("no current-context is set; name a context")
        chosen, _ = self._entry("contexts", "context", name)
        cluster, cluster_file = self._entry("clusters", "cluster", str(chosen.get("cluster") or ""))
        user_name = str(chosen.get("user") or "")
        user, user_file = self._entry("users", "user", user_name) if user_name else ({}, "")
        self._refuse_unsupported(user_name, user)
        origin, prefix = self._server(cluster, name)
        ca_pem = self._data(cluster, "certificate-authority", cluster_file)
        return Connection(
            name=name,
            origin=origin,
            prefix=prefix,
            namespace=str(chosen.get("namespace") or "default"),
            ca_pem=ca_pem,
            insecure=bool(cluster.get("insecure-skip-tls-verify")),
            server_hostname=str(cluster.get("tls-server-name") or ""),
            proxy=self._proxy(cluster, origin),
            token=self._token(user, user_file)
            or self._exec(user_name, user, user_file, cluster, ca_pem),
            certificate_pem=self._data(user, "client-certificate", user_file),
            key_pem=self._data(user, "client-key", user_file),
        )

    def _entry(self, section: str, key: str, name: str) -> tuple[dict[str, Any], str]:
        """The entry of this name, and the file it is in."""
        known: list[str] = []
        for file, content in self._contents.items():
            entries = content.get(section) or []
            if not isinstance(entries, list):
                raise KubeconfigError(f"{file}: {section} is not a list")
            for entry in entries:
                if not isinstance(entry, dict):
                    continue
                if entry.get("name") == name:
                    found = entry.get(key) or {}
                    if not isinstance(found, dict):
                        raise KubeconfigError(f"{file}: {key} {name!r} is not a mapping")
                    return found, file
                known.append(repr(entry.get("name")))
        listed = ", ".join(known) or "none"
        raise self._error(f"{key} {name!r} is not defined; {section}: {listed}")

    def _refuse_unsupported(self, name: str, user: dict[str, Any]) -> None:
        if user.get("exec") and not self._allow_exec:
            raise self._error(
                f"user {name!r} uses an exec credential plugin (exec), which is for a person's"
                " own command line and not supported here;"
                " use a token, a tokenFile or a client certificate"
            )
        for key, what in (
            ("auth-provider", "an auth provider"),
            ("username", "a password"),
            ("as", "impersonation"),
        ):
            if user.get(key):
                raise self._error(
                    f"user {name!r} uses {what} ({key}), which is not supported;"
                    " use a token, a tokenFile or a client certificate"
                )

    def _server(self, cluster: dict[str, Any], name: str) -> tuple[str, str]:
        server = str(cluster.get("server") or "")
        try:
            found = server_url.parse(server)
            usable = found.is_server
        except ValueError:
            usable = False
        if not usable:
            raise self._error(f"the cluster of context {name!r} has no usable server: {server!r}")
        return found.origin, found.path.rstrip("/")

    def _proxy(self, cluster: dict[str, Any], origin: str) -> str:
        if not cluster.get("proxy-url"):
            return proxy_for(origin, self._env) if self._env is not None else ""
        from datum_compute.client.http.proxy import checked_proxy

        try:
            return checked_proxy(str(cluster["proxy-url"]))
        except ValueError as error:
            raise self._error(f"proxy-url: {error}") from error

    def _token(self, user: dict[str, Any], file: str) -> TokenSource:
        if user.get("tokenFile"):  # the file wins, as in kubectl
            return _token_file(_path(file, str(user["tokenFile"])))
        return str(user.get("token") or "")

    def _exec(
        self, name: str, user: dict[str, Any], file: str, cluster: dict[str, Any], ca_pem: bytes
    ) -> TokenSource:
        if not user.get("exec"):
            return ""
        from pathlib import Path

        from datum_compute.client.auth import exec_plugin
        from datum_compute.client.auth.exec_credential import ExecCredential

        if self._env is None:
            raise ValueError("allow_exec needs env")
        try:
            plugin = exec_plugin.parse_exec_plugin(
                user["exec"],
                where=f"{file}: user {name!r}",
                directory=Path(file).parent,
                cluster=exec_plugin.cluster_info(cluster, ca_pem),
            )
        except ValueError as error:
            raise self._error(f"user {name!r}: {error}") from error
        return ExecCredential(plugin, self._env)

    def _data(self, entry: dict[str, Any], key: str, file: str) -> bytes:
        """Embedded data wins over a file's name, as in kubectl."""
        if entry.get(f"{key}-data"):
            try:
                return binascii.a2b_base64(str(entry[f"{key}-data"]), strict_mode=True)
            except ValueError as error:
                raise self._error(f"{key}-data is not base64") from error
        if entry.get(key):
            path = _path(file, str(entry[key]))
            try:
                return _content(path)
            except OSError as error:
                raise self._error(f"cannot read {key} {path}: {error.strerror}") from error
        return b""

    def _error(self, message: str) -> KubeconfigError:
        return KubeconfigError(f"{os.pathsep.join(self._contents)}: {message}")


def _path(file: str, name: str) -> str:
    return os.path.join(os.path.dirname(file), name)  # an absolute name stays as it is


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _token_file(path: str) -> TokenFile:
    token = TokenFile(path)
    try:
        token()  # fail at the start, not at the first request
    except CredentialFailed as failure:
        raise KubeconfigError(str(failure)) from failure
    return token


def _parsed(
    text: str, file: str, parse: Callable[[str], dict[str, Any] | None] | None
) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        # JSON is YAML, and quicker to read without its library.
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            content = _parsed_yaml(text, file)
    else:
        content = (parse(text) if parse is not None else None) or _parsed_yaml(text, file)
    if not isinstance(content, dict):
        raise KubeconfigError(f"{file}: not a kubeconfig")
    return content


def _parsed_yaml(text: str, file: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
        raise KubeconfigError(f"{file}: not YAML: {yaml_fault(error)}") from error


def yaml_fault(error: Exception) -> str:
    """Line, column and cause of a YAML error, on one line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, (ValueError, LookupError, AttributeError)):
        return "a value is not of the type that it is marked or looks like"  # as 0b is no number
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    parts = (getattr(error, "context", None), getattr(error, "problem", None))
    return f"line {mark.line + 1}, column {mark.column + 1}: {' '.join(filter(None, parts))}"
