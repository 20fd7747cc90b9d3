"""What the overlays start is what the manager takes: its flags, its configuration, the files it
reads. Nothing in ``deploy`` is left out, misspelt or of another version."""

from __future__ import annotations

from pathlib import Path

import pytest

import datum_compute
from datum_compute.assembly.manager import webhook_certificate
from datum_compute.assembly.manager.settings import ManagerSettings, SettingsError, parse
from tests.support import overlays
from tests.support.overlays import CELL_PLACEHOLDER, COMPONENTS, DEPLOY, OVERLAYS
from tests.support.rights.manifests import documents as base_documents

MANAGERS = [name for name in OVERLAYS if overlays.manager(name) is not None]
GROUPS = {
    "management-plane": (True, False),
    "cell": (False, True),
    "single-cluster": (True, True),
    "dev": (True, True),
}
"""Whether the manager runs the controllers of management, and those of a cell."""


def settings_of(overlay: str, directory: Path, **more: str) -> ManagerSettings:
    return parse(overlays.arguments(overlay, directory, **more))


def test_the_overlays_are_those_that_the_pages_describe() -> None:
    assert sorted([*GROUPS, "federation"]) == OVERLAYS
    assert sorted(GROUPS) == sorted(MANAGERS)


@pytest.mark.parametrize("overlay", MANAGERS)
def test_a_manager_takes_the_flags_and_the_configuration_of_its_overlay(
    overlay: str, tmp_path: Path
) -> None:
    settings = settings_of(overlay, tmp_path)

    assert (settings.management, settings.cell) == GROUPS[overlay]
    assert (settings.webhooks is not None) == settings.management
    assert (settings.provider == "pod") == (settings.management and settings.cell)
    assert bool(settings.federation_kubeconfig) != (settings.management and settings.cell)


@pytest.mark.parametrize("overlay", MANAGERS)
def test_every_port_of_a_manager_is_declared(overlay: str, tmp_path: Path) -> None:
    settings = settings_of(overlay, tmp_path)
    spec = overlays.manager(overlay)
    assert spec is not None

    declared = {each["name"]: each["containerPort"] for each in spec["containers"][0]["ports"]}

    served = {
        "probes": settings.health_probes,
        "metrics": settings.metrics,
        "webhooks": settings.webhooks,
    }
    assert declared == {name: address.port for name, address in served.items() if address}


@pytest.mark.parametrize("overlay", MANAGERS)
def test_every_file_that_a_manager_reads_is_mounted(overlay: str, tmp_path: Path) -> None:
    settings = settings_of(overlay, tmp_path)
    spec = overlays.manager(overlay)
    assert spec is not None
    [container] = spec["containers"]
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    volumes = {each["name"] for each in spec["volumes"]}

    read = [Path(path) for _, path, _ in settings.kubeconfigs()]
    read += [
        path for tls in (settings.webhooks_tls, settings.metrics_tls) if tls for path in tls.paths
    ]
    assert {str(path.parent) for path in read} == set(mounts) - {"/etc/compute-manager"}
    assert set(mounts.values()) == volumes


@pytest.mark.parametrize(
    ("overlay", "issued"),
    [
        ("management-plane", {"tls.crt", "tls.key"}),
        ("single-cluster", {"tls.crt", "tls.key"}),
        ("dev", set(webhook_certificate.FILES)),
    ],
)
def test_webhooks_are_served_with_the_files_that_are_issued(
    overlay: str, issued: set[str], tmp_path: Path
) -> None:
    files = settings_of(overlay, tmp_path).webhooks_tls

    assert files is not None
    assert {path.name for path in files.paths} <= issued


@pytest.mark.parametrize("overlay", MANAGERS)
def test_the_containers_of_a_manager_meet_the_restricted_standard(overlay: str) -> None:
    spec = overlays.manager(overlay)
    assert spec is not None

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("overlay", ["management-plane", "cell"])
def test_the_tokens_for_other_planes_expire(overlay: str) -> None:
    spec = overlays.manager(overlay)
    assert spec is not None

    tokens = [
        source["serviceAccountToken"]
        for volume in spec["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
        if "serviceAccountToken" in source
    ]
    assert [each["audience"] for each in tokens] == ["compute-hub", "compute-projects"]
    assert {each["expirationSeconds"] for each in tokens} == {3600}


def test_a_cell_does_not_start_before_it_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"discovery\.clusterName: Invalid value: \"<cell>\""):
        settings_of("cell", tmp_path, cell=CELL_PLACEHOLDER)


