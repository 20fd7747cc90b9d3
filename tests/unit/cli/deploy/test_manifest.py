"""Flags describe a new workload, and change only what they mention of an existing one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api.compute.constants import ANNOTATION_ROLLOUT
from datum_compute.cli.commands.deploy.files import load
from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.cli.commands.deploy.manifest import changed_workload, new_workload
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain import states
from datum_compute.cli.render.spec_diff import diff_specs


def container(workload: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = workload["spec"]["template"]["spec"]["runtime"]["sandbox"][
        "containers"
    ][0]
    return found


def test_flags_describe_a_complete_workload() -> None:
    flags = Flags(
        image="acme/api:1",
        cities=("DFW", "LHR"),
        minimum=2,
        ports=("http=8080", "9090"),
        env=("A=1", "B=x=y"),
        instance_type="d1-standard-2",
    )

    workload = new_workload("api", flags)

    assert workload["metadata"] == {"name": "api"}
    assert container(workload) == {
        "name": "app",
        "image": "acme/api:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "x=y"}],
        "ports": [{"name": "http", "port": 8080}, {"name": "port-9090", "port": 9090}],
    }
    assert workload["spec"]["placements"] == [
        {"name": "default", "cityCodes": ["DFW", "LHR"], "scaleSettings": {"minReplicas": 2}}
    ]
    runtime = workload["spec"]["template"]["spec"]["runtime"]
    assert runtime["resources"] == {"instanceType": "datumcloud/d1-standard-2"}


def test_fields_that_no_flag_mentions_stay() -> None:
    before = new_workload("api", Flags(image="a:1", cities=("DFW",), env=("A=1", "B=2")))
    before["spec"]["template"]["spec"]["somethingNew"] = {"kept": True}

    after = changed_workload(before, Flags(image="a:2"))

    assert container(after) == {**container(before), "image": "a:2"}
    assert after["spec"]["template"]["spec"]["somethingNew"] == {"kept": True}
    assert container(before)["image"] == "a:1"


def test_a_trailing_dash_removes_a_variable_and_a_changed_one_keeps_its_place() -> None:
    before = new_workload("api", Flags(image="a:1", cities=("DFW",), env=("A=1", "B=2", "C=3")))

    after = changed_workload(before, Flags(env=("C-", "A=9")))

    assert container(after)["env"] == [{"name": "A", "value": "9"}, {"name": "B", "value": "2"}]


def test_flags_change_the_rollout_policy_field_by_field() -> None:
    def policy(workload: dict[str, Any]) -> Any:
        notes = workload["metadata"].get("annotations") or {}
        return json.loads(notes.get(ANNOTATION_ROLLOUT, "null"))

    flags = Flags(image="a:1", cities=("DFW", "IAD"), waves="dfw,IAD+*", soak="60s", gate="Smoke")
    workload = new_workload("api", flags)
    assert policy(workload) == {"waves": [["DFW"], ["IAD", "*"]], "soak": "60s", "gate": "Smoke"}

    workload = changed_workload(workload, Flags(waves="each", gate="none", on_failure="undo"))
    assert policy(workload) == {"waves": "each", "soak": "60s", "onFailure": "Undo"}
    assert policy(changed_workload(workload, Flags(image="a:2"))) == policy(workload)

    workload = changed_workload(workload, Flags(waves="none"))
    assert policy(workload) is None
    assert "annotations" not in new_workload("api", Flags(image="a", cities=("DFW",)))["metadata"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (Flags(cities=("DFW",)), "needs an image"),
        (Flags(image="a:1"), "needs a city"),
        (Flags(image="a:1", cities=("DFW",), ports=("0",)), "1 to 65535"),
        (Flags(image="a:1", cities=("DFW",), ports=("Bad_=80",)), "not a valid port name"),
        (Flags(image="a:1", cities=("DFW",), env=("A",)), "expected NAME=VALUE"),
        (Flags(image="a:1", cities=("DFW",), env=("=x",)), "not a valid variable name"),
        (Flags(image="a:1", cities=("DFW",), env=("-",)), "not a valid variable name"),
        (Flags(image="a:1", cities=("DFW",), env=("A B=1",)), "not a valid variable name"),
        (Flags(image="a:1", cities=("DFW",), env=("ä=1",)), "not a valid variable name"),
        (Flags(image="a:1", cities=("DFW",), ports=("٣",)), "1 to 65535"),
        (Flags(image="a:1", cities=("DFW",), ports=("80", "80")), "more than once"),
        (Flags(image="a:1", cities=("DFW",), ports=("a=1", "a=2")), "more than once"),
        (Flags(image="a:1", cities=("DFW",), ports=("a=1", "b=1")), "more than once"),
        (Flags(image="a:1", cities=("DFW",), ports=("a-very-long-name=1",)), "valid port name"),
        (Flags(image="a b", cities=("DFW",)), "cannot contain spaces"),
        (Flags(image="Nginx", cities=("DFW",)), "with NAME in lower case"),
        (Flags(image="nginx:", cities=("DFW",)), "with NAME in lower case"),
        (Flags(image="https://registry.example/app", cities=("DFW",)), "with NAME in lower case"),
        (Flags(image="app@sha256:12", cities=("DFW",)), "with NAME in lower case"),
        (Flags(image="a:1", cities=("DFW",), network=""), "expected a network name"),
        (Flags(image="a:1", cities=("DFW",), network="a/b"), "expected a network name"),
        (Flags(image="a:1", cities=("DFW",), instance_type=""), "expected an instance type"),
        (Flags(image="a:1", cities=("DFW",), waves="DFW,"), "a plus within one"),
        (Flags(image="a:1", cities=("DFW",), waves="DFW,IAD+dfw"), "DFW is in two waves"),
        (Flags(image="a:1", cities=("DFW",), soak="soon"), '--soak: "soon" is not a duration'),
        (
            Flags(image="a:1", cities=("DFW",), waves="none", gate="A"),
            "--gate cannot be combined with --waves none",
        ),
    ],
)
def test_invalid_flags_are_usage_errors_with_the_expected_form(flags: Flags, expected: str) -> None:
    with pytest.raises(CommandError, match=expected) as caught:
        new_workload("api", flags)

    assert caught.value.exit_code is Exit.USAGE


@pytest.mark.parametrize(
    "image",
    [
        "nginx",
        "nginx:1.27-alpine_3",
        "localhost:5000/app",
        "127.0.0.1:5000/a/b__c/d-e:latest",
        "[::1]:5000/app",
        "registry.example/acme/app:1@sha256:" + "0a" * 32,
    ],
)
def test_any_image_reference_is_accepted(image: str) -> None:
    created = new_workload("api", Flags(image=image, cities=("DFW",)))

    assert states.image(created) == image


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "contains no document"),
        ("a: [", "not valid YAML"),
        ("- 1", "expected an object, found a list"),
        ("true", "expected an object, found true"),
        ("kind: Pod\napiVersion: v1", 'document 1: .*found "v1 Pod"'),
        ("kind: Workload\napiVersion: compute.datumapis.com/v1alpha", "metadata.name"),
        (
            "kind: Workload\napiVersion: compute.datumapis.com/v1alpha\nmetadata: {name: a}",
            "spec: Required",
        ),
    ],
)
def test_an_invalid_file_is_refused_with_its_position(text: str, expected: str) -> None:
    with pytest.raises(CommandError, match=expected):
        load(["-"], io.StringIO(text))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(Flags(image=""), "expected an image name"), (Flags(cities=()), "at least one city")],
)
def test_an_empty_flag_value_clears_nothing(flags: Flags, expected: str) -> None:
    live = new_workload("api", Flags(image="a:1", cities=("DFW",)))

    with pytest.raises(CommandError, match=expected) as caught:
        changed_workload(live, flags)

    assert caught.value.exit_code is Exit.USAGE


WHOLE = """\
apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: NAME}
spec:
  template: {spec: {networkInterfaces: [{network: {name: default}}]}}
  placements: [{name: default, cityCodes: [DFW]}]
