"""What a project offers, and which of it the validation of a Workload needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute.instance_types import INSTANCE_TYPES
from datum_compute.api.fields import FieldPath
from datum_compute.decisions.admission import name_rules
from datum_compute.decisions.admission.findings import FieldValue, Findings


@dataclass(frozen=True, slots=True)
class Offer:
    cities: tuple[str, ...] | None
    """City codes of the project's available locations, in the order errors list them; None
    when they could not be read, which is not the same as there being none."""
    networks: frozenset[str] | None = None
    """Networks that exist in the workload's namespace; None when they could not be read."""
    denied: frozenset[str] = frozenset()
    """Networks that the user may not use."""
    instance_types: tuple[str, ...] = tuple(INSTANCE_TYPES)


@dataclass(frozen=True, slots=True)
class Needs:
    """What validation must read: on an update, only what it adds."""

    cities: bool
    networks: tuple[str, ...]


def decide_needs(workload: Any, old: Any = None) -> Needs:
    """What the validation of ``workload`` needs; ``old`` is the stored object, on an update."""
    cities = _cities(workload) - _cities(old)
    networks = set(networks_of(workload)) - set(networks_of(old))
    return Needs(bool(cities), tuple(sorted(networks)))


def networks_of(workload: Any) -> tuple[str, ...]:
    """The networks a workload's interfaces name, each once, in order; invalid names are left
    out, so that they are not looked up."""
    findings = Findings()  # validation reports these errors
    template = FieldValue(workload, FieldPath()).child("spec").child("template")
    interfaces = findings.items(template.child("spec").child("networkInterfaces"))
    names = [each.child("network").child("name").value for each in interfaces]
    return tuple(dict.fromkeys(name for name in names if name_rules.is_dns_label(name)))


def _cities(workload: Any) -> set[tuple[str, ...]]:
    findings = Findings()
    placements = FieldValue(workload, FieldPath()).child("spec").child("placements")
    return {
        city.identity
        for placement in findings.items(placements, "name")
        for city in findings.items(placement.child("cityCodes"), "")
    }
