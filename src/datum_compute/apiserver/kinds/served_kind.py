"""One kind as a plane serves it, and how it is built from a CustomResourceDefinition.

Discovery, OpenAPI, tables and the request handler read the same :class:`ServedKind` records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
class StoredForm:
    """How the objects of a kind are stored, where that is as those of another kind: the two
    differ in the names of fields of the object itself."""

    resource: Resource
    names: Mapping[str, str]
    """From the name of a field as it is shown to its name as it is stored."""

    def stored(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        hidden = self.names.values()  # not a field of the form that is shown
        kept = {key: value for key, value in obj.items() if key not in hidden}
        stored = {self.names.get(key, key): value for key, value in kept.items()}
        return {**stored, "apiVersion": self.resource.api_version}

    def shown(self, obj: Mapping[str, Any], api_version: str) -> dict[str, Any]:
        if obj.get("apiVersion") == api_version:
            return dict(obj)
        back = {stored: shown for shown, stored in self.names.items()}
        return {**{back.get(key, key): obj[key] for key in obj}, "apiVersion": api_version}


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
    deprecation: str = ""
    """The warning that comes with every response about it; empty for none."""
    needs_revision: bool = False
    """Whether an update of a built-in kind must name the revision it replaces."""
    created_by_update: bool = False
    """Whether a PUT of an object that does not exist creates it."""
    stored_form: StoredForm | None = None
    """None where objects are stored as they are shown. The schema is that of the stored form."""
    stored_as: str = field(init=False)
    """The group resource whose table has the objects."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored_as", self.stored_resource.group_resource)

    @property
    def stored_resource(self) -> Resource:
        """The kind as which the objects are stored, and as which they are judged."""
        return self.stored_form.resource if self.stored_form is not None else self.resource

    @property
    def is_plain(self) -> bool:
        """Whether an object is sent as it is stored, and with nothing besides."""
        return self.stored_form is None and not self.deprecation

    @property
    def has_scale(self) -> bool:
        return self.scale is not None

    @property
    def updated_blindly(self) -> bool:
        """Whether an update may leave out the revision that it replaces."""
        return self.builtin and not self.needs_revision

    def to_stored(self, obj: dict[str, Any]) -> dict[str, Any]:
        return self.stored_form.stored(obj) if self.stored_form is not None else obj

    def to_shown(self, obj: dict[str, Any]) -> dict[str, Any]:
        """The object in the version of this kind."""
        if self.stored_form is not None:
            return self.stored_form.shown(obj, self.resource.api_version)
        obj["apiVersion"] = self.resource.api_version
        return obj


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
            each["jsonPath"].removeprefix(".") for each in version.get("selectableFields") or ()
        ),
        scale=_scale_paths(subresources.get("scale")),
        deprecation=_deprecation(spec["group"], kind, version),
    )


def _deprecation(group: str, kind: str, version: Mapping[str, Any]) -> str:
    if not version.get("deprecated"):
        return ""
    return version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"


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
