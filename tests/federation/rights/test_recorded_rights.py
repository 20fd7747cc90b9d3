"""Roles allow exactly what the processes do: no verb is missing, and none is unused.

Every other test on a whole platform runs with the same roles, and fails where one is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from datum_compute.api.core import EVENTS
from datum_compute.apiserver.request.access import PolicyRule
from datum_compute.assembly import rights
from datum_compute.testing.calls import RecordedCall, RecordingAuthorizer
from scripts import record_rights
from tests.support.rights import pod_provider, single_manager
from tests.support.rights.manifests import allowed, documents
from tests.support.rights.recorder import lines, record


def _table() -> Iterator[RecordedCall]:
    for process, planes in rights.recorded().items():
        for plane, rules in planes.items():
            for rule in rules:
                for verb in rule.verbs:
                    yield RecordedCall(process, plane, rule.group, rule.resource, verb)


@pytest.mark.timeout(900)
def test_recorded_calls_of_all_scenarios_equal_the_roles() -> None:
    calls, granted = record(), set(_table())

    # As lines: a difference names the process, the plane, the resource and the verbs.
    assert lines(calls - granted) == [], "calls without a right"
    assert lines(granted - calls) == [], "rights without a call"


def test_the_role_files_allow_exactly_what_was_recorded() -> None:
    files, table = allowed(), set(_table())

    assert lines(table - files) == [], "recorded, and in no file"
    assert lines(files - table) == [], "in a file, and not recorded"


def test_a_role_is_bound_to_a_subject_in_the_same_file() -> None:
    roles, bound = set(), set()
    for path, document in documents():
        if document["kind"] in ("ClusterRole", "Role"):
            roles.add((path, document["kind"], document["metadata"]["name"]))
        if document["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            assert document["subjects"], path
            bound.add((path, document["roleRef"]["kind"], document["roleRef"]["name"]))

    assert roles
    assert roles == bound


def test_a_kustomization_lists_every_file_of_its_folder() -> None:
    for path, document in documents():
        if document["kind"] == "Kustomization":
            files = {each.name for each in path.parent.glob("*.yaml")} - {path.name}
            listed = [each for each in document["resources"] if not each.startswith("../")]
            assert set(listed) == files, path


async def test_a_manager_alone_does_all_its_work_with_its_roles() -> None:
    calls = RecordingAuthorizer(single_manager.granted())
    async with single_manager.single_cluster(calls) as cluster:
        await single_manager.run_everything(cluster)

    assert calls.denied == set()
    assert {each.user for each in calls.calls} == set(single_manager.ROLES)


async def test_the_provider_of_pods_does_all_its_work_with_its_role() -> None:
    calls = RecordingAuthorizer(pod_provider.granted())
    await pod_provider.run_everything(calls)

    assert calls.denied == set()
    assert {each.user for each in calls.calls} == {rights.POD_PROVIDER}


def test_only_the_role_of_the_pod_provider_reaches_pods_and_none_runs_commands_in_them() -> None:
    pods = {call for call in _table() if call.resource.startswith("pods")}

    assert {call.user for call in pods} == {rights.POD_PROVIDER}
    assert {call.resource for call in pods} == {"pods", "pods/log"}


async def test_a_missing_right_is_recorded_as_denied() -> None:
    roles = single_manager.granted()
    kept = [
        rule for rule in rights.recorded()[rights.SINGLE]["single"] if rule.resource != "events"
    ]
    roles.grant(rights.SINGLE, single_manager.PLANE, kept)
    calls = RecordingAuthorizer(roles)
    async with single_manager.single_cluster(calls) as cluster:
        await single_manager.run_everything(cluster)
        written = await cluster.client.list(EVENTS)

    assert written.items == []
    assert RecordedCall(rights.SINGLE, "project", "", "events", "create") in calls.denied


READERS_OF_SECRETS = {
    (rights.MANAGEMENT, "project"),  # those that deployments name
    (rights.MANAGEMENT, "hub"),  # their companions
    (rights.PROVIDER, "cell"),  # what it mounts
}


def test_no_role_may_change_rights_and_few_may_read_secrets() -> None:
    for call in _table():
        if call.user.startswith("standin-"):
            continue
        assert call.group != "rbac.authorization.k8s.io"
        assert call.resource != "secrets" or (call.user, call.plane) in READERS_OF_SECRETS
        if call.user == rights.PROVIDER and call.resource == "secrets":
            assert call.verb == "get", "by name, and never a list"
        assert "*" not in (call.group, call.resource, call.verb)


def test_a_cells_user_has_rights_in_its_own_cell_only() -> None:
    planes = rights.of_user("compute-cell-dfw")

    assert sorted(planes) == ["cell/dfw", "hub", "project"]
    assert planes["cell/dfw"] == rights.recorded()[rights.CELL]["cell"]
    assert sorted(rights.of_user("provider-lhr")) == ["cell/lhr"]
    assert rights.of_user("ana") == {}


def test_the_file_is_what_the_recording_script_writes() -> None:
    assert record_rights.rendered(_table()) == record_rights.RIGHTS.read_text(encoding="utf-8")


def test_a_recorded_rule_of_the_core_group_has_an_empty_group() -> None:
    rule = PolicyRule("", "namespaces", ("get", "list", "watch"))

    assert rule in rights.recorded()[rights.MANAGEMENT]["project"]
