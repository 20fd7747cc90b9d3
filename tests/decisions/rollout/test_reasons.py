"""Every reason is explained: who can act, how long it is normal, what to try."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import datum_compute
from datum_compute.api.compute import constants
from datum_compute.api.compute.reasons import (
    CATALOGUE,
    Actor,
    explain,
    humanize_reason,
)

SOURCES = Path(datum_compute.__file__).parent
EMITTERS = ("controllers", "decisions", "providers", "api/compute")
"""What writes conditions on the kinds of compute."""


def declared() -> set[str]:
    return {value for name, value in vars(constants).items() if name.startswith("REASON_")}


def assigned(file: Path) -> set[str]:
    """The values of constants called REASON_… in a module."""
    return {
        node.value.value
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.startswith("REASON_")
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def emitted() -> set[str]:
    files = [file for part in EMITTERS for file in sorted((SOURCES / part).rglob("*.py"))]
    others = [file for file in files if file.name != "reasons.py"]
    return {reason for file in others for reason in assigned(file)}


def test_the_catalogue_has_every_reason_of_the_vocabulary() -> None:
    assert declared() - set(CATALOGUE) == set()


def test_the_catalogue_has_every_reason_the_controllers_here_emit() -> None:
    assert constants.REASON_ASLEEP in emitted()
    assert emitted() - set(CATALOGUE) == set()


def test_the_catalogue_has_no_undeclared_reason() -> None:
    assert set(CATALOGUE) - declared() - emitted() == set()


@pytest.mark.parametrize("reason", sorted(CATALOGUE))
def test_an_explanation_is_whole(reason: str) -> None:
    found = CATALOGUE[reason]

    assert found.summary
    assert found.summary == found.summary.strip().rstrip(".")
    if found.healthy:
        assert not found.blocks
        assert (found.advice, found.command) == ("", "")
    else:
        assert found.advice.endswith(".")
        assert found.command.startswith("datumctl-compute ")
    if found.actor is Actor.WAIT and not found.healthy:
        assert found.usual_seconds, "what nobody acts on is normal only for a while"


def test_reasons_that_need_action_block_and_progress_does_not() -> None:
    assert explain("ImageUnavailable").actor_after(5) is Actor.USER
    assert explain("QuotaExceeded").blocks
    assert explain("NoCellForCity").actor_after(5) is Actor.PLATFORM
    assert not explain("ProvisioningNetwork").blocks
    assert not explain("CellUnreachable").blocks


def test_what_is_in_progress_far_longer_than_usual_is_the_platforms_concern() -> None:
    provisioning = explain("ProvisioningNetwork")

    assert provisioning.actor_after(119) is Actor.WAIT
    assert provisioning.actor_after(121) is Actor.PLATFORM
    assert explain("ImageUnavailable").actor_after(1e9) is Actor.USER


def test_an_undeclared_reason_is_described_by_its_own_name() -> None:
    found = explain("SourceTooLarge")

    assert found.summary == humanize_reason("SourceTooLarge") == "source too large"
    assert not found.blocks
    assert found.next_command("web") == "datumctl-compute why web"


def test_it_loads_nothing_but_the_standard_library() -> None:
    program = (
        "import sys, datum_compute.api.compute.reasons\n"
        "sys.exit('msgspec' in sys.modules or 'asyncio' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
