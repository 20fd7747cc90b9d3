"""A command acts on the project that it names, and on no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import CONFIG_MAPS
from datum_compute.api.resourcemanager.v1alpha1 import PROJECTS
from datum_compute.api.services import v1alpha1 as services
from datum_compute.assembly.local import bootstrap
from datum_compute.client import kubeconfig
from tests.support.cli.session import TOKEN, CliSession, ResolvingReach, cli_session

HOST = "https://platform.example"

WRITES = {
    "deploy": "deploy {} --image=acme/web:9",
    "deploy -f": "deploy -f -",
    "scale": "scale {} --min 2",
    "restart": "restart {}",
    "restart of one city": "rollout restart {} --city DFW",
    "undo": "rollout undo {} --yes",
    "destroy": "destroy {} --yes",
    "access request": "access request",
}


def add_project(here: CliSession, name: str) -> None:
    """Another project with all that ``demo`` has."""
    owner = {"kind": "Organization", "name": "local"}
    body = {
        "apiVersion": PROJECTS.api_version,
        "kind": PROJECTS.kind,
        "metadata": {"name": name},
        "spec": {"ownerRef": owner},
    }
    here.act(here.client("root").create(PROJECTS, body))
    settings = replace(here.platform.settings, project=name)
    here.act(bootstrap.ensure_project(here.client(f"project/{name}"), here.env, settings))
    here.wait(10)


def write_kubeconfig(directory: Path, path: str) -> str:
    """A kubeconfig for a server with this path."""
    text = kubeconfig.render(server=HOST + path, ca_pem=b"", token=TOKEN, name="here", user="me")
    file = directory / "kubeconfig"
    file.write_text(text)
    return str(file)


def content(here: CliSession, project: str) -> dict[str, Any]:
    """All that users of a project write, with the revision of each object's spec."""
    client = here.client(f"project/{project}")
    found: dict[str, Any] = {}
    for resource in (compute.WORKLOADS, CONFIG_MAPS, services.SERVICE_ENTITLEMENTS):
        for item in here.act(client.list(resource)).items:
            found[f"{resource.plural}/{item.name}"] = (item.metadata.generation, item.spec)
    for item in here.act(client.list(compute.WORKLOAD_DEPLOYMENTS)).items:
        found[f"deployments/{item.name}"] = item.metadata.generation
    return found


@pytest.fixture(scope="module")
def here() -> Iterator[CliSession]:
    with cli_session("DFW", "LHR") as session:
        add_project(session, "shop")
        yield session


def deploy_twice(here: CliSession, name: str) -> None:
    """Deploy the workload to both projects, in two revisions."""
    for project in ("demo", "shop"):
        for version in (1, 2):
            flags = f"--image=acme/web:{version} --city=DFW --project {project}"
            assert here.run(f"deploy {name} {flags}").code == 0


@pytest.mark.parametrize("command", WRITES)
@pytest.mark.parametrize("given_by", ["kubeconfig", "server"])
def test_a_write_changes_the_project_that_is_named_and_no_other(
    here: CliSession, tmp_path: Path, command: str, given_by: str
) -> None:
    name = f"{command.replace(' -', '').replace(' ', '-')}-{given_by}"
    deploy_twice(here, name)
    path = planes.plane_prefix("project/shop")
    target = (
        f"--kubeconfig {write_kubeconfig(tmp_path, path)}"
        if given_by == "kubeconfig"
        else f"--server {HOST}{path} --token {TOKEN}"
    )
    stdin = ""
    if command == "deploy -f":
        saved = tmp_path / "web.yaml"
        assert here.run(f"deploy {name} --dry-run --save {saved} --image=acme/web:7").code == 0
        stdin = saved.read_text()
    if command == "access request":
        here.act(here.client().delete(services.SERVICE_ENTITLEMENTS, "compute"))
        here.wait(1)
    before = {project: content(here, project) for project in ("demo", "shop")}
    line = f"{WRITES[command].format(name)} {target} --project demo"

    result = here.run(line, stdin, ResolvingReach(here))

    here.wait(5)
    assert result.code == 0, result.transcript
    assert content(here, "shop") == before["shop"]
    assert content(here, "demo") != before["demo"]
    assert "project shop" not in result.out + result.err


@pytest.mark.parametrize("project", ["demo", "shop"])
def test_a_command_names_the_project_of_its_server(
    here: CliSession, tmp_path: Path, project: str
) -> None:
    file = write_kubeconfig(tmp_path, planes.plane_prefix(f"project/{project}"))
    name = f"named-in-{project}"
    deploy_twice(here, name)

    shown = here.run(f"status {name} --kubeconfig {file} -o json", reach=ResolvingReach(here))
    gone = here.run(f"destroy {name} --yes --kubeconfig {file}", reach=ResolvingReach(here))

    assert shown.json["project"] == project
    assert f"This will delete from project {project}:" in gone.err
    assert f"workloads/{name}" not in content(here, project)
