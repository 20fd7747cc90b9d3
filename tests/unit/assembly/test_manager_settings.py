"""A manager refuses to start on settings that make no sense, and names what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from datum_compute.assembly.manager.main import main
from datum_compute.assembly.manager.settings import SettingsError, parse
from datum_compute.testing.environment import SimulatedEnvironment

MANAGEMENT = "--enable-management-controllers"
CELL = "--enable-cell-controllers"
HEAD = "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n"


def config(directory: Path, text: str, *, head: str = HEAD) -> str:
    path = directory / "config.yaml"
    path.write_text(head + text)
    return f"--server-config={path}"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "would do nothing"),
        ([MANAGEMENT], "needs --federation-kubeconfig"),
        ([MANAGEMENT, CELL, "--federation-kubeconfig=hub"], "has no hub"),
        ([CELL, "--federation-kubeconfig=hub"], "discovery.clusterName is required"),
        ([CELL, "--feature-gates=Telepathy=true"], "expected NetworkingIntegration=true|false"),
        ([CELL, "--feature-gates=NetworkingIntegration=maybe"], "expected Networking"),
        ([CELL, "--nonsense"], "--nonsense"),
        ([CELL, "--server-config=nowhere.yaml"], "nowhere.yaml: No such file"),
    ],
)
def test_nonsense_is_refused_at_the_start(argv: list[str], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(argv)

    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("discovery: {clusterNam: dfw}", "unknown field `clusterNam` - at `$.discovery`"),
        ("discovery: {mode: both}", "at `$.discovery.mode`"),
        ("discovery: {mode: milo}", "need discovery.mode single"),
        ("discovery: {projectKubeconfigPath: core}", "clusterName is required where a cell claims"),
        ("discovery: [", "not valid YAML"),
    ],
)
def test_a_configuration_is_read_strictly(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        parse([CELL, config(tmp_path, text)])

    assert says in str(caught.value)
    assert "config.yaml" in str(caught.value) or "discovery" in str(caught.value)


def test_a_configuration_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expected apiserver"):
        parse([CELL, config(tmp_path, "", head="apiVersion: v1\nkind: ConfigMap\n")])


def test_flags_and_file_make_the_settings(tmp_path: Path) -> None:
    file = config(tmp_path, "discovery: {clusterName: dfw, quotaKubeconfigPath: core}")

    settings = parse(
        [CELL, file, "--federation-kubeconfig=hub", "--feature-gates=NetworkingIntegration=true"]
    )

    assert (settings.cell, settings.management, settings.networking) == (True, False, True)
    assert settings.discovery.cluster_name == "dfw"
    assert settings.quota_kubeconfig == "core"


def test_a_kubeconfig_that_is_missing_is_fatal_not_silently_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [CELL, f"--kubeconfig={tmp_path / 'gone'}"]

    assert main(argv, SimulatedEnvironment()) == 1
    assert "gone" in capsys.readouterr().err