"""
BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WHOLE.replace("NAME", "5"), "metadata.name: expected a string, found 5"),
        (WHOLE.replace("NAME", "a/b"), 'metadata.name: "a/b" is not a valid name: use lower-case'),
        (WHOLE.replace("NAME", "a, labels: [b]"), "metadata.labels: expected an object"),
        (WHOLE.replace("NAME", "a, annotations: b"), "metadata.annotations: expected an object"),
        (WHOLE.replace("NAME", "a, namespace: other"), 'default, found "other"'),
        (WHOLE + "---\n" + WHOLE, '"NAME" is not a valid name'),
        ((WHOLE + "---\n" + WHOLE).replace("NAME", "twice"), '"twice" is defined more than'),
        (WHOLE.replace("NAME", "a") + "---\nkind: Pod", "document 2: .*found .no apiVersion Pod"),
        (WHOLE.replace("NAME", "a").replace("[DFW]", "[5]"), r"cityCodes\[0\]: expected a string"),
        (WHOLE.replace("NAME", "a").replace("[DFW]", "DFW"), "cityCodes: expected a list"),
        (WHOLE.replace("NAME", "a").replace("{name: default}}]", "null}]"), "network: expected an"),
        (WHOLE.replace("NAME", "a") + "status: {1: x}", "key 1 is not a string"),
        (WHOLE.replace("NAME", "a") + "status: {on: x}", "key true is not a string"),
        (WHOLE.replace("NAME", "a") + "status: .nan", "document 1: nan is not valid in JSON"),
        (WHOLE.replace("NAME", "a") + "status: !!binary aGVsbG8=", "binary data is not valid in"),
        (WHOLE.replace("NAME", "a") + "status: !!pairs [x: 1]", "a pair is not valid in JSON"),
        (WHOLE.replace("NAME", "a") + "a: 0b_", 'line 7: "0b_" cannot be read as a whole number'),
        (WHOLE.replace("NAME", "a") + "a: !!bool x", '"x" cannot be read as true or false; quote'),
        (WHOLE.replace("NAME", "a") + "a: !!timestamp x", '"x" cannot be read as a date; quote'),
        (WHOLE.replace("NAME", "a") + "a: " + "9" * 5000, "9{40}. cannot be read as a whole numb"),
        (WHOLE.replace("NAME", "a") + 'a: "\\U00110000"', "an escape is no character"),
        (WHOLE.replace("NAME", "a") + 'a: "x\\ud800"', r"\\ud800 alone is no character"),
        (WHOLE.replace("NAME", "a") + "? [1, 2]\n: x", "not valid YAML"),
        (WHOLE.replace("NAME", "a") * 2, 'line 7: key "apiVersion" already set in map'),
        (WHOLE.replace("name: NAME", "name: a,\n  name: b"), 'line 4: key "name" already set'),
        (WHOLE.replace("NAME", 'a, "name": b'), 'line 3: key "name" already set'),
        (BOMB + WHOLE.replace("NAME", "a"), "expands to more than 200000 values"),
        ("a: &a {b: *a}\n" + WHOLE, "nested more than 64 levels"),
        ("[" * 1000, "nested more than 64 levels"),
        ("x" * (3 * 2**20 + 1), "larger than 3 MiB"),
    ],
    ids=lambda value: str(value)[-30:],
)
def test_a_hostile_file_is_refused_before_any_request(text: str, expected: str) -> None:
    with pytest.raises(CommandError, match=expected) as caught:
        load(["-"], io.StringIO(text))

    assert caught.value.exit_code is Exit.USAGE


def test_a_mapping_may_replace_a_key_that_it_merges() -> None:
    merged = "x: &a {name: default, cityCodes: [LHR]}\n" + WHOLE.replace("NAME", "a")
    text = merged.replace("[{name: default, cityCodes", "[&b {<<: *a, cityCodes") + "y: {<<: *b}\n"

    [found] = load(["-"], io.StringIO(text))

    assert found["spec"]["placements"] == [{"name": "default", "cityCodes": ["DFW"]}]


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "workload.yaml"
    file.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(CommandError, match="not a UTF-8 text file"):
        load([str(file)], io.StringIO())


def test_a_value_that_looks_like_a_date_stays_text() -> None:
    [loaded] = load(["-"], io.StringIO(WHOLE.replace("NAME", "a") + "x: 2024-01-01"))

    assert loaded["x"] == "2024-01-01"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nothing\.yaml: No such file"):
        load([str(tmp_path / "nothing.yaml")], io.StringIO())


MISTYPED = """\
apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: web}
spec:
  templat: {spec: {networkInterfaces: []}}
  placements: [{name: default, cityCode: [DFW]}]
  wholly: different
