"""The settings of a manager: flags, and a configuration file.

The file is a ``WorkloadOperator`` of ``apiserver.config.datumapis.com/v1alpha1``; its fields
are declared in :mod:`.config`. Unknown flags and fields are errors. The kubeconfig of the hub may
come from the variable ``FEDERATION_KUBECONFIG`` instead of its flag.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from datum_compute.api.name_patterns import LABEL_LIMIT
from datum_compute.assembly.manager.config import (
    Discovery,
    MetricsServer,
    SettingsError,
    TlsSettings,
    WebhookServer,
    WorkloadOperator,
    load_config,
)
from datum_compute.assembly.manager.http_server import TlsFiles
from datum_compute.decisions.admission import name_rules
from datum_compute.env import Environment
from datum_compute.providers import registry
from datum_compute.providers.registry import providers_of

__all__ = ["Discovery", "ManagerSettings", "SettingsError", "load_config", "parse"]

GATES = {
    "NetworkingIntegration": False,
}
"""Every feature gate with its default. Off: cells without the networking kinds must not watch
them."""
NETWORKING_GATE = "NetworkingIntegration"

LEASE = "e98b06c6.datumapis.com"
"""The name of every manager's Lease, before its group."""

HUB_FLAG = "--federation-kubeconfig"
HUB_VARIABLE = "FEDERATION_KUBECONFIG"
"""Names the hub where the flag does not."""

NO_PROVIDER = "none"
PROVIDER_SETTING = "--provider-setting"
LogFormat = Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class BindAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ManagerSettings:
    management: bool
    cell: bool
    provider: str = NO_PROVIDER
    """The registered provider that runs the Instances of this cell; ``none`` where another
    process does."""
    provider_settings: Mapping[str, str] = field(default_factory=dict)
    kubeconfig: str = ""
    """The manager's own cluster; empty inside a pod."""
    federation_kubeconfig: str = ""
    federation_source: str = HUB_FLAG
    """What named it, for messages: the flag or the variable."""
    federation_context: str = ""
    networking: bool = False
    """Cells without the networking kinds must not watch them."""
    leader_elect: bool = False
    leader_elect_namespace: str = ""
    """Where the Lease is; empty means the pod's own namespace."""
    health_probes: BindAddress | None = None
    metrics: BindAddress | None = None
    metrics_tls: TlsFiles | None = None
    webhooks: BindAddress | None = None
    webhooks_tls: TlsFiles | None = None
    log_format: LogFormat = "text"
    check: bool = False
    """Report what the planes lack, and end."""
    webhook_certificate: str = ""
    """A directory: issue the webhooks' certificate there, and end."""
    discovery: Discovery = field(default_factory=Discovery)
    source: str = ""
    """The prefix of errors about a field of the file; empty without a file."""

    @property
    def quota_kubeconfig(self) -> str:
        return self.discovery.quota_kubeconfig_path or self.discovery.project_kubeconfig_path

    @property
    def group(self) -> str:
        """The controllers that run here: ``management``, ``cell`` or ``all``."""
        if self.management and self.cell:
            return "all"
        return "management" if self.management else "cell"

    @property
    def lease_name(self) -> str:
        return f"{LEASE}-{self.group}"

    def kubeconfigs(self) -> list[tuple[str, str, str]]:
        """Flag or field, path and context of every kubeconfig that is set."""
        discovery, file = self.discovery, self.source
        every = [
            ("--kubeconfig", self.kubeconfig, ""),
            (self.federation_source, self.federation_kubeconfig, self.federation_context),
            (f"{file}discovery.discoveryKubeconfigPath", discovery.discovery_kubeconfig_path, ""),
            (f"{file}discovery.projectKubeconfigPath", discovery.project_kubeconfig_path, ""),
            (f"{file}discovery.quotaKubeconfigPath", discovery.quota_kubeconfig_path, ""),
        ]
        return [each for each in every if each[1]]

    def log_fields(self) -> dict[str, object]:
        """What the manager logs at start."""
        return {
            "management": self.management,
            "cell": self.cell,
            "provider": self.provider,
            "discovery": self.discovery.mode,
            "cluster": self.discovery.cluster_name,
            "federation": bool(self.federation_kubeconfig),
            "quota": self.cell and bool(self.quota_kubeconfig),
            "networking": self.networking,
            "lease": self.lease_name if self.leader_elect else "none",
            "probes": str(self.health_probes or "off"),
            "metrics": str(self.metrics or "off"),
            "webhooks": str(self.webhooks or "off"),
        }


