"""Structural schemas, compiled: prune, default and validate an object in one walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from datum_compute.api.fields import FieldError


@dataclass(slots=True)
class Outcome:
    """What one walk found. The object itself was changed in place."""

    unknown: list[str] = field(default_factory=list)
    """Paths of fields that were dropped, as kubectl shows them: ``spec.list[0].y``."""
    errors: list[FieldError] = field(default_factory=list)


class Schema:
    """One kind's schema, compiled. Immutable, and shared by everything of equal content."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.source = source

    def process(self, obj: dict[str, Any]) -> Outcome:
        """Prune, default and validate ``obj`` in place. ``metadata`` is left alone."""
        raise NotImplementedError


def compiled(source: Mapping[str, Any]) -> Schema:
    """The schema of this ``openAPIV3Schema``; equal content gives the very same object."""
    return Schema(source)
