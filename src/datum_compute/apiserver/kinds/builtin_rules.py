"""Rules of single built-in kinds beyond their schema; custom resources have none.

Before the schema is applied a rule may change the object in place; afterwards, when its fields
have their types, a rule judges it, on an update with the object before. Both return field errors.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

from datum_compute.api import fields
from datum_compute.api.fields import FieldError
from datum_compute.apiserver.kinds import (
    access_kinds,
    data_rules,
    definitions,
    event_rules,
    webhook_configurations,
    wire_times,
)

NAMESPACES = "namespaces"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
SECRETS = "secrets"
ACCOUNTS = "serviceaccounts"
EVENTS = "events"
RENAMED_EVENTS = "events.events.k8s.io"
LEASES = "leases.coordination.k8s.io"
CONFIG_MAPS = "configmaps"

CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that holds a definition until its objects are gone."""
NAMESPACE_CLEANUP = "kubernetes"
"""The entry of a namespace's ``spec.finalizers`` that waits for its content to be deleted."""

BuiltinRule = Callable[[dict[str, Any]], list[FieldError]]


ChangeRule = Callable[[dict[str, Any], dict[str, Any] | None], list[FieldError]]


def before_write(resource: str, obj: dict[str, Any]) -> list[FieldError]:
    """Applied on create and on update, before the schema."""
    rule = _BEFORE_WRITE.get(resource)
    return rule(obj) if rule else []


def after_schema(
    resource: str, obj: dict[str, Any], old: dict[str, Any] | None = None
) -> list[FieldError]:
    """Judges what the schema accepted; ``old`` is what an update replaces."""
    rule = _AFTER_SCHEMA.get(resource)
    return rule(obj, old) if rule else []


def drop_nulls(resource: str, obj: dict[str, Any]) -> None:
    """Drop fields without a value, which mean nothing in Go's types; in a map of texts the key
    stays, with an empty text. In a definition's schema they may have a meaning."""
    for field in _TEXT_MAPS.get(resource, ()):
        if isinstance(held := obj.get(field), dict) and None in held.values():
            obj[field] = {key: "" if value is None else value for key, value in held.items()}
    _drop_nulls(obj)


_TEXT_MAPS = {CONFIG_MAPS: ("data", "binaryData"), SECRETS: ("data", "stringData")}


def _drop_nulls(obj: dict[str, Any]) -> None:
    for key in [key for key, value in obj.items() if value is None]:
        del obj[key]
    for key, value in obj.items():
        if isinstance(value, dict) and key != "openAPIV3Schema":
            _drop_nulls(value)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    _drop_nulls(each)


def drop_empty(obj: dict[str, Any]) -> None:
    """Upstream's types write no empty maps and lists."""
    for key in [key for key, value in obj.items() if not value and value in ({}, [])]:
        if key not in ("metadata", "spec", "status"):
            del obj[key]


def _namespace(obj: dict[str, Any]) -> list[FieldError]:
    metadata = obj["metadata"]
    labels = dict(metadata.get("labels") or {})
    name = labels["kubernetes.io/metadata.name"] = metadata.get("name", "")
    metadata["labels"] = labels
    if len(name) > _LABEL_LIMIT:
        detail = f"must be no more than {_LABEL_LIMIT} characters"
        return [fields.invalid("metadata.labels", name, detail)]
    return []


_LABEL_LIMIT = 63


def _namespace_phase(obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    phase = (obj.get("status") or {}).get("phase")
    expected = "Terminating" if "deletionTimestamp" in obj["metadata"] else "Active"
    if old is None or phase in (None, "", expected):
        return []
    is_empty = "empty" if expected == "Active" else "not empty"
    detail = f"may only be '{expected}' if `deletionTimestamp` is {is_empty}"
    return [fields.invalid("status.Phase", phase, detail)]


def new_namespace(obj: dict[str, Any]) -> None:
    obj["spec"] = {"finalizers": [NAMESPACE_CLEANUP]}
    obj["status"] = {"phase": "Active"}


def _config_map(obj: dict[str, Any]) -> list[FieldError]:
    _join_lines(obj, "binaryData")
    return []


def _join_lines(obj: dict[str, Any], field: str) -> None:
    """Base64 may have line ends, which are not kept."""
    if not isinstance(data := obj.get(field), dict):
        return
    obj[field] = {
        key: text.replace("\n", "").replace("\r", "") if isinstance(text, str) else text
        for key, text in data.items()
    }


def _secret(obj: dict[str, Any]) -> list[FieldError]:
    _join_lines(obj, "data")
    plain, data = obj.get("stringData"), obj.get("data") or {}
    # Of another type it is left to the schema.
    if isinstance(plain, dict) and isinstance(data, dict) and _are_texts(plain.values()):
        del obj["stringData"]
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
        obj["data"] = {**data, **encoded}
    if not obj.get("type"):
        obj["type"] = "Opaque"
    return []


def _account(obj: dict[str, Any]) -> list[FieldError]:
    """Of a secret of an account the name alone is kept."""
    for key in ("secrets", "imagePullSecrets"):
        if isinstance(secrets := obj.get(key), list) and None in secrets:
            obj[key] = [{} if each is None else each for each in secrets]
    if isinstance(secrets := obj.get("secrets"), list):
        obj["secrets"] = [
            {"name": each["name"]} if isinstance(each, dict) and "name" in each else each
            for each in secrets
        ]
    return []


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _lease(obj: dict[str, Any]) -> list[FieldError]:
    spec = obj.setdefault("spec", {})
    if isinstance(spec, dict):
        # Upstream drops them too, as long as no server chooses the holders.
        for key in ("strategy", "preferredHolder"):
            spec.pop(key, None)
    return wire_times.normalize(spec, "spec.", micros=("acquireTime", "renewTime"))


def _default_binding(obj: dict[str, Any]) -> list[FieldError]:
    access_kinds.default_subjects(obj)
    return []


def _role(obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    return access_kinds.validate_role(obj)


def _binding(obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    errors = access_kinds.validate_binding(obj)
    if old is not None and obj.get("roleRef") != old.get("roleRef"):
        errors.append(fields.invalid("roleRef", obj.get("roleRef"), "cannot change roleRef"))
    return errors


_ROLES = tuple(f"{each}.{access_kinds.RBAC}" for each in ("roles", "clusterroles"))
_BINDINGS = tuple(f"{each}.{access_kinds.RBAC}" for each in ("rolebindings", "clusterrolebindings"))


def _definition(obj: dict[str, Any]) -> list[FieldError]:
    definitions.set_defaults(obj)
    return []


_BEFORE_WRITE: dict[str, BuiltinRule] = {
    NAMESPACES: _namespace,
    CRDS: _definition,
    CONFIG_MAPS: _config_map,
    SECRETS: _secret,
    ACCOUNTS: _account,
    **dict.fromkeys((EVENTS, RENAMED_EVENTS), event_rules.normalize),
    LEASES: _lease,
    **dict.fromkeys(_BINDINGS, _default_binding),
    webhook_configurations.MUTATING: webhook_configurations.set_defaults,
    webhook_configurations.VALIDATING: webhook_configurations.set_defaults,
}
_AFTER_SCHEMA: dict[str, ChangeRule] = {
    NAMESPACES: _namespace_phase,
    CONFIG_MAPS: data_rules.validate_config_map,
    SECRETS: data_rules.validate_secret,
    EVENTS: event_rules.validate,
    RENAMED_EVENTS: event_rules.validate_renamed,
    **dict.fromkeys(_ROLES, _role),
    **dict.fromkeys(_BINDINGS, _binding),
}