def parse(argv: Sequence[str], env: Environment | None = None) -> ManagerSettings:
    """Raises :class:`SettingsError` for invalid settings, before anything is started. Without
    ``env`` no variable is read."""
    args = _parser().parse_args(argv)
    config = load_config(args.server_config) if args.server_config else WorkloadOperator.default()
    where = f"--server-config {args.server_config}: " if args.server_config else ""
    metrics, webhooks = config.metrics_server, config.webhook_server
    hub, hub_source = args.federation_kubeconfig, HUB_FLAG
    if not hub and env is not None:
        hub, hub_source = env.variable(HUB_VARIABLE) or "", HUB_VARIABLE
    settings = ManagerSettings(
        management=args.enable_management_controllers,
        cell=args.enable_cell_controllers,
        provider=args.provider,
        provider_settings=_provider_settings(args.provider_setting),
        kubeconfig=args.kubeconfig,
        federation_kubeconfig=hub,
        federation_source=hub_source,
        federation_context=args.federation_context,
        networking=_gates(args.feature_gates)[NETWORKING_GATE],
        leader_elect=args.leader_elect,
        leader_elect_namespace=args.leader_elect_namespace,
        health_probes=_address(args.health_probe_bind_address, "--health-probe-bind-address"),
        metrics=_address(metrics.bind_address, f"{where}metricsServer.bindAddress"),
        metrics_tls=_metrics_tls(metrics, where),
        webhooks=_webhook_address(webhooks, where),
        webhooks_tls=_webhook_tls(webhooks, where),
        log_format=args.log_format,
        check=args.check,
        webhook_certificate=args.issue_webhook_certificate,
        discovery=config.discovery,
        source=where,
    )
    _check(settings, where)
    return settings


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message}; --help lists the flags")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="compute-manager",
        description="Runs the compute controllers beside a Kubernetes API server.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--enable-management-controllers", **_FLAG, help="workloads and federation")
    add("--enable-cell-controllers", **_FLAG, help="instances of this cell")
    add(
        "--provider",
        default=NO_PROVIDER,
        metavar="NAME",
        help=f"what runs instances here: {', '.join(_provider_names())} (default: {NO_PROVIDER})",
    )
    add(
        PROVIDER_SETTING,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the provider; may be repeated",
    )
    add("--server-config", default="", metavar="FILE", help="a WorkloadOperator in YAML")
    add("--kubeconfig", default="", metavar="FILE", help="own cluster (default: in-cluster)")
    add(HUB_FLAG, default="", metavar="FILE", help=f"the hub (default: ${HUB_VARIABLE})")
    add("--federation-context", default="", metavar="NAME", help="context in it")
    add("--feature-gates", default="", metavar="A=true,…", help=f"known: {', '.join(GATES)}")
    add("--leader-elect", **_FLAG, help="act only while holding the group's Lease")
    add("--leader-elect-namespace", default="", metavar="NS", help="of the Lease (default: own)")
    add(
        "--health-probe-bind-address",
        default=":8081",
        metavar="ADDRESS",
        help='address of /healthz and /readyz; "0" turns them off (default: :8081)',
    )
    add("--log-format", default="text", choices=["text", "json"], help="the form of log lines")
    add("--check", **_FLAG, help="report what the planes lack for these settings, and end")
    add(
        "--issue-webhook-certificate",
        default="",
        metavar="DIR",
        help="issue the webhooks' certificate into this directory, and end",
    )
    return parser


def _provider_names() -> list[str]:
    return [NO_PROVIDER, *(record.name for record in providers_of("manager"))]


