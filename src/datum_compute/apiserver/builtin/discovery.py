"""Discovery: the documents at ``/api`` and ``/apis`` and below.

Each document exists in two forms. Legacy: a list of groups, then one request per group
and version. Aggregated (``apidiscovery.k8s.io``): everything in one response each for
``/api`` and ``/apis``, with an ETag so that an unchanged plane costs a 304.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from datum_compute.apiserver.kinds.served_kind import SUBRESOURCE_VERBS, ServedKind

Document = dict[str, Any]


def core_versions() -> Document:
    """``/api`` in its legacy form."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    }


def group_list(kinds: Sequence[ServedKind]) -> Document:
    """``/apis`` in its legacy form."""
    groups = [_group(kinds, name) for name in _groups(kinds) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Sequence[ServedKind], name: str) -> Document | None:
    """``/apis/G``; None when no kind of that group is served."""
    if not name or name not in _groups(kinds):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(kinds, name)}


def resource_list(kinds: Sequence[ServedKind], group_name: str, version: str) -> Document | None:
    """``/api/v1`` and ``/apis/G/V``; None when nothing is served there."""
    found = _of_version(kinds, group_name, version)
    if not found:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].resource.api_version,
        "resources": [entry for kind in found for entry in _resource_entries(kind)],
    }


def aggregated(kinds: Sequence[ServedKind], *, core: bool, version: str = "v2") -> Document:
    """``/api`` (``core``) or ``/apis`` in aggregated form, ``v2`` or ``v2beta1``."""
    items = [_group_item(kinds, name) for name in _groups(kinds) if core == (name == "")]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def etag(document: Document) -> str:
    """A quoted strong tag, equal for equal content."""
    return f'"{hashlib.sha512(msgspec.json.encode(document)).hexdigest()[:64].upper()}"'


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY = {None: 2, "beta": 1, "alpha": 0}


def version_order(version: str) -> tuple[int, int, int, int, str]:
    """A sort key that puts the version a client should prefer first: v2, v1, v1beta1, …"""
    parts = _VERSION.fullmatch(version)
    if parts is None:
        # Ours are called plain "v1alpha"; such names come after all numbered ones, by name.
        return (1, 0, 0, 0, version)
    major, stage, minor = parts[1], parts[2], parts[3]
    return (0, -_STABILITY[stage], -int(major), -int(minor or 0), version)


def _groups(kinds: Iterable[ServedKind]) -> list[str]:
    """Built-in groups first, so that a short name means the built-in kind, then by name."""
    builtin = {kind.resource.group for kind in kinds if kind.builtin}
    return sorted(
        {kind.resource.group for kind in kinds}, key=lambda name: (name not in builtin, name)
    )


def _versions(kinds: Iterable[ServedKind], group_name: str) -> list[str]:
    found = {kind.resource.version for kind in kinds if kind.resource.group == group_name}
    return sorted(found, key=version_order)


def _of_version(kinds: Iterable[ServedKind], group_name: str, version: str) -> list[ServedKind]:
    found = [
        kind
        for kind in kinds
        if kind.resource.group == group_name and kind.resource.version == version
    ]
    return sorted(found, key=lambda kind: kind.resource.plural)


def _group(kinds: Sequence[ServedKind], name: str) -> Document:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in _versions(kinds, name)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _verbs(kind: ServedKind) -> list[str]:
    """In the order of the real server, which differs for its own kinds."""
    return sorted(kind.verbs) if kind.builtin else list(kind.verbs)


def _resource_entries(kind: ServedKind) -> list[Document]:
    resource = kind.resource
    entry: Document = {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    below: Document = {
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(SUBRESOURCE_VERBS),
    }
    entries = [entry]
    if kind.has_status:
        entries.append({"name": f"{resource.plural}/status", **below})
    if kind.has_scale:
        scale = {"kind": "Scale", "group": "autoscaling", "version": "v1"}
        entries.append({"name": f"{resource.plural}/scale", **below, **scale})
    return entries


def _group_item(kinds: Sequence[ServedKind], name: str) -> Document:
    versions = [
        {
            "version": version,
            "resources": [_resource_item(kind) for kind in _of_version(kinds, name, version)],
            "freshness": "Current",
        }
        for version in _versions(kinds, name)
    ]
    metadata: Document = {"creationTimestamp": None}
    if name:
        metadata = {"name": name, **metadata}
    return {"metadata": metadata, "versions": versions}


def _resource_item(kind: ServedKind) -> Document:
    resource = kind.resource
    response = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    item: Document = {
        "resource": resource.plural,
        "responseKind": response,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        item["shortNames"] = list(kind.short_names)
    if kind.categories:
        item["categories"] = list(kind.categories)
    below: list[Document] = []
    if kind.has_status:
        below.append(_subresource("status", response))
    if kind.has_scale:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        below.append(_subresource("scale", scale))
    if below:
        item["subresources"] = below
    return item


def _subresource(name: str, response: Document) -> Document:
    return {"subresource": name, "responseKind": response, "verbs": list(SUBRESOURCE_VERBS)}
