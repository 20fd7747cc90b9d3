"""What commands say of a city whose cell is disconnected, and what they suggest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from datum_compute.assembly.local.state import StateDirectory
from tests.support.cli.session import CliSession, cli_session

STEP = "datumctl-compute local cell connect LHR"


@pytest.fixture
def here() -> Iterator[CliSession]:
    with cli_session("DFW", "LHR") as found:
        assert found.run("deploy api --image=a:1 --city=DFW,LHR --window=0s").code == 0
        found.platform.partitions.disconnect("lhr")
        found.wait(120)
        yield found


@pytest.fixture
def on_this_machine(here: CliSession, tmp_path: Path) -> CliSession:
    here.local_directory = str(tmp_path)
    StateDirectory(tmp_path).store_disconnected(["lhr"])
    return here


@pytest.mark.parametrize(
    "line",
    [
        "why api",
        "why api-default-lhr-0",
        "status api",
        "workloads describe api",
        "logs api",
        "logs api-default-lhr-0",
    ],
)
def test_the_next_step_is_to_reconnect_a_cell_that_was_disconnected_here(
    on_this_machine: CliSession, line: str
) -> None:
    found = on_this_machine.run(line)

    assert STEP in found.out + found.err
    assert "No action needed: " not in found.out


def test_why_names_the_step_also_before_the_hub_has_noticed(on_this_machine: CliSession) -> None:
    on_this_machine.platform.partitions.connect("lhr")
    on_this_machine.wait(60)
    on_this_machine.platform.partitions.disconnect("lhr")
    on_this_machine.run("scale api --min 2 --no-wait")
    on_this_machine.wait(10)

    assert on_this_machine.run("why api").out.splitlines()[-1] == f"Next          {STEP}"


def test_who_can_act_and_the_advice_agree_where_the_platform_is_elsewhere(
    here: CliSession,
) -> None:
    found = here.run("why api").out

    assert "local cell" not in found
    assert "No action needed yet: the cell is expected to reconnect." in found


def test_a_city_that_has_not_stopped_is_not_said_to_be_stopped(here: CliSession) -> None:
    assert here.run("stop api --city LHR --no-wait").code == 0
    here.wait(5)

    assert "Available (LHR stopping)" in here.run("workloads").out
    assert "Health     Available — LHR has not stopped yet" in here.run("status api").out
    assert here.run("stop api --no-wait").code == 0
    here.wait(5)
    assert "Stopped (LHR stopping)" in here.run("workloads").out