def _provider_settings(entries: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or name in found:
            problem = "is given twice" if equals else "expected NAME=VALUE"
            raise SettingsError(f'{PROVIDER_SETTING} "{entry}": {problem}')
        found[name] = value
    return found


def _check_provider_settings(settings: ManagerSettings) -> None:
    known = () if settings.provider == NO_PROVIDER else registry.find(settings.provider).settings
    for name in settings.provider_settings:
        if name not in known:
            allowed = f"it takes {', '.join(known)}" if known else "it takes none"
            raise SettingsError(
                f'{PROVIDER_SETTING} "{name}": not a setting of provider {settings.provider};'
                f" {allowed}"
            )


def _truth(text: str) -> bool:
    """``true`` or ``false``, as in ``--leader-elect=false`` of Kubernetes' programs."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f'expected true or false, not "{text}"')
    return text.lower() == "true"


_FLAG: dict[str, Any] = {"nargs": "?", "const": True, "default": False, "type": _truth}


def _gates(text: str) -> dict[str, bool]:
    gates = dict(GATES)
    for entry in filter(None, text.split(",")):
        name, _, value = entry.strip().partition("=")
        if name not in gates or value not in ("true", "false"):
            known = ", ".join(f"{gate}=true|false" for gate in gates)
            raise SettingsError(f'--feature-gates "{entry}": expected {known}')
        gates[name] = value == "true"
    return gates


def _address(text: str, where: str) -> BindAddress | None:
    """``:8081``, ``127.0.0.1:8081`` or ``[::1]:8081``; ``0`` and the empty text mean off."""
    if text in ("0", ""):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise SettingsError(
            f'{where}: "{text}" is not an address: expected HOST:PORT or :PORT, or 0 to turn it off'
        )
    return BindAddress(host.strip("[]") or "0.0.0.0", int(port))  # as :PORT means


def _metrics_tls(metrics: MetricsServer, where: str) -> TlsFiles | None:
    if metrics.bind_address in ("0", "") or not metrics.secure_serving:
        return None
    fix = "; or serve without TLS with metricsServer.secureServing: false"
    return _tls_files(metrics.tls, f"{where}metricsServer", fix)


def _webhook_address(webhooks: WebhookServer | None, where: str) -> BindAddress | None:
    if webhooks is None:
        return None
    if not 0 <= webhooks.port <= 65535:
        raise SettingsError(
            f"{where}webhookServer.port: {webhooks.port}: expected a number from 0 to 65535"
        )
    return BindAddress(webhooks.host or "0.0.0.0", webhooks.port)  # all, as elsewhere


def _webhook_tls(webhooks: WebhookServer | None, where: str) -> TlsFiles | None:
    if webhooks is None:
        return None
    files = _tls_files(webhooks.tls, f"{where}webhookServer", "; API servers call only HTTPS")
    if not webhooks.client_ca_name:
        return files
    return TlsFiles(
        files.certificate, files.key, files.certificate.parent / webhooks.client_ca_name
    )


def _tls_files(tls: TlsSettings, field_name: str, fix: str) -> TlsFiles:
    if not tls.cert_dir:
        raise SettingsError(
            f"{field_name}.tls.certDir: required: the directory of"
            f" {tls.cert_name} and {tls.key_name}{fix}"
        )
    return TlsFiles(tls.directory / tls.cert_name, tls.directory / tls.key_name)


def _check(settings: ManagerSettings, where: str) -> None:
    if settings.webhook_certificate:
        return  # no controller runs
    if not settings.management and not settings.cell:
        raise SettingsError(
            "no controllers are enabled, so the manager would do nothing: give"
            " --enable-management-controllers, --enable-cell-controllers or both"
        )
    if settings.management and not settings.cell and not settings.federation_kubeconfig:
        raise SettingsError(
            f"management without cell controllers needs {HUB_FLAG}, or the variable {HUB_VARIABLE}"
        )
    if settings.federation_context and not settings.federation_kubeconfig:
        raise SettingsError(f"--federation-context names a context of {HUB_FLAG}")
    if settings.provider not in _provider_names():
        raise SettingsError(
            f"--provider {settings.provider}: not available in this version; available:"
            f" {', '.join(_provider_names())}"
        )
    if settings.provider != NO_PROVIDER and not settings.cell:
        raise SettingsError("--provider runs instances: it needs --enable-cell-controllers")
    _check_provider_settings(settings)
    if settings.leader_elect_namespace and not settings.leader_elect:
        raise SettingsError("--leader-elect-namespace needs --leader-elect")
    if (namespace := settings.leader_elect_namespace) and not name_rules.is_dns_label(namespace):
        raise SettingsError(
            f'--leader-elect-namespace: "{namespace}" is not a valid namespace: '
            f"{name_rules.DNS_LABEL_MESSAGE}"
        )
    _check_discovery(settings, where)


def _check_discovery(settings: ManagerSettings, where: str) -> None:
    if settings.cell and settings.discovery.mode != "single":
        raise SettingsError(
            f"{where}cell controllers need discovery.mode single: a cell is one cluster"
        )
    if settings.management and settings.federation_kubeconfig and settings.cell:
        raise SettingsError(
            "both controller groups in one process make a single cluster, which has no hub:"
            f" leave out {settings.federation_source}, or run the groups apart"
        )
    if name := settings.discovery.cluster_name:
        if not name_rules.is_label_value(name):
            raise SettingsError(
                f'{where}discovery.clusterName: Invalid value: "{name}": must be at most'
                f" {LABEL_LIMIT} letters, digits, '-', '_' and '.', with a letter or"
                " digit at both ends: it becomes the value of a label"
            )
        return
    if not settings.cell:
        return
    if settings.quota_kubeconfig:
        raise _cluster_name_missing(where or "--server-config: ", "claims quota")
    if settings.federation_kubeconfig:
        raise _cluster_name_missing(where or "--server-config: ", "reports to a hub")


def _cluster_name_missing(where: str, purpose: str) -> SettingsError:
    """No default: two cells of one name would delete each other's copies and claims, and nothing
    in a cell tells its name before the first deployment arrives."""
    return SettingsError(
        f"{where}discovery.clusterName is required where a cell {purpose}: add the name of this"
        " cell's Cluster object on the hub (kubectl get clusters), as in"
        " discovery: {clusterName: dfw}"
    )
