"""Karmada's naming rules that :mod:`datum_compute.api.karmada` does not have."""

from __future__ import annotations

from datum_compute.api import karmada, planes

HUB = planes.HUB.name
"""The name under which the hub's fleet knows the hub."""

ANNOTATION_CONFLICT_RESOLUTION = "work.karmada.io/conflict-resolution"
OVERWRITE = "overwrite"

_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that no word appears by accident; as Kubernetes encodes hashes."""


def cluster_of(namespace: str) -> str:
    """The member whose execution namespace this is; empty for any other namespace."""
    if not namespace.startswith(karmada.EXECUTION_NAMESPACE_PREFIX):
        return ""
    return namespace.removeprefix(karmada.EXECUTION_NAMESPACE_PREFIX)


def is_reserved(namespace: str) -> bool:
    """Whether this namespace is one that is never propagated from."""
    if namespace in ("karmada-system", "karmada-cluster"):
        return True
    return namespace.startswith((karmada.EXECUTION_NAMESPACE_PREFIX, "kube-"))


def work_name(kind: str, name: str, namespace: str) -> str:
    """The Work that carries an object; readable, and unique by a hash of its identity."""
    identity = "-".join(filter(None, (namespace, name, kind))).lower()
    return f"{name.replace(':', '.')}-{_safe(str(_fnv1a(identity.encode())))}"


def depended_by_label(namespace: str, name: str) -> str:
    """The label on the binding of a dependency that names this dependent binding."""
    hashed = _safe(str(_fnv1a(f"{namespace}/{name}".encode())))
    return f"{karmada.LABEL_DEPENDED_BY_PREFIX}{hashed}"


def _fnv1a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _safe(text: str) -> str:
    return "".join(_SAFE_ALPHABET[ord(character) % len(_SAFE_ALPHABET)] for character in text)
