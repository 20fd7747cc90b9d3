"""Rules of single built-in kinds beyond their schema; custom resources have none.

A rule changes the object in place and returns its field errors.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from datum_compute.api import fields
from datum_compute.api.fields import FieldError

NAMESPACES = "namespaces"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
SECRETS = "secrets"
EVENTS = "events"

CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that holds a definition until its objects are gone."""
NAMESPACE_CLEANUP = "kubernetes"
"""The entry of a namespace's ``spec.finalizers`` that waits for its content to be deleted."""

BuiltinRule = Callable[[dict[str, Any]], list[FieldError]]


def before_write(resource: str, obj: dict[str, Any]) -> list[FieldError]:
    """Applied on create and on update, before the schema."""
    rule = _BEFORE_WRITE.get(resource)
    return rule(obj) if rule else []


def _namespace(obj: dict[str, Any]) -> list[FieldError]:
    metadata = obj["metadata"]
    labels = dict(metadata.get("labels") or {})
    labels["kubernetes.io/metadata.name"] = metadata.get("name", "")
    metadata["labels"] = labels
    return []


def new_namespace(obj: dict[str, Any]) -> None:
    obj["spec"] = {"finalizers": [NAMESPACE_CLEANUP]}
    obj["status"] = {"phase": "Active"}


def _secret(obj: dict[str, Any]) -> list[FieldError]:
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict):
        data = dict(obj.get("data") or {})
        for key, value in plain.items():
            if not isinstance(value, str):
                return [fields.type_invalid(f"stringData[{key}]", value, "must be a string")]
            data[key] = base64.b64encode(value.encode()).decode()
        obj["data"] = data
    obj.setdefault("type", "Opaque")
    return []


def _event(obj: dict[str, Any]) -> list[FieldError]:
    about = obj.get("involvedObject")
    about = about if isinstance(about, dict) else {}
    namespace = about.get("namespace") or "default"
    if namespace != obj["metadata"].get("namespace", ""):
        detail = "does not match event.namespace"
        return [fields.invalid("involvedObject.namespace", about.get("namespace", ""), detail)]
    return []


_BEFORE_WRITE: dict[str, BuiltinRule] = {NAMESPACES: _namespace, SECRETS: _secret, EVENTS: _event}
