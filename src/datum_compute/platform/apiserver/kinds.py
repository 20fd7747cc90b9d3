"""Which kinds a plane serves, and all that clients may ask about each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datum_compute.api.fields import FieldError
from datum_compute.api.scheme import Resource
from datum_compute.platform.apiserver.schema import Schema


class CrdInvalid(Exception):
    """A CustomResourceDefinition that cannot be served; ``errors`` say where and why."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = list(errors)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of ``kubectl get``."""

    name: str
    type: str
    """integer, number, string, boolean or date."""
    json_path: str
    priority: int = 0
    """Above 0: shown only with ``-o wide``."""
    format: str = ""
    description: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class ServedKind:
    """A kind in one version. Compared by identity: two planes may serve it differently."""

    resource: Resource
    list_kind: str
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[Column, ...]
    has_status: bool
    has_scale: bool
    schema: Schema
    verbs: tuple[str, ...]
    builtin: bool
    selectable_fields: tuple[str, ...]
    """As field selectors name them (``spec.color``), beside metadata.name and namespace."""


def builtin_kinds() -> list[ServedKind]:
    """The kinds every plane serves without a CustomResourceDefinition."""
    raise NotImplementedError


def from_crd(crd: Mapping[str, Any]) -> list[ServedKind]:
    """One kind per served version. Raises :class:`CrdInvalid`."""
    raise NotImplementedError
