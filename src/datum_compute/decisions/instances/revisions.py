"""The revision of a template: equal templates hash equal, on any plane, in any release.

The same template can be written in several ways: a null, an empty list or a default that is
spelled out means the same as an absent field, and a server fills defaults in. All of those
are removed first. Unknown fields stay, because a newer client may mean something by them.

A template hashes to the same value for ever: a changed hash would restart everything that
runs. So the list of defaults below is frozen for the fields it could have named from the
start; a new field comes with its default on the day it is added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from datum_compute.api.compute.constants import ANNOTATION_AWAKE_UNTIL

_EACH = "[]"

_CONTAINER = ("spec", "runtime", "sandbox", "containers", _EACH)
_ENV_SOURCE = (*_CONTAINER, "env", _EACH, "valueFrom")
_VOLUME = ("spec", "volumes", _EACH)

Defaults = Mapping[tuple[str, ...], Any]
"""Paths, with ``[]`` for each item of a list, and the value of an absent field."""

TEMPLATE_DEFAULTS: Defaults = {
    (*_CONTAINER, "ports", _EACH, "protocol"): "TCP",
    (*_CONTAINER, "envFrom", _EACH, "configMapRef", "optional"): False,
    (*_CONTAINER, "envFrom", _EACH, "secretRef", "optional"): False,
    (*_ENV_SOURCE, "configMapKeyRef", "optional"): False,
    (*_ENV_SOURCE, "fieldRef", "apiVersion"): "v1",
    (*_ENV_SOURCE, "secretKeyRef", "optional"): False,
    ("spec", "runtime", "virtualMachine", "ports", _EACH, "protocol"): "TCP",
    (
        *("spec", "networkInterfaces", _EACH, "networkPolicy", "ingress", _EACH),
        *("ports", _EACH, "protocol"),
    ): "TCP",
    (*_VOLUME, "configMap", "defaultMode"): 0o644,
    (*_VOLUME, "configMap", "optional"): False,
    (*_VOLUME, "disk", "template", "spec", "type"): "pd-standard",
    (*_VOLUME, "secret", "defaultMode"): 0o644,
    (*_VOLUME, "secret", "optional"): False,
}

_MISSING = object()


def template_hash(template: bytes | Mapping[str, Any]) -> str:
    """The hash of an InstanceTemplate, given as its JSON or as JSON values."""
    values = template if isinstance(template, Mapping) else json.loads(bytes(template))
    canonical = json.dumps(
        _without_unhashed(without_defaults(values, TEMPLATE_DEFAULTS)),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    from hashlib import sha256  # the CLI needs only the defaults

    return sha256(canonical.encode()).hexdigest()[:16]


def without_defaults(values: Mapping[str, Any], defaults: Defaults) -> dict[str, Any]:
    """The values without nulls, empties and defaults."""
    return _object(values, (), defaults)


def _without_unhashed(template: dict[str, Any]) -> dict[str, Any]:
    """Without the annotations that running Instances take over."""
    metadata = template.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(annotations, dict):
        return template
    kept = {key: item for key, item in annotations.items() if key != ANNOTATION_AWAKE_UNTIL}
    if len(kept) == len(annotations):
        return template
    metadata = {**metadata, "annotations": kept}
    return without_defaults({**template, "metadata": metadata}, {})


def _normal(value: Any, path: tuple[str, ...], defaults: Defaults) -> Any:
    if isinstance(value, Mapping):
        return _object(value, path, defaults)
    if isinstance(value, list | tuple):
        # Items keep their place: an empty argument is an argument.
        return [_normal(item, (*path, _EACH), defaults) for item in value]
    return value


def _object(value: Mapping[str, Any], path: tuple[str, ...], defaults: Defaults) -> dict[str, Any]:
    if len(path) >= 2 and path[-2] == "metadata" and path[-1] in ("labels", "annotations"):
        # Keys of users, not fields: an entry with an empty value counts.
        return {key: item for key, item in value.items() if item is not None}
    result = {}
    for key, item in value.items():
        normal = _normal(item, (*path, key), defaults)
        empty = normal is None or normal in ("", [], {})
        if not empty and normal != defaults.get((*path, key), _MISSING):
            result[key] = normal
    return result
