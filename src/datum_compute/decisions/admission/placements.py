"""The placements of a Workload: cities and scale."""

from __future__ import annotations

from datum_compute.api.compute import constants
from datum_compute.decisions.admission import name_rules
from datum_compute.decisions.admission.volumes import quantity
from datum_compute.decisions.findings import FieldValue, Findings

LARGEST_COUNT = 1000
METRICS = ("cpu",)
TARGETS = ("value", "averageValue", "averageUtilization")


def validate_placements(
    findings: Findings, placements: FieldValue, cities: tuple[str, ...] | None
) -> None:
    if placements.value in (None, []):
        findings.required(placements, "at least one placement")
    names: set[str] = set()
    for placement in findings.mappings(placements, "name"):
        name = name_rules.validate_dns_label(findings, placement.child("name"))
        if name and name in names:
            findings.duplicate(placement.child("name"))
        names.add(name)
        _validate_cities(findings, placement.child("cityCodes"), cities)
        _validate_scale(findings, placement.child("scaleSettings"))


def _validate_cities(findings: Findings, codes: FieldValue, cities: tuple[str, ...] | None) -> None:
    if codes.value in (None, []):
        findings.required(codes, "at least one city")
    known = {city.lower() for city in cities or ()}
    seen: set[str] = set()
    for place in findings.items(codes, ""):
        city = findings.text(place, needed=True)
        if not city:
            continue
        if city.lower() in seen:  # the same place, whatever the case
            findings.duplicate(place)
            continue
        seen.add(city.lower())
        if cities is None:
            findings.unknown(place, "the project's locations could not be read: try again")
        elif not cities:
            findings.invalid(place, "the project has no available location")
        elif city.lower() not in known:
            findings.not_supported(place, cities)


def _validate_scale(findings: Findings, scale: FieldValue) -> None:
    if not findings.is_mapping(scale, needed=True):
        return
    minimum = findings.integer(scale.child("minReplicas"), needed=True)
    if minimum is not None and not 1 <= minimum <= LARGEST_COUNT:
        findings.invalid(scale.child("minReplicas"), f"must be from 1 to {LARGEST_COUNT}")
    maximum = findings.integer(scale.child("maxReplicas"))
    if maximum is not None and maximum < 1:
        findings.invalid(scale.child("maxReplicas"), "must be at least 1")
    metrics = scale.child("metrics")
    if maximum is not None and metrics.value in (None, []):
        findings.required(metrics, "maxReplicas needs a metric to scale by")
    for metric in findings.mappings(metrics):
        _validate_metric(findings, metric.child("resource"))
    findings.choice(scale.child("instanceManagementPolicy"), constants.POLICIES)


def _validate_metric(findings: Findings, resource: FieldValue) -> None:
    if not findings.is_mapping(resource, needed=True):
        return
    name = findings.text(resource.child("name"), needed=True)
    if name and name not in METRICS:
        findings.not_supported(resource.child("name"), METRICS)
    target = resource.child("target")
    if not findings.is_mapping(target, needed=True):
        return
    given = [kind for kind in TARGETS if target.child(kind).given]
    if not given:
        findings.required(target, f"exactly one of {', '.join(TARGETS)}")
    for extra in given[1:]:
        findings.forbidden(target.child(extra), f"may not be given together with {given[0]}")
    for kind in given:
        place = target.child(kind)
        if kind == "averageUtilization":
            percent = findings.integer(place)
            if percent is not None and percent < 1:
                findings.invalid(place, "must be at least 1 percent")
        else:
            amount = quantity(findings, place)
            if amount is not None and amount <= 0:
                findings.invalid(place, "must be greater than zero")
