"""Every condition and reason has a meaning, and belongs to a kind that lists it."""

from __future__ import annotations

from pathlib import Path

import pytest

from datum_compute import api
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.kinds import KINDS
from scripts import api_constants

API = Path(api.__file__).parent
MODULES = sorted(API.rglob("*.py"))
PREFIXES = (
    "CONDITION_",
    "REASON_",
    "LABEL_",
    "ANNOTATION_",
    "FINALIZER_",
    "GATE_",
    "PHASE_",
    "TAINT_",
)

EVENTS_ONLY = {
    compute.REASON_COMMAND_RUN,
    compute.REASON_QUOTA_CLAIM_ORPHANED,
    compute.REASON_SCALED,
    compute.REASON_RECREATED,
    compute.REASON_TERMINATING,
}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.parent.name + module.stem)
def test_every_condition_and_reason_constant_is_documented(module: Path) -> None:
    silent = [
        each.name
        for each in api_constants.constants(module)
        if each.name.startswith(PREFIXES) and not each.meaning
    ]

    assert silent == []


def test_every_declared_condition_and_reason_has_a_meaning() -> None:
    silent = []
    for kind in KINDS:
        words = api_constants.vocabulary_of(kind)
        for condition in kind.conditions:
            if condition.type not in words.conditions:
                silent.append(f"{kind.resource.kind} {condition.type}")
            silent += [
                f"{kind.resource.kind} {condition.type} {reason}"
                for _, reason in condition.reasons()
                if reason not in words.reasons
            ]

    assert silent == []


def test_every_reason_is_listed_by_a_kind() -> None:
    listed = {
        reason
        for kind in KINDS
        for condition in kind.conditions + compute.PLACEMENT_CONDITIONS
        for _, reason in condition.reasons()
    }
    written = {
        each.value
        for module in MODULES
        for each in api_constants.constants(module)
        if each.name.startswith("REASON_")
    } | set(compute.REASONS)

    assert written - listed == EVENTS_ONLY


def test_a_condition_or_reason_means_one_thing_in_its_package() -> None:
    twice = []
    for package in sorted({module.parent for module in MODULES}):
        found = [
            each for module in package.rglob("*.py") for each in api_constants.constants(module)
        ]
        for prefix in ("CONDITION_", "REASON_"):
            values = [each.value for each in found if each.name.startswith(prefix)]
            twice += [value for value in values if package != API and values.count(value) > 1]

    assert twice == []


def test_a_condition_that_is_shown_is_one_the_kind_declares() -> None:
    declared = {
        kind.resource.kind: {condition.type for condition in kind.conditions} for kind in KINDS
    }

    for kind in KINDS:
        for condition in kind.default_status.get("conditions", ()):
            assert condition["type"] in declared[kind.resource.kind]
