"""The validation of a Workload that is about to be created or changed.

On an update the rules are those of a create, but an error that the stored object already has,
in the same place and with the same value, does not count. So a newer rule, or a city that is
no longer served, never blocks another change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute import constants
from datum_compute.api.fields import FieldError, FieldPath
from datum_compute.decisions.admission import name_rules
from datum_compute.decisions.admission.offer import Offer, data_of, decide_needs
from datum_compute.decisions.admission.placements import validate_placements
from datum_compute.decisions.admission.template import validate_template
from datum_compute.decisions.admission.warnings import (
    decide_warnings,
    undeclared_port,
    unnamed_cities,
)
from datum_compute.decisions.findings import FieldValue, Finding, Findings
from datum_compute.decisions.rollout.policy import OnFailure, read_policy
from datum_compute.decisions.rollout.state import LARGEST_TEMPLATE, template_text
from datum_compute.decisions.routing import parse_port


@dataclass(frozen=True, slots=True)
class AdmissionDecision:
    errors: tuple[FieldError, ...] = ()
    """Every error, in the order of the document; without any it may be stored."""
    warnings: tuple[str, ...] = ()


def decide_admission(
    workload: Any, *, offer: Offer, old: Any = None, sleeps: bool = True
) -> AdmissionDecision:
    """The errors and warnings of ``workload``, any JSON value. ``old`` is the stored object, on
    an update. ``sleeps`` says whether Instances can sleep on this platform."""
    found = _validate(workload, offer)
    if old is not None:
        found = _added(found, _validate(old, offer))
    found += _denied_data(workload, offer)
    rollout, http_port = constants.ANNOTATION_ROLLOUT, constants.ANNOTATION_HTTP_PORT
    same = old is not None and _spec(old) == _spec(workload)
    networks = decide_needs(workload, old).networks
    warnings = () if same else decide_warnings(workload, offer, networks, sleeps=sleeps)
    if not same or _annotation(old, rollout) != _annotation(workload, rollout):
        warnings += unnamed_cities(workload)
    if not same or _annotation(old, http_port) != _annotation(workload, http_port):
        warnings += undeclared_port(workload)
    return AdmissionDecision(tuple(finding.error for finding in found), warnings)


def _validate(workload: Any, offer: Offer) -> list[Finding]:
    findings = Findings()
    root = FieldValue(workload, FieldPath())
    if findings.is_mapping(root, needed=True):
        metadata = root.child("metadata")
        if findings.is_mapping(metadata, needed=True):
            _validate_name(findings, metadata)
        spec = root.child("spec")
        annotations = metadata.child("annotations")
        _validate_rollout(findings, annotations, spec.child("template"))
        _validate_http_port(findings, annotations.entry(constants.ANNOTATION_HTTP_PORT))
        if findings.is_mapping(spec, needed=True):
            namespace = metadata.child("namespace").value
            validate_template(
                findings,
                spec.child("template"),
                namespace if isinstance(namespace, str) else "",
                offer,
            )
            validate_placements(findings, spec.child("placements"), offer.cities)
    return findings.found


def _denied_data(workload: Any, offer: Offer) -> list[Finding]:
    """Also of objects that the stored workload names: who changes what runs could read them."""
    findings = Findings()
    for (kind, name), place in data_of(workload).items():
        if (kind, name) in offer.denied_data:
            findings.forbidden(place, f'permission to read {kind} "{name}" was denied')
    return findings.found


def _validate_name(findings: Findings, metadata: FieldValue) -> None:
    """Deployments and Instances are named after the workload, so it must be a label. Its length
    does not matter beyond that: their names are shortened to fit."""
    name, generate = metadata.child("name"), metadata.child("generateName")
    if name.value in (None, "") and generate.given:
        name_rules.validate_generate_name(findings, generate)
    else:
        name_rules.validate_dns_label(findings, name)


def _validate_rollout(findings: Findings, annotations: FieldValue, template: FieldValue) -> None:
    place = annotations.entry(constants.ANNOTATION_ROLLOUT)
    policy = read_policy(findings, place)
    if policy is None or policy.on_failure is not OnFailure.UNDO:
        return
    size = len(template_text(template.value or {}).encode())
    if size > LARGEST_TEMPLATE:
        findings.invalid(
            FieldValue(OnFailure.UNDO.value, place.path.child("onFailure"), place.identity),
            f"the template has {size} bytes as JSON, and at most {LARGEST_TEMPLATE} can be kept to"
            " go back to",
        )


def _validate_http_port(findings: Findings, place: FieldValue) -> None:
    text = findings.text(place)
    if place.given and isinstance(place.value, str) and parse_port(text) is None:
        findings.invalid(place, "must be an integer from 1 to 65535")


def _added(found: list[Finding], stored: list[Finding]) -> list[Finding]:
    known: dict[tuple[str, ...], list[Finding]] = {}
    for finding in stored:
        known.setdefault(finding.identity, []).append(finding)
    return [
        finding
        for finding in found
        if not any(finding.is_same(other) for other in known.get(finding.identity, ()))
    ]


def _annotation(workload: Any, name: str) -> Any:
    metadata = FieldValue(workload, FieldPath()).child("metadata")
    return metadata.child("annotations").child(name).value


def _spec(workload: Any) -> Any:
    return workload.get("spec") if isinstance(workload, dict) else None