"""


def test_a_mistyped_field_is_named_before_the_missing_field_in_one_message() -> None:
    with pytest.raises(CommandError) as caught:
        load(["-"], io.StringIO(MISTYPED))

    assert caught.value.exit_code is Exit.USAGE
    assert caught.value.message.split("\n  ") == [
        "-f - has 5 errors:",
        "document 1: spec.templat: unknown field; did you mean template?",
        "document 1: spec.placements[0].cityCode: unknown field; did you mean cityCodes?",
        "document 1: spec.wholly: unknown field; known here: template, placements",
        "document 1: spec.placements[0].cityCodes: expected a list",
        "document 1: spec.template: expected an object",
    ]


def test_faults_of_several_documents_are_reported_together() -> None:
    text = WHOLE.replace("NAME", "A_B") + "---\n" + WHOLE.replace("NAME", "b").replace("[DFW]", "5")

    with pytest.raises(CommandError) as caught:
        load(["-"], io.StringIO(text))

    assert caught.value.message.split("\n  ") == [
        "-f - has 2 errors:",
        'document 1: metadata.name: "A_B" is not a valid name: '
        'use lower-case letters, digits and "-", beginning and ending with a letter or a digit',
        "document 2: spec.placements[0].cityCodes: expected a list",
    ]


def test_a_field_of_a_newer_server_is_left_for_the_server_to_judge() -> None:
    text = WHOLE.replace("NAME", "a").replace("spec:\n", "spec:\n  brandNew: {a: 1}\n")

    [loaded] = load(["-"], io.StringIO(text))

    assert loaded["spec"]["brandNew"] == {"a": 1}


def template(workload: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = workload["spec"]["template"]
    return found


def test_data_is_named_in_variables_files_and_pulls_and_removed_again() -> None:
    before = new_workload("api", Flags(image="a:1", cities=("DFW",), env=("A=1", "B=2")))
    named = Flags(
        env_from=("config/settings", "secret/keys", "config/settings"),
        env_secrets=("A=keys:token",),
        env_config=("C=settings:colour",),
        mounts=("config/settings:/etc/app", "secret/my.keys:/etc/keys"),
        pull_secrets=("registry",),
        roll_on_config_change=True,
    )
    after = changed_workload(before, named)

    assert container(after) == {
        "name": "app",
        "image": "a:1",
        "env": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
            {"name": "B", "value": "2"},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}],
        "volumeAttachments": [
            {"name": "config-settings", "mountPath": "/etc/app"},
            {"name": "secret-my-keys", "mountPath": "/etc/keys"},
        ],
    }
    assert template(after)["spec"]["volumes"] == [
        {"name": "config-settings", "configMap": {"name": "settings"}},
        {"name": "secret-my-keys", "secret": {"secretName": "my.keys"}},
    ]
    sandbox = template(after)["spec"]["runtime"]["sandbox"]
    assert sandbox["imagePullSecrets"] == [{"name": "registry"}]
    assert list(template(after)["metadata"]["annotations"].values()) == ["true"]
    assert changed_workload(after, named) == after

    moved = changed_workload(after, Flags(mounts=("config/settings:/etc/new",)))
    assert container(moved)["volumeAttachments"][0]["mountPath"] == "/etc/new"
    assert len(template(moved)["spec"]["volumes"]) == 2

    removed = Flags(
        env_from=("config/settings-", "secret/keys-"),
        env=("A=1", "C-"),
        mounts=("config/settings-", "secret/my.keys-"),
        pull_secrets=("registry-",),
        roll_on_config_change=False,
    )
    last = changed_workload(after, removed)
    assert diff_specs(before["spec"], last["spec"]) == ()


def test_a_volume_that_another_container_uses_stays() -> None:
    flags = Flags(image="a:1", cities=("DFW",), mounts=("config/settings:/etc/app",))
    workload = new_workload("api", flags)
    attachments = container(workload)["volumeAttachments"]
    containers = template(workload)["spec"]["runtime"]["sandbox"]["containers"]
    containers.append({"name": "side", "image": "b:1", "volumeAttachments": attachments})

    after = changed_workload(workload, Flags(mounts=("config/settings-",)))

    assert container(after)["volumeAttachments"] == []
    assert len(template(after)["spec"]["volumes"]) == 1


def test_a_volume_gets_a_name_that_is_free() -> None:
    first = Flags(image="a:1", cities=("DFW",), mounts=("config/a.b:/1", "config/a-b:/2"))
    workload = new_workload("api", first)
    assert [each["name"] for each in template(workload)["spec"]["volumes"]] == [
        "config-a-b",
        "config-a-b-2",
    ]
