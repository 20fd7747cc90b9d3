"""The configuration file: a ``WorkloadOperator``, decoded strictly.

::

    apiVersion: apiserver.config.datumapis.com/v1alpha1
    kind: WorkloadOperator
    metricsServer:
      bindAddress: ":8443"              # "0", the default, is off
      tls: {certDir: /etc/metrics}
    discovery:
      mode: milo                        # projects are found through their Project objects
      discoveryKubeconfigPath: core.kubeconfig
      projectKubeconfigPath: core.kubeconfig

An error names the file, the field by its path, what was found and what is allowed.
"""

from __future__ import annotations

from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import yaml

from datum_compute.client.kubeconfig import yaml_fault

API_VERSION = "apiserver.config.datumapis.com/v1alpha1"
KIND = "WorkloadOperator"


class SettingsError(Exception):
    """The manager must not start with these settings; the message says what to change."""


class _Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of the file; unknown fields are errors."""


class TlsSecretReference(_Section, frozen=True):
    name: str = ""
    namespace: str = ""


class TlsSettings(_Section, frozen=True):
    cert_dir: str = ""
    """Where certificate and key are; reloaded when they change."""
    cert_name: str = "tls.crt"
    key_name: str = "tls.key"
    secret_ref: TlsSecretReference | None = None
    """Refused: mount the Secret and name its directory in ``certDir``."""

    @property
    def directory(self) -> Path:
        return Path(self.cert_dir)


class MetricsServer(_Section, frozen=True):
    secure_serving: bool = True
    bind_address: str = "0"
    """``0`` is off."""
    tls: TlsSettings = TlsSettings()


class WebhookServer(_Section, frozen=True, rename={"client_ca_name": "clientCAName"}):
    host: str = ""
    port: int = 9443
    tls: TlsSettings = TlsSettings()
    client_ca_name: str = ""
    """A file in ``certDir`` with the authority of the API server's client certificate."""


class Discovery(_Section, frozen=True):
    mode: Literal["single", "milo"] = "single"
    """Whether this manager works on one cluster, or on every ready project."""
    internal_service_discovery: bool = False
    """Connect to projects by their in-cluster service names; true is refused, since projects
    are found at ``projectKubeconfigPath``."""
    discovery_kubeconfig_path: str = ""
    """The cluster of the Project objects; empty means the manager's own."""
    project_kubeconfig_path: str = ""
    """The server of the project planes; empty means that of the Project objects."""
    cluster_name: str = ""
    """The name of this cell on the hub and in the projects."""
    quota_kubeconfig_path: str = ""
    """The server of the project planes in which a cell claims quota; empty means
    ``projectKubeconfigPath``, and without that quota is not enforced."""


class WorkloadOperator(_Section, frozen=True, kw_only=True):
    api_version: str
    kind: str
    metrics_server: MetricsServer = MetricsServer()
    webhook_server: WebhookServer | None = None
    """Absent means that no admission is served."""
    discovery: Discovery = Discovery()

    @classmethod
    def default(cls) -> WorkloadOperator:
        """The settings without a file."""
        return cls(api_version=API_VERSION, kind=KIND)


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f'the key "{key}" is given twice', node.start_mark
                )
        return super().construct_mapping(node, deep)


def load_config(path: str) -> WorkloadOperator:
    try:
        document = yaml.load(Path(path).read_text(), _StrictLoader)  # noqa: S506 (a safe one)
    except OSError as error:
        raise SettingsError(f"--server-config {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(
            f"--server-config {path}: not valid YAML: {yaml_fault(error)}"
        ) from error
    try:
        config: WorkloadOperator = _convert(document, WorkloadOperator, "")
    except _Fault as error:
        raise SettingsError(f"--server-config {path}: {error}") from error
    if (config.api_version, config.kind) != (API_VERSION, KIND):
        found = f"{config.api_version} {config.kind}"
        raise SettingsError(f"--server-config {path}: expected {API_VERSION} {KIND}, not {found}")
    _refuse_unsupported(config, f"--server-config {path}: ")
    return config


def _refuse_unsupported(config: WorkloadOperator, where: str) -> None:
    """Fields of the file's format that this manager does not act on."""
    if config.discovery.internal_service_discovery:
        raise SettingsError(
            f"{where}discovery.internalServiceDiscovery: only false is supported; name the server"
            " with discovery.projectKubeconfigPath"
        )
    servers = {"metricsServer": config.metrics_server, "webhookServer": config.webhook_server}
    for name, server in servers.items():
        if server is not None and server.tls.secret_ref is not None:
            raise SettingsError(
                f"{where}{name}.tls.secretRef: not supported: mount the Secret and name its"
                f" directory in {name}.tls.certDir"
            )


class _Fault(Exception):
    """A field by its path, and what is wrong with it."""


def _convert(values: Any, kind: type[_Section], path: str) -> Any:
    """An instance of ``kind``; raises :class:`_Fault` for the first field that does not fit."""
    fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
    types = get_type_hints(kind)
    found = {}
    for name, value in _leaf(values, dict[str, Any], path or "the document").items():
        where = f"{path}.{name}" if path else name
        if name not in fields:
            raise _Fault(f"{where}: unknown field; known here: {', '.join(fields)}")
        found[fields[name].name] = _field(value, types[fields[name].name], where)
    for name, each in fields.items():
        if each.required and each.name not in found:
            raise _Fault(f"{path}.{name}: required" if path else f"{name}: required")
    return kind(**found)


def _field(value: Any, declared: Any, where: str) -> Any:
    options = get_args(declared) if isinstance(declared, UnionType) else (declared,)
    section = next((each for each in options if _is_section(each)), None)
    if section is None or (value is None and NoneType in options):
        return _leaf(value, declared, where)
    return _convert(value, section, where)


def _is_section(declared: Any) -> bool:
    return isinstance(declared, type) and issubclass(declared, _Section)


def _leaf(value: Any, declared: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, declared)
    except msgspec.ValidationError as error:
        allowed = ""
        if get_origin(declared) is Literal:
            allowed = f"; allowed: {', '.join(map(str, get_args(declared)))}"
        raise _Fault(f"{where}: {error}{allowed}") from error
