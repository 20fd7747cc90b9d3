"""Every kubeconfig a manager was given is read before anything starts.

Some are needed only later, when a project turns up: without this, a path that leads nowhere
would look like a project that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterator

from datum_compute.assembly.manager.settings import ManagerSettings, SettingsError
from datum_compute.client import kubeconfig
from datum_compute.client.kubeconfig import KubeconfigError
from datum_compute.env import Environment


def check_kubeconfigs(env: Environment, settings: ManagerSettings) -> None:
    """Raises :class:`SettingsError` with the flag or field of the first that is no use."""
    for where, path, context in _given(settings):
        try:
            connection = kubeconfig.load(path, context, env=env)
        except KubeconfigError as error:
            raise SettingsError(f"{where}: {error}") from error
        try:
            connection.tls()
        except KubeconfigError as error:
            raise SettingsError(f"{where}: {path}: {error}") from error


def _given(settings: ManagerSettings) -> Iterator[tuple[str, str, str]]:
    """Flag or field, path and context of each."""
    discovery, file = settings.discovery, settings.source
    for where, path, context in (
        ("--kubeconfig", settings.kubeconfig, ""),
        (
            "--federation-kubeconfig",
            settings.federation_kubeconfig,
            settings.federation_context,
        ),
        (f"{file}discovery.discoveryKubeconfigPath", discovery.discovery_kubeconfig_path, ""),
        (f"{file}discovery.projectKubeconfigPath", discovery.project_kubeconfig_path, ""),
        (f"{file}discovery.quotaKubeconfigPath", discovery.quota_kubeconfig_path, ""),
    ):
        if path:
            yield where, path, context
