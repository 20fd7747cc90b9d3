"""Every reason has one record, and the record is consistent."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import datum_compute
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.reasons import REASONS, Actor, lookup

SOURCES = Path(datum_compute.__file__).parent
COMPUTE = [SOURCES / name for name in ("controllers", "decisions", "providers", "api/compute")]


def test_every_constant_has_a_record_and_every_record_a_constant() -> None:
    constants = [value for name, value in vars(compute).items() if name.startswith("REASON_")]

    assert sorted(constants) == sorted(REASONS)
    assert [each.name for each in REASONS.values()] == list(REASONS)


def test_compute_declares_reasons_in_one_module_only() -> None:
    elsewhere = [
        f"{file.relative_to(SOURCES)}: {target.id}"
        for folder in COMPUTE
        for file in sorted(folder.rglob("*.py"))
        if file != Path(reasons.__file__)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.startswith("REASON_")
    ]

    assert elsewhere == []


@pytest.mark.parametrize("reason", REASONS.values(), ids=lambda reason: str(reason.name))
def test_a_record_is_consistent(reason: reasons.Reason) -> None:
    assert reason.meaning.endswith(".")
    # These two are about what is not as it should be: they are there only while True.
    true = set(reason.true) - {reasons.WORKLOAD_RECONCILING, reasons.WORKLOAD_STALLED}
    assert not (true and (reason.false or reason.unknown))
    # A rollout makes progress also while it waits for what a user or a program has to set.
    assert reason.healthy or not true - {reasons.WORKLOAD_PROGRESSING}
    assert reason.healthy or reason.needs_action or not true
    if reason.healthy:
        assert not reason.needs_action
    if reason.terminal or reason.fails_after_grace:
        assert reason.needs_action
    if reason.placeholder:
        assert reason.priority == 0
    if reason.actor is Actor.WAIT and not reason.healthy:
        assert reason.usual_seconds, "work in progress is normal only for a while"


def test_the_actor_changes_only_for_work_that_takes_longer_than_usual() -> None:
    assert lookup("ImageUnavailable").actor_after(1e9) is Actor.USER
    assert lookup("NoCellForCity").actor_after(5) is Actor.PLATFORM
    assert lookup("ProvisioningNetwork").actor_after(119) is Actor.WAIT
    assert lookup("ProvisioningNetwork").actor_after(121) is Actor.PLATFORM


def test_an_unknown_reason_is_work_in_progress() -> None:
    found = lookup("FromLaterVersion")

    assert (found.name, found.needs_action, found.terminal) == ("FromLaterVersion", False, False)
    assert found.priority == 0
    assert not found.placeholder
    assert lookup("").placeholder


def test_severity_puts_terminal_reasons_before_those_that_need_action() -> None:
    ordered = ["InstanceCrashing", "QuotaExceeded", "CellUnreachable"]

    assert sorted(ordered, key=lambda name: lookup(name).severity, reverse=True) == ordered


def test_the_failures_of_providers_are_those_of_the_contract() -> None:
    assert set(reasons.PROVIDER_FAILURES) >= {
        "ImageUnavailable",
        "InstanceCrashing",
        "ConfigurationError",
    }


def test_a_gate_reports_a_reason_of_the_providers_conditions() -> None:
    for gate in reasons.GATES.values():
        if gate.reason:
            assert gate.condition
            assert reasons.INSTANCE_PROGRAMMED in lookup(gate.reason).false


def test_a_gate_without_a_reason_of_its_own_has_reasons_that_ready_can_carry() -> None:
    for gate in (each for each in reasons.DECIDED_GATES if not each.reason):
        condition = reasons.KindCondition("Instance", gate.condition)
        carried = [each for each in reasons.REASONS.values() if condition in each.false]
        assert carried
        assert all(reasons.INSTANCE_READY in each.false and each.priority for each in carried)


def test_the_condition_of_a_gate_has_a_reason_from_the_start() -> None:
    for gate in (each for each in reasons.DECIDED_GATES if each.initial_reason):
        condition = reasons.KindCondition("Instance", gate.condition)
        assert condition in lookup(gate.initial_reason).unknown
        assert gate.initial_message


def test_the_records_load_neither_msgspec_nor_dataclasses() -> None:
    program = (
        "import sys, datum_compute.api.compute.reasons\n"
        "sys.exit(bool({'msgspec', 'asyncio', 'dataclasses'} & sys.modules.keys()))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
