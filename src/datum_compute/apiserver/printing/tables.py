"""The ``Table`` form of ``kubectl get``, and ``PartialObjectMetadata``.

A table is computed by the server so that every client shows the same columns. Dates in declared
columns are rendered as ages at ``now``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from datum_compute.apiserver.kinds.columns import TableColumn
from datum_compute.apiserver.kinds.served_kind import ServedKind

IncludeObject = Literal["None", "Metadata", "Object"]

JsonObject = Mapping[str, Any]


def table(
    kind: ServedKind,
    objects: Iterable[JsonObject],
    *,
    now: datetime,
    include_object: IncludeObject = "Metadata",
    resource_version: str,
    continue_token: str = "",
    remaining: int | None = None,
    with_columns: bool = True,
) -> dict[str, Any]:
    """A ``meta.k8s.io/v1`` Table. In a watch only the first event carries the columns."""
    cells = [column.value() for column in kind.columns]
    rows = [
        {
            "cells": [cell(obj, now) for cell in cells],
            "object": _row_object(obj, include_object),
        }
        for obj in objects
    ]
    definitions = [_definition(column) for column in kind.columns] if with_columns else []
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": _list_metadata(resource_version, continue_token, remaining),
        "columnDefinitions": definitions,
        "rows": rows,
    }


def partial_metadata(obj: JsonObject) -> dict[str, Any]:
    """The object as ``PartialObjectMetadata``."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


def partial_metadata_list(
    objects: Iterable[JsonObject],
    *,
    resource_version: str,
    continue_token: str = "",
    remaining: int | None = None,
) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": _list_metadata(resource_version, continue_token, remaining),
        "items": [partial_metadata(obj) for obj in objects],
    }


def _row_object(obj: JsonObject, include_object: IncludeObject) -> JsonObject | None:
    if include_object == "Object":
        return obj
    return partial_metadata(obj) if include_object == "Metadata" else None


def _definition(column: TableColumn) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _list_metadata(resource_version: str, token: str, remaining: int | None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": resource_version}
    if token:
        metadata["continue"] = token
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return metadata
