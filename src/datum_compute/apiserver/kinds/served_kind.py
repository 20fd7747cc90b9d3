"""One kind as a plane serves it, and how it is built from a CustomResourceDefinition.

Discovery, OpenAPI, tables and the request handler read the same :class:`ServedKind` records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datum_compute.api.scheme import Resource
from datum_compute.apiserver.kinds.columns import AGE, NAME, TableColumn
from datum_compute.apiserver.schema import Schema, compiled

FieldSteps = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where in an object its scale is."""

    spec_replicas: FieldSteps
    status_replicas: FieldSteps
    label_selector: FieldSteps = ()


@dataclass(frozen=True, eq=False, slots=True)
class ServedKind:
    """A kind in one version. Compared by identity: two planes may serve it differently."""

    resource: Resource
    list_kind: str
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[TableColumn, ...]
    """All of them in order, the name included."""
    has_status: bool
    schema: Schema
    verbs: tuple[str, ...]
    builtin: bool
    selectable_fields: tuple[str, ...]
    """As field selectors name them (``spec.color``), beside metadata.name and namespace."""
    scale: ScalePaths | None = None

    @property
    def has_scale(self) -> bool:
        return self.scale is not None


SUBRESOURCE_VERBS = ("get", "patch", "update")
VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


def from_crd(crd: Mapping[str, Any]) -> list[ServedKind]:
    """One kind per served version of a valid definition."""
    spec = crd["spec"]
    names = spec["names"]
    return [
        _from_version(spec, names, version) for version in spec["versions"] if version["served"]
    ]


def _from_version(
    spec: Mapping[str, Any], names: Mapping[str, Any], version: Mapping[str, Any]
) -> ServedKind:
    kind: str = names["kind"]
    subresources = version.get("subresources") or {}
    declared = version.get("additionalPrinterColumns")
    columns = [_declared_column(column) for column in declared] if declared else [AGE]
    return ServedKind(
        resource=Resource(
            spec["group"], version["name"], names["plural"], kind, spec["scope"] == "Namespaced"
        ),
        list_kind=names.get("listKind") or f"{kind}List",
        singular=names.get("singular") or kind.lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        columns=(NAME, *columns),
        has_status="status" in subresources,
        schema=compiled(version["schema"]["openAPIV3Schema"]),
        verbs=VERBS,
        builtin=False,
        selectable_fields=tuple(
            field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()
        ),
        scale=_scale_paths(subresources.get("scale")),
    )


def _scale_paths(declared: Mapping[str, Any] | None) -> ScalePaths | None:
    """As a definition gives them: ``.spec.replicas`` and the like."""
    if not declared:
        return None
    spec, status, selector = (
        tuple(filter(None, str(declared.get(key) or "").split(".")))
        for key in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    )
    return ScalePaths(spec, status, selector) if spec and status else None


def _declared_column(column: Mapping[str, Any]) -> TableColumn:
    return TableColumn(
        column["name"],
        column["type"],
        column["jsonPath"],
        column.get("priority", 0),
        column.get("format", ""),
        column.get("description", ""),
    )
