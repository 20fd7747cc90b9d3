"""Flags describe a new workload, and change only what they mention of an existing one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.manifest import Flags, changed_workload, load, new_workload


def container(workload: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = workload["spec"]["template"]["spec"]["runtime"]["sandbox"][
        "containers"
    ][0]
    return found


def test_flags_make_a_whole_workload() -> None:
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


def test_what_flags_do_not_mention_stays() -> None:
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


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (Flags(cities=("DFW",)), "needs an image"),
        (Flags(image="a:1"), "needs a city"),
        (Flags(image="a:1", cities=("DFW",), ports=("0",)), "1 to 65535"),
        (Flags(image="a:1", cities=("DFW",), ports=("Bad_=80",)), "not a valid port name"),
        (Flags(image="a:1", cities=("DFW",), env=("A",)), "expected NAME=VALUE"),
    ],
)
def test_bad_flags_are_usage_errors_that_say_what_is_expected(flags: Flags, says: str) -> None:
    with pytest.raises(CommandError, match=says) as caught:
        new_workload("api", flags)

    assert caught.value.exit_code is Exit.USAGE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no document"),
        ("a: [", "not valid YAML"),
        ("- 1", "expected an object, found list"),
        ("kind: Pod\napiVersion: v1", 'found "v1 Pod"'),
        ("kind: Workload\napiVersion: compute.datumapis.com/v1alpha", "metadata.name"),
        (
            "kind: Workload\napiVersion: compute.datumapis.com/v1alpha\nmetadata: {name: a}",
            "spec: Required",
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        load("-", io.StringIO(text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nothing\.yaml: No such file"):
        load(str(tmp_path / "nothing.yaml"), io.StringIO())
