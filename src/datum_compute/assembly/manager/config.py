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

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import yaml

from datum_compute.client.kubeconfig import yaml_fault

API_VERSION = "apiserver.config.datumapis.com/v1alpha1"
KIND = "WorkloadOperator"


class SettingsError(Exception):
    """The manager must not start like this; the message says what to change."""


class _Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of the file in which every field is known."""


class TlsSecretReference(_Section, frozen=True):
    name: str = ""
    namespace: str = ""


class TlsSettings(_Section, frozen=True):
    cert_dir: str = ""
    """Where certificate and key are; looked at again when they are renewed."""
    cert_name: str = "tls.crt"
    key_name: str = "tls.key"
    secret_ref: TlsSecretReference | None = None
    """Read by nothing: a Secret is mounted, and ``certDir`` names the place."""

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
    """A file in ``certDir``: whose certificates the API server must show."""


class Discovery(_Section, frozen=True):
    mode: Literal["single", "milo"] = "single"
    """Whether this manager works on one cluster, or on every ready project."""
    internal_service_discovery: bool = False
    """Reach projects under their names inside the cluster, instead of the server named here."""
    discovery_kubeconfig_path: str = ""
    """Where Project objects are found; empty means the manager's own cluster."""
    project_kubeconfig_path: str = ""
    """The server below which each project has its plane; empty means the one above."""
    cluster_name: str = ""
    """The name of this cell towards the hub and the projects."""
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
        """What holds without a file."""
        return cls(api_version=API_VERSION, kind=KIND)


class _StrictLoader(yaml.SafeLoader):
    """Of two values for one key, neither is known to be the one that was meant."""

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
        config = msgspec.convert(document, WorkloadOperator)
    except msgspec.ValidationError as error:
        raise SettingsError(f"--server-config {path}: {_in_words(str(error))}") from error
    if (config.api_version, config.kind) != (API_VERSION, KIND):
        found = f"{config.api_version} {config.kind}"
        raise SettingsError(f"--server-config {path}: expected {API_VERSION} {KIND}, not {found}")
    if config.discovery.internal_service_discovery:
        raise SettingsError(
            f"--server-config {path}: discovery.internalServiceDiscovery: only false is"
            " supported; name the server with discovery.projectKubeconfigPath"
        )
    return config


_ERROR = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `(?P<name>[^`]*)`")


def _in_words(error: str) -> str:
    """The library's words with the field first, and what is allowed there last."""
    found = _ERROR.match(error)
    path = (found["path"] or "") if found else ""
    what = found["what"] if found else error
    known, allowed = _at(path)
    about = _FIELD.match(what)
    if about is None:
        return f"{path or 'the document'}: {what}{allowed}"
    name = f"{path}.{about['name']}" if path else about["name"]
    if "unknown" in what:
        return f"{name}: unknown field; known here: {', '.join(known)}"
    return f"{name}: required"


def _at(path: str) -> tuple[list[str], str]:
    """The fields known at a path, and the values allowed there in words."""
    kind: Any = WorkloadOperator
    for step in filter(None, path.split(".")):
        fields = {each.encode_name: each.name for each in msgspec.structs.fields(kind)}
        if step not in fields:
            return [], ""
        kind = _without_none(get_type_hints(kind)[fields[step]])
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            if get_origin(kind) is Literal:
                return [], f"; allowed: {', '.join(map(str, get_args(kind)))}"
            return [], ""
    return [each.encode_name for each in msgspec.structs.fields(kind)], ""


def _without_none(kind: Any) -> Any:
    options = [option for option in get_args(kind) if option is not type(None)]
    is_optional = len(options) == 1 and get_origin(kind) is not Literal
    return options[0] if is_optional else kind
