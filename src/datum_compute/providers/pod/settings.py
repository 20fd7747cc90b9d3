"""What an operator sets for the Pods of a cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datum_compute.api import name_patterns

POD_SECURITY = "pod-security"
RUNTIME_CLASS = "runtime-class"
NODE_SELECTOR = "node-selector"
TOLERATIONS = "tolerations"

BASELINE, RESTRICTED = "baseline", "restricted"
"""Of the Pod Security Standards. An image that runs as root runs under the first alone."""
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_IS_NAME = re.compile(name_patterns.DNS_SUBDOMAIN).fullmatch


@dataclass(frozen=True, slots=True)
class PodSettings:
    pod_security: str = BASELINE
    runtime_class: str = ""
    """The RuntimeClass of every Pod; empty for the cluster's default runtime."""
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> PodSettings:
        """Raises ``ValueError`` with the setting, what was found and what is allowed."""
        security = settings.get(POD_SECURITY, BASELINE)
        if security not in (BASELINE, RESTRICTED):
            raise ValueError(f'{POD_SECURITY}="{security}": expected {BASELINE} or {RESTRICTED}')
        runtime_class = settings.get(RUNTIME_CLASS, "")
        if runtime_class and not _IS_NAME(runtime_class):
            raise ValueError(
                f'{RUNTIME_CLASS}="{runtime_class}": expected a name of a RuntimeClass'
            )
        return cls(
            security,
            runtime_class,
            tuple(_label(entry) for entry in _entries(settings, NODE_SELECTOR)),
            tuple(_toleration(entry) for entry in _entries(settings, TOLERATIONS)),
        )


def _entries(settings: Mapping[str, str], name: str) -> list[str]:
    return [entry.strip() for entry in settings.get(name, "").split(",") if entry.strip()]


def _label(entry: str) -> tuple[str, str]:
    key, equals, value = entry.partition("=")
    if not key or not equals:
        raise ValueError(f'{NODE_SELECTOR}: "{entry}": expected KEY=VALUE[,KEY=VALUE…]')
    return key, value


def _toleration(entry: str) -> dict[str, Any]:
    """``KEY[=VALUE][:EFFECT]``, as ``kubectl taint`` writes taints."""
    taint, colon, effect = entry.partition(":")
    key, equals, value = taint.partition("=")
    if not key or (colon and effect not in EFFECTS):
        raise ValueError(
            f'{TOLERATIONS}: "{entry}": expected KEY[=VALUE][:EFFECT], where EFFECT is one of'
            f" {', '.join(EFFECTS)}"
        )
    found = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        found["value"] = value
    if effect:
        found["effect"] = effect
    return found
