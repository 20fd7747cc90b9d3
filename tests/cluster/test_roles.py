"""The shipped roles on a real API server are accepted and grant exactly what was recorded.

A manager then does all its work as the service account they are bound to.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly import rights
from datum_compute.client import connect, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.env import SystemEnvironment
from datum_compute.testing.server import embedded_server
from scripts.cluster_tools import ensure_tools
from tests.support.cluster import namespaces as alone
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.roles import (
    KNOWN_WITHIN,
    NAMESPACE,
    applied,
    define_kinds,
    manager_token,
    manifests,
)
from tests.support.processes.managers import manager
from tests.support.rights.manifests import BASE

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]

FOLDERS = sorted(
    {str(path.parent.relative_to(BASE)) for path in BASE.rglob("kustomization.yaml")} - {"manager"}
)
"""Of roles: a plane each."""
Right = tuple[str, str, str]
"""Group, resource and verb."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane(ensure_tools()) as running:
        define_kinds(running)
        yield running


def rules_of(cluster: ControlPlane, headers: dict[str, str]) -> set[Right]:
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": NAMESPACE},
    }
    status, answer = cluster.request("POST", path, body, headers=headers)
    assert status == 201, answer
    assert not answer["status"]["incomplete"], answer
    return expanded(answer["status"]["resourceRules"])


