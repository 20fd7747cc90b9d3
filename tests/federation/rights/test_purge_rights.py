"""The one role for every kind: it purges the plane of a deleted project.

The kinds of a project plane are not known beforehand, so a list would not do. The role is
still limited to recorded calls: to two verbs, to planes of projects, to one process, and to
the local platform, where that process acts as Milo.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.api import core
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.standins.milo_projects.purge import discover
from datum_compute.testing.calls import RecordedCall
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.rights.manifests import BASE, documents
from tests.support.rights.recorder import PURGE, PURGE_VERBS, by_process

LOCAL = BASE / "local"
GADGETS = Resource("example.com", "v1", "gadgets", "Gadget", namespaced=True)
"""A kind that is not ours."""


def kind_of(call: RecordedCall) -> str:
    return f"{call.resource}.{call.group}" if call.group else call.resource


def definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": GADGETS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "metadata": {"name": GADGETS.group_resource},
        "spec": {
            "group": GADGETS.group,
            "names": {"plural": GADGETS.plural, "singular": "gadget", "kind": GADGETS.kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


async def furnished(on: Stage) -> set[str]:
    """Objects in the project, of our kinds and of its own."""
    await on.project.create(core.CUSTOM_RESOURCE_DEFINITIONS, definition())
    await on.project.create(GADGETS, {"metadata": {"name": "one"}}, NAMESPACE)
    for resource in (core.CONFIG_MAPS, core.SECRETS):
        await on.project.create(resource, {"metadata": {"name": "one"}}, NAMESPACE)
    return {
        resource.group_resource
        for resource in await discover(on.project)
        if (await on.project.list(resource)).items
    }


async def empty(on: Stage) -> None:
    root_client, name = on.client("root"), on.settings.project

    async def left() -> str:
        try:
            await root_client.get(resourcemanager.PROJECTS, name)
        except errors.NotFound:
            return ""
        return "the project is there"

    await root_client.delete(resourcemanager.PROJECTS, name)
    await eventually("the project goes", left)


async def test_purging_a_plane_uses_two_verbs_on_every_kind_it_serves() -> None:
    async with stage() as on:  # held to the shipped roles
        there = await furnished(on)
        served = {resource.group_resource for resource in await discover(on.project)}
        await empty(on)
        calls = {call for call in on.calls.calls if (call.user, call.plane) == PURGE}

    emptied = {call for call in calls if by_process(call).resource == "*"}
    assert {call.verb for call in emptied} == set(PURGE_VERBS)
    assert {kind_of(call) for call in emptied if call.verb == "list"} == served
    assert {kind_of(call) for call in emptied if call.verb == "delete"} == there
    assert {GADGETS.group_resource, networking.NETWORKS.group_resource, "secrets"} <= there
    rest = {(kind_of(call), call.verb) for call in calls - emptied}
    ensured = {("namespaces", "get"), ("namespaces", "create")}
    assert rest == ensured, "what stays is neither listed nor deleted"


@pytest.mark.parametrize(
    "call",
    [
        *(RecordedCall(*PURGE, "", furniture, "delete") for furniture in ("namespaces", "events")),
        RecordedCall(*PURGE, "apiextensions.k8s.io", "customresourcedefinitions", "list"),
        RecordedCall(*PURGE, "", "secrets", "get"),
        RecordedCall(*PURGE, "", "secrets", "deletecollection"),
        RecordedCall(*PURGE, "compute.datumapis.com", "instances/status", "delete"),
        RecordedCall("standin-projects", "root", "", "secrets", "list"),
        RecordedCall("standin-quota", "project", "", "secrets", "list"),
        RecordedCall("compute-management", "project", "", "secrets", "delete"),
    ],
    ids=lambda call: f"{call.user} {call.plane} {call.verb} {call.resource}",
)
def test_no_other_call_is_recorded_as_one_on_every_kind(call: RecordedCall) -> None:
    assert by_process(call) == call


def test_one_rule_of_one_role_of_the_local_platform_names_every_kind() -> None:
    wide = [
        (path.relative_to(BASE), rule)
        for path, document in documents()
        for rule in document.get("rules", ())
        if any("*" in named for each in rule.values() for named in each)
    ]

    role = Path(f"local/{PURGE[1]}/{PURGE[0]}.yaml")
    assert wide == [(role, {"apiGroups": ["*"], "resources": ["*"], "verbs": list(PURGE_VERBS)})]
    subjects = [
        document["subjects"]
        for path, document in documents(f"local/{PURGE[1]}")
        if path.name == role.name and "subjects" in document
    ]
    group = "rbac.authorization.k8s.io"
    assert subjects == [[{"apiGroup": group, "kind": "User", "name": PURGE[0]}]]


def test_roles_of_stand_ins_are_in_no_folder_that_is_applied_to_a_cluster() -> None:
    for path, document in documents():
        named = [document["metadata"]["name"]] if "metadata" in document else []
        named += [each["name"] for each in document.get("subjects", ())]
        of_standins = any(name.startswith("standin-") for name in named)
        assert not of_standins or LOCAL in path.parents, path


def test_no_folder_that_is_applied_to_a_cluster_includes_one_of_the_local_platform() -> None:
    found = [each for each in BASE.parent.rglob("kustomization.yaml") if LOCAL not in each.parents]
    assert len(found) > 5
    for path in found:
        kustomization = yaml.safe_load(path.read_text(encoding="utf-8"))
        for name in kustomization.get("resources", ()):
            included = (path.parent / name).resolve()
            assert included != LOCAL, path
            assert LOCAL not in included.parents, path
