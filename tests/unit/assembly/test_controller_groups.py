"""Lesson 23: both groups of controllers were on by default and crashed management; then an
overlay enabled neither, and nothing ran, without a message.

So: both are off by default, and a manager with neither refuses to start with the reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from datum_compute.assembly.manager.groups import build_manager
from datum_compute.assembly.manager.main import main
from datum_compute.assembly.manager.plane_clients import PlaneClients
from datum_compute.assembly.manager.settings import ManagerSettings, SettingsError, parse
from datum_compute.client import kubeconfig
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.testing.environment import SimulatedEnvironment

MANAGEMENT = "--enable-management-controllers"
CELL = "--enable-cell-controllers"


@pytest.mark.parametrize(
    ("argv", "management", "cell"),
    [
        ([MANAGEMENT, "--federation-kubeconfig=hub"], True, False),
        ([CELL], False, True),
        ([MANAGEMENT, CELL], True, True),
    ],
)
def test_lesson_23_a_group_runs_only_when_it_is_enabled(
    argv: list[str], management: bool, cell: bool
) -> None:
    settings = parse(argv)

    assert (settings.management, settings.cell) == (management, cell)


@pytest.mark.parametrize("argv", [[], ["--federation-kubeconfig=hub"], ["--kubeconfig=own"]])
def test_lesson_23_enabling_neither_group_is_an_error_at_start(argv: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(argv)

    assert MANAGEMENT in str(caught.value)
    assert CELL in str(caught.value)


def test_lesson_23_the_program_exits_with_a_message_and_a_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main([], SimulatedEnvironment())

    captured = capsys.readouterr()
    assert code == 1
    assert captured.out == ""
    assert captured.err.startswith("Error: no controllers are enabled")


async def test_lesson_23_a_manager_without_controllers_fails() -> None:
    with pytest.raises(RuntimeError, match="has no controllers and would do nothing"):
        await Manager("m", SimulatedEnvironment()).run()


@pytest.mark.parametrize("provider", ["none", "simulated", "pod"])
async def test_a_cell_runs_the_provider_of_its_settings(provider: str, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text(
        kubeconfig.render(server="https://127.0.0.1:1", ca_pem=b"", token="x", name="a", user="b")
    )
    env, metrics = SimulatedEnvironment(), MetricsRegistry()
    settings = ManagerSettings(management=False, cell=True, provider=provider, kubeconfig=str(own))
    planes = PlaneClients(env, settings, metrics)

    running = set(build_manager(env, settings, planes, metrics).statistics())
    await planes.close()

    expected = {"workload-deployment", "instance"}
    if provider != "none":
        expected.add(f"provider-{provider}")
    if provider == "pod":
        expected.add("provider-pod-service")
    assert running == expected


async def test_a_setting_that_the_provider_refuses_is_an_error_at_start(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text(
        kubeconfig.render(server="https://127.0.0.1:1", ca_pem=b"", token="x", name="a", user="b")
    )
    setting = "--provider-setting=pod-security=none"
    settings = parse([CELL, "--provider=pod", setting, f"--kubeconfig={own}"])
    env, metrics = SimulatedEnvironment(), MetricsRegistry()
    planes = PlaneClients(env, settings, metrics)

    with pytest.raises(SettingsError, match='pod-security="none": expected baseline or restricted'):
        build_manager(env, settings, planes, metrics)
    await planes.close()