def expanded(rules: list[dict[str, Any]]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def impersonating(subject: dict[str, Any]) -> dict[str, str]:
    match subject["kind"]:
        case "User":
            return {"Impersonate-User": subject["name"]}
        case "Group":
            user = "compute-cell-dfw"
            return {"Impersonate-User": user, "Impersonate-Group": subject["name"]}
        case _:
            account = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
            return {"Impersonate-User": account}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_subject_has_exactly_the_rights_of_its_roles(cluster: ControlPlane, folder: str) -> None:
    common = rules_of(cluster, {"Impersonate-User": "any-user"})
    with applied(cluster, folder) as found:
        roles = {
            (each["kind"], each["metadata"]["name"]): expanded(each["rules"])
            for each in found
            if each["kind"] in ("Role", "ClusterRole")
        }
        wanted: dict[str, tuple[dict[str, str], set[Right]]] = {}
        for each in found:
            if each["kind"] in ("RoleBinding", "ClusterRoleBinding"):
                headers = impersonating(each["subjects"][0])
                _, rights = wanted.setdefault(str(headers), (headers, set()))
                rights |= roles[each["roleRef"]["kind"], each["roleRef"]["name"]]
        assert wanted
        for headers, rights in wanted.values():
            until_known(cluster, headers, rights, common)


def until_known(
    cluster: ControlPlane, headers: dict[str, str], wanted: set[Right], common: set[Right]
) -> None:
    deadline = time.monotonic() + KNOWN_WITHIN
    while True:
        found = rules_of(cluster, headers) - common
        if found == wanted:
            return
        assert time.monotonic() < deadline, (headers, sorted(found ^ wanted))
        time.sleep(0.2)


@pytest.mark.parametrize("folder", FOLDERS)
def test_kubectl_builds_a_folder(folder: str) -> None:
    command = [str(ensure_tools() / "kubectl"), "kustomize", str(BASE / folder)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert built.returncode == 0, built.stderr
    names = [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(built.stdout)]
    shipped = [(each["kind"], each["metadata"]["name"]) for each in manifests(folder)]
    assert sorted(names) == sorted(shipped)


def test_reviews_deny_what_no_role_allows(cluster: ControlPlane) -> None:
    def allowed(verb: str, group: str, resource: str) -> bool:
        about = {"verb": verb, "group": group, "resource": resource, "namespace": "default"}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "compute-management", "resourceAttributes": about},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(cluster.request("POST", path, body).body["status"]["allowed"])

    with applied(cluster, "project"):
        deadline = time.monotonic() + KNOWN_WITHIN
        while not allowed("create", "", "events"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert allowed("patch", "compute.datumapis.com", "workloads")
        for verb, group, resource in (
            ("delete", "compute.datumapis.com", "workloads"),
            ("delete", "", "secrets"),
            ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
            ("create", "quota.miloapis.com", "resourceclaims"),
            ("impersonate", "", "users"),
        ):
            assert not allowed(verb, group, resource), (verb, resource)


async def test_a_manager_does_all_its_work_as_its_service_account(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with applied(cluster, "single"):
        path = tmp_path / "manager.kubeconfig"
        cluster.write_kubeconfig(path, user="compute-manager", token=manager_token(cluster))
        admin = str(cluster.write_kubeconfig(tmp_path / "kubeconfig"))
        connection = kubeconfig.load(admin, env=SystemEnvironment())
        transport = connect.transport_for(connection)
        client = ApiClient(transport, cluster="single", token=connection.token, user_agent="test")
        argv = (
            *("--enable-management-controllers", "--enable-cell-controllers"),
            *("--leader-elect", f"--leader-elect-namespace={NAMESPACE}"),
            *(f"--kubeconfig={path}", "--feature-gates=NetworkingIntegration=true"),
        )
        try:
            place = alone.ClusterNamespace(client, "restricted")
            await alone.given_city(client)
            await place.prepare()
            async with (
                alone.standins(client, networks=True),
                manager(tmp_path, "manager", *argv),
            ):
                await place.deploy(alone.workload("acme/web:1", 2))
                await place.runs("acme/web:1", 2)
                await place.change(alone.workload("acme/web:2", 1))
                await place.runs("acme/web:2", 1)
                events = (await client.list(core.EVENTS, "restricted")).items
                leases = (await client.list(core.LEASES, NAMESPACE)).items
                await client.delete(compute.WORKLOADS, "web", "restricted")
                await place.gone()
        finally:
            await client.close()

    assert events, "events are written too"
    assert [each.name for each in leases] == ["e98b06c6.datumapis.com-all"]
    assert "forbidden" not in (tmp_path / "manager.log").read_text()


async def test_kubectl_auth_shows_a_user_its_rights_on_the_embedded_server(tmp_path: Path) -> None:
    roles, user = Roles(), "compute-cell-dfw"
    for plane, rules in rights.of_user(user).items():
        roles.grant(user, plane, rules)
    env = SystemEnvironment()
    async with embedded_server(env, authorizer=roles) as embedded, embedded.serve_https() as served:
        config = kubeconfig.render(
            server=f"{served.base_url}/clusters/dfw",
            ca_pem=served.ca_pem,
            token=embedded.token(user, ()),
            name="cell",
            user=user,
        )
        listed = await _kubectl(tmp_path, config, "auth", "can-i", "--list")
        who = await _kubectl(tmp_path, config, "auth", "whoami", "--output=json")
        may = await _kubectl(tmp_path, config, "auth", "can-i", "patch", "instances/status")
        may_not = await _kubectl(tmp_path, config, "auth", "can-i", "create", "workloaddeployments")
        code, _, refused = await _kubectl(tmp_path, config, "get", "secrets")

    assert listed[0] == 0, listed
    [row] = [line for line in listed[1].splitlines() if line.startswith("events ")]
    assert "[get create patch]" in row
    assert json.loads(who[1])["status"]["userInfo"]["username"] == user
    assert may[:2] == (0, "yes\n")
    assert may_not[:2] == (1, "no\n")
    assert code == 1
    assert (
        'secrets is forbidden: User "compute-cell-dfw" cannot list resource "secrets" in API'
        ' group "" in the namespace "default"'
    ) in refused


async def _kubectl(directory: Path, config: str, *words: str) -> tuple[int | None, str, str]:
    _write(directory / "kubeconfig", config)
    process = await asyncio.create_subprocess_exec(
        *(str(ensure_tools() / "kubectl"), f"--kubeconfig={directory / 'kubeconfig'}"),
        *(f"--cache-dir={directory / 'cache'}", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), err.decode()


def _write(path: Path, text: str) -> None:
    path.write_text(text)
