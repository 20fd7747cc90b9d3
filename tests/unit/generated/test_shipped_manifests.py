"""Lesson 33: a field was in the wrong section of the configuration, and shipped manifests named
metrics that were never declared, so that the catalogue refused them.

So: tests read every shipped file strictly, with the code that reads it in production.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.api import planes
from datum_compute.api.kinds import COMPUTE_KINDS, KINDS
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.services import v1alpha1 as services
from datum_compute.assembly.local import bootstrap
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.assembly.manager.config import KIND, SettingsError, load_config
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.server import embedded_server
from tests.support.paths import ROOT

SHIPPED = [*sorted((ROOT / "deploy").rglob("*.yaml")), *sorted((ROOT / "samples").glob("*.yaml"))]
MEASURED = ("workloads", "instances", "vcpus", "memory")
APPLIED = sorted(
    {
        path.rstrip("/")
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for path in re.findall(r"apply -[fk] (deploy/\S*[\w/])", page.read_text())
    }
)
"""What the commands on the pages apply."""
HEAD = "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n"


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    for document in yaml.safe_load_all(path.read_text()):
        if document is not None:
            assert isinstance(document, dict), path
            yield document


def undeclared_metrics(configuration: dict[str, Any]) -> set[str]:
    """Metrics a ServiceConfiguration limits without declaring them."""
    spec = configuration["spec"]
    limited = spec.get("quota") or {}
    used = {each["metric"] for each in limited.get("limits") or []}
    for rule in limited.get("metricRules") or []:
        used |= set(rule.get("metricCosts") or {})
    return used - {each["name"] for each in spec.get("metrics") or []}


def test_lesson_33_shipped_files_are_objects_with_a_kind_and_a_name() -> None:
    assert SHIPPED
    for path in SHIPPED:
        for document in _documents(path):
            assert document["apiVersion"], path
            assert document["kind"], path
            if document["kind"] not in (KIND, "Kustomization", "Component"):
                assert document["metadata"]["name"], path


async def test_lesson_33_shipped_objects_are_accepted_strictly_by_their_planes() -> None:
    kinds = {(each.resource.api_version, each.resource.kind): each for each in KINDS}
    taken = 0
    async with embedded_server(cells=()) as embedded:
        for path in SHIPPED:
            for document in _documents(path):
                kind = kinds.get((document["apiVersion"], document["kind"]))
                if kind is None:
                    continue
                plane_type = kind.planes[0]
                plane = plane_type.plane("" if plane_type.is_singleton else "demo")
                embedded.server.ensure_plane(plane)
                client = ApiClient(
                    InProcessTransport(embedded.server.handle),
                    cluster=plane,
                    prefix=planes.plane_prefix(plane),
                    token=embedded.token(),
                    user_agent="test",
                    field_validation="Strict",
                )
                namespace = "default" if kind.resource.namespaced else ""
                await client.create(kind.resource, document, namespace, dry_run=True)
                taken += 1

    assert taken


def shipped(kind: str) -> list[dict[str, Any]]:
    return [each for path in SHIPPED for each in _documents(path) if each["kind"] == kind]


def test_lesson_33_shipped_limits_and_costs_name_declared_metrics() -> None:
    [configuration] = shipped("ServiceConfiguration")

    spec = configuration["spec"]
    assert {each["name"] for each in spec["metrics"]} == {
        f"compute.datumapis.com/{name}" for name in MEASURED
    }
    assert spec["quota"]["limits"]
    assert spec["quota"]["metricRules"]
    assert undeclared_metrics(configuration) == set()
    assert "billing" not in spec
    [service] = [
        each for each in shipped("Service") if each["apiVersion"].startswith("services.miloapis")
    ]
    assert spec["serviceRef"] == {"name": service["metadata"]["name"]} == {"name": "compute"}


def test_shipped_registrations_and_grants_cover_what_instances_claim() -> None:
    registered = {
        each["spec"]["resourceType"]: each["spec"]["claimingResources"]
        for each in shipped("ResourceRegistration")
    }
    [policy] = shipped("GrantCreationPolicy")

    template = policy["spec"]["target"]["resourceGrantTemplate"]["spec"]
    granted = {each["resourceType"]: each["buckets"] for each in template["allowances"]}
    assert granted == {
        "compute.datumapis.com/instances": [{"amount": 10}],
        "compute.datumapis.com/vcpus": [{"amount": 40000}],
        "compute.datumapis.com/memory": [{"amount": 81920}],
    }
    assert set(registered) == {f"compute.datumapis.com/{name}" for name in MEASURED}
    project = {"apiGroup": "resourcemanager.miloapis.com", "kind": "Project"}
    assert all(project in claiming for claiming in registered.values())


def test_shipped_roles_include_only_permissions_of_shipped_protected_resources() -> None:
    specs = [each["spec"] for each in shipped("ProtectedResource")]
    permissions = {
        f"{spec['serviceRef']['name']}/{spec['plural']}.{verb}"
        for spec in specs
        for verb in spec["permissions"]
    }
    roles = {
        each["metadata"]["name"]: each["spec"]
        for each in shipped("Role")
        if each["apiVersion"].startswith("iam.miloapis.com")
    }

    assert {spec["kind"] for spec in specs} == {each.resource.kind for each in COMPUTE_KINDS}
    assert set(roles) == {"compute-viewer", "compute-admin"}
    for spec in roles.values():
        assert spec["includedPermissions"]
        assert set(spec["includedPermissions"]) <= permissions
        assert {each["name"] for each in spec.get("inheritedRoles") or []} <= set(roles)


@pytest.mark.parametrize("page", APPLIED, ids=str)
def test_what_the_pages_apply_defines_only_kinds_of_compute(page: str) -> None:
    folder = ROOT / page
    files = sorted(folder.rglob("*.yaml")) if folder.is_dir() else [folder]
    groups = {
        document["spec"]["group"]
        for file in files
        for document in _documents(file)
        if document["kind"] == "CustomResourceDefinition"
    }

    assert files
    assert groups <= {"compute.datumapis.com"}


def test_the_pages_apply_the_definitions_of_compute() -> None:
    assert "deploy/crds" in APPLIED
    files = yaml.safe_load((ROOT / "deploy/crds/kustomization.yaml").read_text())["resources"]
    assert files == sorted(
        f"{kind.resource.group}_{kind.resource.plural}.yaml" for kind in COMPUTE_KINDS
    )


async def test_lesson_33_the_platforms_own_configuration_declares_what_it_limits() -> None:
    async with embedded_server() as embedded:
        root = embedded.client("root")
        await bootstrap.ensure_root(root, LocalSettings())
        [found] = (await root.list(services.SERVICE_CONFIGURATIONS)).items
        registrations = (await root.list(quota.RESOURCE_REGISTRATIONS)).items

    spec = values(found.spec)
    declared = {each["name"] for each in spec["metrics"]}
    assert declared == {f"compute.datumapis.com/{name}" for name in MEASURED}
    assert declared == {values(each.spec)["resourceType"] for each in registrations}
    assert undeclared_metrics({"spec": spec}) == set()
    assert spec["quota"]["limits"]
    assert spec["quota"]["metricRules"]
    assert "billing" not in spec


def test_lesson_33_an_undeclared_metric_is_found() -> None:
    spec = {
        "metrics": [{"name": "compute.datumapis.com/instances"}],
        "quota": {"limits": [{"metric": "compute.datumapis.com/vcpus"}]},
    }

    assert undeclared_metrics({"spec": spec}) == {"compute.datumapis.com/vcpus"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clusterName: dfw", "clusterName: unknown field; known here: "),
        ("webhookServer: {quotaKubeconfigPath: q}", "webhookServer.quotaKubeconfigPath: unknown"),
        ("discovery: {bindAddress: ':1'}", "discovery.bindAddress: unknown field"),
    ],
)
def test_lesson_33_a_setting_in_the_wrong_section_is_refused_by_its_path(
    text: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + text)

    with pytest.raises(SettingsError) as caught:
        load_config(str(path))

    assert str(path) in str(caught.value)
    assert expected in str(caught.value)
