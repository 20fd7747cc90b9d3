"""The conditions of the compute kinds, from the records of their reasons."""

from __future__ import annotations

from datum_compute.api.compute.reasons import REASONS, KindCondition
from datum_compute.api.condition_types import DeclaredCondition


def declared(condition: KindCondition, inherits_from: str = "") -> DeclaredCondition:
    """The condition with the reasons whose records name it."""
    return DeclaredCondition(
        condition.type,
        true=tuple(each.name for each in REASONS.values() if condition in each.true),
        false=tuple(each.name for each in REASONS.values() if condition in each.false),
        unknown=tuple(each.name for each in REASONS.values() if condition in each.unknown),
        inherits_from=inherits_from,
    )
