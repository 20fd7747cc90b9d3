"""What a manager is told: flags, and a configuration file that is read strictly.

The file is a ``WorkloadOperator`` of ``apiserver.config.datumapis.com/v1alpha1``::

    apiVersion: apiserver.config.datumapis.com/v1alpha1
    kind: WorkloadOperator
    discovery:
      mode: milo                        # projects are found through their Project objects
      discoveryKubeconfigPath: core.kubeconfig
      projectKubeconfigPath: core.kubeconfig

A field nobody knows is an error, never ignored: it may be the one that mattered.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
import yaml

API_VERSION = "apiserver.config.datumapis.com/v1alpha1"
KIND = "WorkloadOperator"
NETWORKING_GATE = "NetworkingIntegration"


class SettingsError(Exception):
    """The manager must not start like this; the message says what to change."""


class Discovery(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    mode: Literal["single", "milo"] = "single"
    """Whether this manager works on one cluster, or on every ready project."""
    discovery_kubeconfig_path: str = ""
    """Where Project objects are found; empty means the manager's own cluster."""
    project_kubeconfig_path: str = ""
    """The server below which each project has its plane; empty means the one above."""
    cluster_name: str = ""
    """The name of this cell towards the hub and the projects."""
    quota_kubeconfig_path: str = ""
    """The server of the project planes in which a cell claims quota; empty means
    ``projectKubeconfigPath``, and without that quota is not enforced."""


class WorkloadOperator(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True
):
    api_version: str
    kind: str
    discovery: Discovery = Discovery()


@dataclass(frozen=True)
class ManagerSettings:
    management: bool
    cell: bool
    kubeconfig: str = ""
    """The manager's own cluster; empty inside a pod."""
    federation_kubeconfig: str = ""
    federation_context: str = ""
    networking: bool = False
    """Cells without the networking kinds must not watch them."""
    discovery: Discovery = field(default_factory=Discovery)

    @property
    def quota_kubeconfig(self) -> str:
        return self.discovery.quota_kubeconfig_path or self.discovery.project_kubeconfig_path


def parse(argv: Sequence[str]) -> ManagerSettings:
    """Raises :class:`SettingsError` for what makes no sense, before anything is started."""
    args = _parser().parse_args(argv)
    discovery = load_config(args.server_config).discovery if args.server_config else Discovery()
    settings = ManagerSettings(
        management=args.enable_management_controllers,
        cell=args.enable_cell_controllers,
        kubeconfig=args.kubeconfig,
        federation_kubeconfig=args.federation_kubeconfig,
        federation_context=args.federation_context,
        networking=_gates(args.feature_gates)[NETWORKING_GATE],
        discovery=discovery,
    )
    _check(settings)
    return settings


def load_config(path: str) -> WorkloadOperator:
    try:
        document = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise SettingsError(f"--server-config {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"--server-config {path}: not valid YAML: {error}") from error
    try:
        config = msgspec.convert(document, WorkloadOperator)
    except msgspec.ValidationError as error:
        raise SettingsError(f"--server-config {path}: {error}") from error
    if (config.api_version, config.kind) != (API_VERSION, KIND):
        found = f"{config.api_version} {config.kind}"
        raise SettingsError(f"--server-config {path}: expected {API_VERSION} {KIND}, not {found}")
    return config


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # raises, as its own exits
        raise SettingsError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="compute-manager",
        description="Runs the compute controllers beside a Kubernetes API server.",
    )
    add = parser.add_argument
    add("--enable-management-controllers", action="store_true", help="workloads and federation")
    add("--enable-cell-controllers", action="store_true", help="instances of this cell")
    add("--server-config", default="", metavar="FILE", help="a WorkloadOperator in YAML")
    add("--kubeconfig", default="", metavar="FILE", help="own cluster (default: in-cluster)")
    add("--federation-kubeconfig", default="", metavar="FILE", help="the hub")
    add("--federation-context", default="", metavar="NAME", help="context in it")
    add("--feature-gates", default="", metavar="A=true,…", help=f"known: {NETWORKING_GATE}")
    return parser


def _gates(text: str) -> dict[str, bool]:
    gates = {NETWORKING_GATE: False}
    for entry in filter(None, text.split(",")):
        name, _, value = entry.strip().partition("=")
        if name not in gates or value not in ("true", "false"):
            known = ", ".join(f"{gate}=true|false" for gate in gates)
            raise SettingsError(f'--feature-gates "{entry}": expected {known}')
        gates[name] = value == "true"
    return gates


def _check(settings: ManagerSettings) -> None:
    if not settings.management and not settings.cell:
        raise SettingsError(
            "no controllers are enabled, so the manager would do nothing: give"
            " --enable-management-controllers, --enable-cell-controllers or both"
        )
    if settings.management and not settings.cell and not settings.federation_kubeconfig:
        raise SettingsError("management without cell controllers needs --federation-kubeconfig")
    if settings.cell and settings.discovery.mode != "single":
        raise SettingsError("cell controllers need discovery.mode single: a cell is one cluster")
    if settings.management and settings.federation_kubeconfig and settings.cell:
        raise SettingsError(
            "both controller groups in one process make a single cluster, which has no hub:"
            " leave out --federation-kubeconfig, or run the groups apart"
        )
    if settings.cell and settings.quota_kubeconfig and not settings.discovery.cluster_name:
        raise SettingsError("discovery.clusterName is required where a cell claims quota")
    if settings.cell and settings.federation_kubeconfig and not settings.discovery.cluster_name:
        raise SettingsError("discovery.clusterName is required where a cell reports to a hub")
