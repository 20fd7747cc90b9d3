"""Parses a kubeconfig's ``exec`` entry, and the ExecCredential that its program prints."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from datum_compute.client.auth.credentials import ClientIdentity, is_token

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
MODES = ("Never", "IfAvailable", "Always")
EXTENSION = "client.authentication.k8s.io/exec"
"""The name under which a cluster entry holds configuration for plugins."""


@dataclass(frozen=True, kw_only=True)
class ExecPlugin:
    """The ``exec`` entry of a kubeconfig."""

    where: str
    """File and user, for messages."""
    command: str
    args: tuple[str, ...] = ()
    api_version: str = VERSIONS[0]
    variables: Mapping[str, str] = field(default_factory=dict)
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """Passed to the program where the entry sets ``provideClusterInfo``."""
    directory: Path = Path()
    """Where a relative command starts: the kubeconfig's directory."""


@dataclass(frozen=True)
class IssuedCredential:
    """The credential a program printed."""

    identity: ClientIdentity
    key_pem: bytes
    expires: datetime | None


def parse_exec_plugin(
    spec: Any, *, where: str, directory: Path, cluster: Mapping[str, Any]
) -> ExecPlugin:
    """Raises ValueError for an entry that cannot be used."""
    if not isinstance(spec, dict):
        raise ValueError("exec is not a mapping")
    command = spec.get("command")
    if not isinstance(command, str) or not command:
        raise ValueError("exec.command is required")
    version = spec.get("apiVersion")
    if version not in VERSIONS:
        raise ValueError(f"exec.apiVersion {version!r}: supported: {', '.join(VERSIONS)}")
    # The older version made it optional.
    mode = spec.get("interactiveMode") or ("IfAvailable" if version == VERSIONS[1] else "")
    if mode not in MODES:
        raise ValueError(f"exec.interactiveMode {mode!r}: supported: {', '.join(MODES)}")
    return ExecPlugin(
        where=where,
        command=command,
        args=_texts(spec.get("args"), "exec.args"),
        api_version=version,
        variables=_variables_of(spec.get("env")),
        interactive_mode=mode,
        install_hint=str(spec.get("installHint") or ""),
        cluster=cluster if spec.get("provideClusterInfo") else None,
        directory=directory,
    )


def _texts(value: Any, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{what} is not a list of texts")
    return tuple(value)


def _variables_of(value: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in value if isinstance(value, list) else ([] if value is None else [None]):
        name = entry.get("name") if isinstance(entry, dict) else None
        content = entry.get("value", "") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name or not isinstance(content, str):
            raise ValueError("exec.env is not a list of name and value")
        found[name] = content
    return found


def cluster_info(cluster: Mapping[str, Any], ca_pem: bytes) -> dict[str, Any]:
    """The cluster as a plugin receives it, with the authority as data."""
    info = {
        key: cluster[key]
        for key in ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        if cluster.get(key)
    }
    if ca_pem:
        info["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    for extension in cluster.get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == EXTENSION:
            info["config"] = extension.get("extension")
    return info


def parse_exec_credential(output: bytes, api_version: str) -> IssuedCredential:
    """Raises ValueError for output that is not a usable ExecCredential."""
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its answer is not JSON: {error}") from error
    if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
        raise ValueError("its answer is not an ExecCredential")
    if answer.get("apiVersion") != api_version:
        found = str(answer.get("apiVersion"))[:80]
        raise ValueError(f"its answer has apiVersion {found!r}; expected {api_version!r}")
    status = answer.get("status")
    if not isinstance(status, dict):
        raise ValueError("its answer has no status")
    token = status.get("token") or ""
    if not isinstance(token, str) or not is_token(token):
        raise ValueError("status.token holds what cannot be a token")
    certificate, key = (_pem(status, k) for k in ("clientCertificateData", "clientKeyData"))
    if bool(certificate) != bool(key):
        raise ValueError("clientCertificateData and clientKeyData need each other")
    if not token and not certificate:
        raise ValueError("its answer holds neither a token nor a certificate")
    return IssuedCredential(
        ClientIdentity(token, certificate), key, _expiry(status.get("expirationTimestamp"))
    )


def _pem(status: Mapping[str, Any], key: str) -> bytes:
    value = status.get(key) or ""
    if not isinstance(value, str):
        raise ValueError(f"status.{key} is not text")
    return value.encode()


def _expiry(value: Any) -> datetime | None:
    if value is None or value == "":
        return None
    with suppress(ValueError, TypeError):
        expires = datetime.fromisoformat(value)
        return expires if expires.tzinfo is not None else expires.replace(tzinfo=UTC)
    raise ValueError(f"status.expirationTimestamp is not a time: {str(value)[:80]!r}")