@pytest.mark.parametrize("overlay", MANAGERS)
def test_replicas_that_run_together_elect_a_leader(overlay: str, tmp_path: Path) -> None:
    replicas = [
        each["value"] for each in overlays.added(overlay) if each["path"] == "/spec/replicas"
    ]

    assert settings_of(overlay, tmp_path).leader_elect == (replicas == [2])


@pytest.mark.parametrize("overlay", MANAGERS)
def test_an_overlay_names_the_image_of_this_version(overlay: str) -> None:
    spec = overlays.manager(overlay)
    [image] = overlays.kustomization(DEPLOY / "overlays" / overlay)["images"]
    assert spec is not None

    assert image["newTag"] == datum_compute.__version__
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    assert {each["image"] for each in containers} == {image["name"]}


@pytest.mark.parametrize("overlay", MANAGERS)
def test_a_manager_is_selected_by_its_labels(overlay: str) -> None:
    found = overlays.shipped(overlay)
    [deployment] = [each for each in found if each["kind"] == "Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]

    assert labels["control-plane"] == "compute"
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    for each in found:
        spec = each.get("spec", {})
        if each["kind"] == "Service":
            selectors.append(spec["selector"])
        elif each["kind"] == "PodDisruptionBudget":
            selectors.append(spec["selector"]["matchLabels"])
        elif each["kind"] == "NetworkPolicy":
            selectors.append(spec["podSelector"]["matchLabels"])
    for selector in selectors:
        assert selector.items() <= labels.items()


@pytest.mark.parametrize("overlay", ["management-plane", "single-cluster", "dev"])
def test_the_registered_webhooks_name_the_service_of_the_overlay(overlay: str) -> None:
    [service] = [each for each in overlays.shipped(overlay) if each["kind"] == "Service"]
    asked = [
        webhook["clientConfig"]["service"]
        for _, document in base_documents("project")
        for webhook in document.get("webhooks", ())
    ]

    assert len(asked) == 2
    for each in asked:
        assert each["name"] == service["metadata"]["name"] == webhook_certificate.SERVICE
        assert each["namespace"] == service["metadata"]["namespace"]
        assert each["port"] == service["spec"]["ports"][0]["port"]


def test_the_rights_of_the_self_signed_certificate_name_what_it_writes() -> None:
    rights = overlays.documents(DEPLOY / "components/self-signed/rights.yaml")
    named = {
        (resource, name)
        for each in rights
        for rule in each.get("rules", ())
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ())
    }

    assert named == {
        ("secrets", webhook_certificate.SECRET),
        *(
            (resource.plural, webhook_certificate.CONFIGURATION)
            for resource in webhook_certificate.WEBHOOK_CONFIGURATIONS
        ),
    }


def unused_files() -> set[str]:
    """Files that no kustomization lists, and names it lists that lead nowhere."""
    every = {path for path in DEPLOY.rglob("*") if path.is_file() and "local" not in path.parts}
    used: set[Path] = set()
    missing: set[str] = set()
    for path in every:
        if path.name != "kustomization.yaml":
            continue
        used.add(path)
        built = overlays.kustomization(path.parent)
        for name in (
            *built.get("resources", ()),
            *built.get("components", ()),
            *(file for each in built.get("configMapGenerator", ()) for file in each["files"]),
        ):
            target = (path.parent / name).resolve()
            if not target.exists():
                missing.add(f"{path}: {name}")
            used.add(target)
    return {str(path.relative_to(DEPLOY)) for path in every - used} | missing


def test_every_file_belongs_to_a_kustomization() -> None:
    assert unused_files() == set()


def test_every_component_is_used_or_described() -> None:
    used = {
        folder.name
        for overlay in OVERLAYS
        for folder in overlays.folders(DEPLOY / "overlays" / overlay)
    }
    page = (DEPLOY.parent / "docs/operate/install.md").read_text()

    assert [each for each in COMPONENTS if each not in used and f"`{each}`" not in page] == []
