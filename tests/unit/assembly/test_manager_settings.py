"""A manager refuses to start on settings that make no sense, and names what to change."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from datum_compute.assembly.manager.groups import lease_namespace
from datum_compute.assembly.manager.http_server import TlsFiles
from datum_compute.assembly.manager.main import main
from datum_compute.assembly.manager.settings import SettingsError, parse
from datum_compute.client import kubeconfig
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.paths import ROOT

MANAGEMENT = "--enable-management-controllers"
CELL = "--enable-cell-controllers"
HUB = "--federation-kubeconfig=hub"
HEAD = "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n"


def config(directory: Path, text: str, *, head: str = HEAD) -> str:
    path = directory / "config.yaml"
    path.write_text(head + text)
    return f"--server-config={path}"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], "would do nothing"),
        ([MANAGEMENT], "needs --federation-kubeconfig"),
        ([MANAGEMENT, CELL, "--federation-kubeconfig=hub"], "has no hub"),
        ([CELL, "--federation-kubeconfig=hub"], "discovery.clusterName is required"),
        ([CELL, "--feature-gates=Telepathy=true"], "expected NetworkingIntegration=true|false"),
        ([CELL, "--feature-gates=NetworkingIntegration=maybe"], "expected Networking"),
        ([CELL, "--nonsense"], "--nonsense"),
        ([CELL, "--enable-cell"], "--enable-cell"),
        ([CELL, "--provider=vm"], "--provider vm: not available in this version"),
        ([CELL, "--provider=simulated"], "available: none, "),
        ([CELL, "--provider-setting=pod-security"], "expected NAME=VALUE"),
        (
            [CELL, "--provider-setting=pod-security=baseline"],
            "not a setting of provider none; it takes none",
        ),
        (
            [CELL, "--provider=pod", "--provider-setting=colour=red"],
            '"colour": not a setting of provider pod; it takes pod-security, runtime-class,',
        ),
        (
            [CELL, "--provider=pod", *2 * ["--provider-setting=runtime-class=a"]],
            '"runtime-class=a": is given twice',
        ),
        ([CELL, "--log-format=xml"], "'text', 'json'"),
        ([CELL, "--leader-elect=maybe"], 'expected true or false, not "maybe"'),
        ([CELL, "--leader-elect-namespace=x"], "needs --leader-elect"),
        (
            [CELL, "--leader-elect", "--leader-elect-namespace=No/Such"],
            '--leader-elect-namespace: "No/Such" is not a valid namespace',
        ),
        ([CELL, "--federation-context=x"], "names a context of --federation-kubeconfig"),
        (
            [CELL, "--health-probe-bind-address=8081"],
            "expected HOST:PORT or :PORT, or 0 to turn it off",
        ),
        ([CELL, "--health-probe-bind-address=:99999"], "--health-probe-bind-address"),
        ([CELL, "--health-probe-bind-address=:\uff18\uff10"], "--health-probe-bind-address"),
        ([CELL, "--server-config=nowhere.yaml"], "nowhere.yaml: No such file"),
    ],
)
def test_invalid_settings_are_refused_at_the_start(argv: list[str], expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(argv)

    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("discovery: {clusterNam: dfw}", "discovery.clusterNam: unknown field; known here: mode, "),
        ("discovery: {mode: both}", "discovery.mode: Invalid enum value 'both'; allowed: single, "),
        ("discovery: {internalServiceDiscovery: true}", "projectKubeconfigPath"),
        ("metrics: {}", "metrics: unknown field; known here: apiVersion, kind, metricsServer, "),
        (
            "metricsServer: {tls: {dir: x}}",
            "metricsServer.tls.dir: unknown field; known here: cert",
        ),
        ("metricsServer: {bindAddress: 8443}", "metricsServer.bindAddress: Expected `str`, got"),
        (
            "metricsServer: {bindAddress: '8443'}",
            "not an address: expected HOST:PORT or :PORT, or 0",
        ),
        ("metricsServer: {bindAddress: ':8443'}", "metricsServer.tls.certDir: required"),
        (
            "metricsServer: {bindAddress: ':8443', tls: {secretRef: {name: x}}}",
            "metricsServer.tls.secretRef: not supported: mount the Secret and name its directory",
        ),
        (
            "metricsServer: {tls: {certDir: x, secretRef: {name: x}}}",
            "metricsServer.tls.secretRef: not supported",
        ),
        (
            "webhookServer: {tls: {certDir: x, secretRef: {name: x}}}",
            "webhookServer.tls.secretRef: not supported: mount the Secret and name its directory",
        ),
        ("webhookServer: {}", "webhookServer.tls.certDir: required"),
        (
            "webhookServer: {port: 70000, tls: {certDir: x}}",
            "webhookServer.port: 70000: expected a number",
        ),
        ("discovery: {mode: milo}", "need discovery.mode single"),
        ("discovery: {projectKubeconfigPath: core}", "clusterName is required where a cell claims"),
        (
            "discovery: {projectKubeconfigPath: core}",
            "add the name of this cell's Cluster object on the hub (kubectl get clusters)",
        ),
        ("discovery: {clusterName: Here & there}", "discovery.clusterName: Invalid value"),
        (f"discovery: {{clusterName: {'a' * 64}}}", "must be at most 63 letters, digits, "),
        ("discovery: [", "not valid YAML: line 3, column 13: while parsing"),
        ("discovery: " + "[" * 1000, "not valid YAML: nested too deeply"),
        ("discovery: {mode: single, mode: milo}", 'the key "mode" is given twice'),
        ("discovery: {}\nwebhookServer: {}\ndiscovery: {}", 'the key "discovery" is given twice'),
        ("---\n---\n", "expected a single document"),
    ],
)
def test_a_configuration_is_read_strictly(text: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        parse([CELL, config(tmp_path, text)])

    assert expected in str(caught.value)
    assert "config.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


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


def test_the_hub_may_be_named_by_a_variable_and_the_flag_wins(tmp_path: Path) -> None:
    env = SimulatedEnvironment(variables={"FEDERATION_KUBECONFIG": "/etc/hub"})
    file = config(tmp_path, "discovery: {clusterName: dfw}")

    by_variable = parse([CELL, file], env)
    by_flag = parse([CELL, file, HUB], env)

    assert by_variable.federation_kubeconfig == "/etc/hub"
    assert by_variable.kubeconfigs() == [("FEDERATION_KUBECONFIG", "/etc/hub", "")]
    assert by_flag.kubeconfigs() == [("--federation-kubeconfig", "hub", "")]
    assert parse([MANAGEMENT], env).federation_kubeconfig == "/etc/hub"
    with pytest.raises(SettingsError, match="leave out FEDERATION_KUBECONFIG"):
        parse([MANAGEMENT, CELL], env)


def test_a_kubeconfig_that_is_missing_is_fatal_not_silently_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [CELL, f"--kubeconfig={tmp_path / 'missing'}"]

    assert main(argv, SimulatedEnvironment()) == 1
    assert "missing" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["discovery", "project", "quota"])
def test_a_kubeconfig_of_the_file_that_is_missing_is_fatal_at_the_start(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    own.write_text(
        kubeconfig.render(server="https://127.0.0.1:1", ca_pem=b"", token="x", name="a", user="b")
    )
    field = f"{name}KubeconfigPath"
    file = config(tmp_path, f"discovery: {{clusterName: dfw, {field}: {tmp_path / 'missing'}}}")

    assert main([CELL, f"--kubeconfig={own}", file], SimulatedEnvironment()) == 1
    printed = capsys.readouterr().err
    assert f"{file.replace('=', ' ')}: discovery.{field}: " in printed
    assert str(tmp_path / "missing") in printed


def test_invalid_certificates_are_reported_at_start_with_their_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    ca = b"hello"
    own.write_text(
        kubeconfig.render(server="https://127.0.0.1:1", ca_pem=ca, token="x", name="a", user="b")
    )

    assert main([CELL, f"--kubeconfig={own}"], SimulatedEnvironment()) == 1
    assert f"--kubeconfig: {own}: a: unusable certificate data: " in capsys.readouterr().err


def test_without_settings_only_the_probes_are_served() -> None:
    settings = parse([CELL])

    assert str(settings.health_probes) == "0.0.0.0:8081"
    assert (settings.metrics, settings.webhooks) == (None, None)
    assert not settings.leader_elect
    assert settings.provider == "none"
    assert parse([CELL, "--health-probe-bind-address=0"]).health_probes is None


def test_servers_listen_on_the_addresses_of_the_configuration_file(tmp_path: Path) -> None:
    text = (
        "metricsServer: {bindAddress: '[::1]:8443', tls: {certDir: /m, certName: a, keyName: b}}\n"
        "webhookServer: {tls: {certDir: /w}, clientCAName: ca.crt}\n"
    )
    settings = parse([CELL, config(tmp_path, text)])

    assert str(settings.metrics) == "[::1]:8443"
    assert settings.metrics_tls == TlsFiles(Path("/m/a"), Path("/m/b"))
    assert str(settings.webhooks) == "0.0.0.0:9443"
    assert settings.webhooks_tls == TlsFiles(
        Path("/w/tls.crt"), Path("/w/tls.key"), Path("/w/ca.crt")
    )


def test_metrics_may_be_served_without_tls(tmp_path: Path) -> None:
    text = "metricsServer: {bindAddress: '127.0.0.1:8080', secureServing: false}"
    settings = parse([CELL, config(tmp_path, text)])

    assert str(settings.metrics) == "127.0.0.1:8080"
    assert settings.metrics_tls is None


@pytest.mark.parametrize(
    ("argv", "suffix"),
    [([CELL], "cell"), ([MANAGEMENT, CELL], "all"), ([MANAGEMENT, HUB], "management")],
)
def test_each_group_has_a_lease_of_its_own(argv: list[str], suffix: str) -> None:
    assert parse(argv).lease_name == f"e98b06c6.datumapis.com-{suffix}"


def test_the_lease_is_in_the_configured_namespace_or_the_pods_own(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("compute-system\n")
    given = parse([CELL, "--leader-elect", "--leader-elect-namespace=elsewhere"])
    derived = parse([CELL, "--leader-elect"])

    assert lease_namespace(given) == "elsewhere"
    assert lease_namespace(derived, tmp_path) == "compute-system"
    with pytest.raises(SettingsError, match="set --leader-elect-namespace"):
        lease_namespace(derived, tmp_path / "nowhere")


def test_the_documents_list_every_flag_and_no_other() -> None:
    page = (ROOT / "docs/operate/manager.md").read_text()
    [table] = re.findall(r"## Flags\n(.*?)\n## ", page, re.DOTALL)
    topologies = page.split("## Flags")[0]

    documented = set(re.findall(r"--[a-z][a-z-]+", topologies + table))
    with pytest.raises(SystemExit), redirect_stdout(help_text := io.StringIO()):
        parse(["--help"])

    assert documented == set(re.findall(r"--[a-z][a-z-]+", help_text.getvalue())) - {"--help"}
