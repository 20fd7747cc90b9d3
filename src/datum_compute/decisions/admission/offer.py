"""What a project offers, and which of it the validation of a Workload needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute.instance_types import INSTANCE_TYPES
from datum_compute.api.fields import FieldPath
from datum_compute.decisions.admission import name_rules
from datum_compute.decisions.findings import FieldValue, Findings


@dataclass(frozen=True, slots=True)
class Offer:
    cities: tuple[str, ...] | None
    """City codes of the project's available locations, in the order errors list them; None
    when they could not be read, which is not the same as there being none."""
    networks: frozenset[str] | None = None
    """Networks that exist in the workload's namespace; None when they could not be read."""
    denied: frozenset[str] = frozenset()
    """Networks that the user may not use."""
    denied_data: frozenset[tuple[str, str]] = frozenset()
    """Kind and name of the ConfigMaps and Secrets that the user may not read."""
    instance_types: tuple[str, ...] = tuple(INSTANCE_TYPES)
    delivers_data: bool = True
    """Whether a controller reads the data that templates name, and sees it change."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What validation must read: on an update, only what it adds."""

    cities: bool
    networks: tuple[str, ...]
    data: tuple[tuple[str, str], ...] = ()
    """Kind and name of the ConfigMaps and Secrets whose bytes the author could get: all that the
    template names, where this write changes what runs."""


def decide_needs(workload: Any, old: Any = None) -> Needs:
    """What the validation of ``workload`` needs; ``old`` is the stored object, on an update."""
    cities = _cities(workload) - _cities(old)
    networks = set(networks_of(workload)) - set(networks_of(old))
    data = data_of(workload) if _program(workload) != _program(old) else {}
    return Needs(bool(cities), tuple(sorted(networks)), tuple(sorted(data)))


def data_of(workload: Any) -> dict[tuple[str, str], FieldValue]:
    """Kind and name of the ConfigMaps and Secrets a workload names, each with the first field
    that names it; invalid names are left out."""
    template = FieldValue(workload, FieldPath()).child("spec").child("template").child("spec")
    reader = Findings()
    places = []
    for volume in reader.items(template.child("volumes")):
        places.append(("ConfigMap", volume.child("configMap").child("name")))
        places.append(("Secret", volume.child("secret").child("secretName")))
    sandbox = template.child("runtime").child("sandbox")
    for container in reader.items(sandbox.child("containers")):
        sources = [each.child("valueFrom") for each in reader.items(container.child("env"))]
        sources += reader.items(container.child("envFrom"))
        for source in sources:
            for field, kind in DATA_FIELDS.items():
                places.append((kind, source.child(field).child("name")))
    pull_secrets = reader.items(sandbox.child("imagePullSecrets"))
    places += [("Secret", each.child("name")) for each in pull_secrets]
    found: dict[tuple[str, str], FieldValue] = {}
    for kind, place in places:
        if isinstance(place.value, str) and place.value:
            found.setdefault((kind, place.value), place)
    return found


DATA_FIELDS = {
    "configMapKeyRef": "ConfigMap",
    "secretKeyRef": "Secret",
    "configMapRef": "ConfigMap",
    "secretRef": "Secret",
}
"""The fields by which a variable names an object."""


def _program(workload: Any) -> Any:
    return FieldValue(workload, FieldPath()).child("spec").child("template").child("spec").value


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
