"""The ``Table`` form of ``kubectl get``, and ``PartialObjectMetadata``.

A table is computed by the server so that every client shows the same columns. Dates in declared
columns are rendered as ages at ``now``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from datum_compute.apiserver.kinds.columns import TableColumn
from datum_compute.apiserver.kinds.served_kind import ServedKind

IncludeObject = Literal["None", "Metadata", "Object"]

JsonObject = Mapping[str, Any]


META_GROUP = "meta.k8s.io"


def table(
    kind: ServedKind,
    objects: Iterable[JsonObject],
    *,
    now: datetime,
    include_object: IncludeObject = "Metadata",
    resource_version: str,
    with_columns: bool = True,
    version: str = "v1",
) -> dict[str, Any]:
    """A ``meta.k8s.io`` Table. In a watch only the first event carries the columns."""
    row = row_of(kind, now, include_object, version)
    return {
        **head("Table", version),
        "metadata": {"resourceVersion": resource_version},
        "columnDefinitions": definitions(kind) if with_columns else None,
        "rows": [row(obj) for obj in objects],
    }


def head(kind: str, version: str) -> dict[str, str]:
    return {"kind": kind, "apiVersion": f"{META_GROUP}/{version}"}


def row_of(
    kind: ServedKind, now: datetime, include_object: IncludeObject, version: str = "v1"
) -> Callable[[JsonObject], dict[str, Any]]:
    """From an object to its row."""
    cells = [column.value() for column in kind.columns]

    def row(obj: JsonObject) -> dict[str, Any]:
        return {
            "cells": [cell(obj, now) for cell in cells],
            "object": _row_object(obj, include_object, version),
        }

    return row


def definitions(kind: ServedKind) -> list[dict[str, Any]]:
    """The columns of a kind."""
    return [_definition(column) for column in kind.columns]


def partial_metadata(obj: JsonObject, version: str = "v1") -> dict[str, Any]:
    """The object as ``PartialObjectMetadata``."""
    return {**head("PartialObjectMetadata", version), "metadata": obj["metadata"]}


def _row_object(obj: JsonObject, include_object: IncludeObject, version: str) -> JsonObject | None:
    if include_object == "Object":
        return obj
    return partial_metadata(obj, version) if include_object == "Metadata" else None


def _definition(column: TableColumn) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
