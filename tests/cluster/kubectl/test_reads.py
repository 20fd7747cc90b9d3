"""The real kubectl reads, against a local platform on all kinds of planes.

Expectations are the words a person reads, and the state of the world as the API shows it.
"""

from __future__ import annotations

import json
import textwrap
from urllib.parse import urlsplit

import pytest

from scripts.cluster_tools import KUBERNETES_VERSION
from tests.support.cluster.kubectl import Kubectl, box, table

pytestmark = pytest.mark.cluster


def test_kubectl_is_the_one_that_was_built(project: Kubectl) -> None:
    version = json.loads(project.succeeds("version", "--output=json"))

    assert version["clientVersion"]["gitVersion"] == KUBERNETES_VERSION
    assert version["serverVersion"]["minor"] == "32"


def test_get_shows_columns(kubectl: Kubectl, name: str) -> None:
    kubectl.succeeds(
        "create", "-f", kubectl.file(box(name, 3, {"color": "red"}, labels={"a": "b"}))
    )

    assert table(kubectl.succeeds("get", "bx", name)) == [["NAME", "SIZE"], [name, "3"]]
    assert table(kubectl.succeeds("get", "box", name, "-o", "wide"))[1] == [name, "3", "red"]
    assert table(kubectl.succeeds("get", "boxes", name, "--show-labels"))[1] == [name, "3", "a=b"]
    assert kubectl.succeeds("get", "box", name, "-o", "name") == f"box.example.com/{name}"
    assert kubectl.succeeds("get", "box", name, "-o", "jsonpath={.spec.size}") == "3"
    assert "color: red" in kubectl.succeeds("get", "box", name, "-o", "yaml")
    assert f"box.example.com/{name}" in kubectl.succeeds("get", "all", "-o", "name")


def test_get_selects_and_sorts(kubectl: Kubectl, name: str) -> None:
    for number in (2, 3, 1):
        kubectl.box(f"{name}-{number}", 10 - number, labels={"set": name, "n": str(number)})
    chosen = ("get", "boxes", "-o", "name", "-l")

    assert kubectl.succeeds(*chosen, f"set={name},n in (1,3)").splitlines() == [
        f"box.example.com/{name}-1",
        f"box.example.com/{name}-3",
    ]
    assert kubectl.succeeds(*chosen, f"set={name},n!=2,n notin (3)") == f"box.example.com/{name}-1"
    assert kubectl.succeeds(*chosen, f"set={name},!n") == ""
    by_field = kubectl.succeeds("get", "boxes", "--field-selector", f"metadata.name={name}-2")
    assert table(by_field) == [["NAME", "SIZE"], [f"{name}-2", "8"]]
    by_size = kubectl.succeeds("get", "boxes", "-l", f"set={name}", "--sort-by=.spec.size")
    assert [row[1] for row in table(by_size)[1:]] == ["7", "8", "9"]


def test_get_in_chunks_returns_everything(kubectl: Kubectl, name: str) -> None:
    for number in range(5):
        kubectl.box(f"{name}-{number}", labels={"set": name})

    found = kubectl.succeeds("get", "boxes", "-l", f"set={name}", "--chunk-size=2", "-o", "name")

    assert found.splitlines() == [f"box.example.com/{name}-{number}" for number in range(5)]


def test_get_watches_changes(kubectl: Kubectl, name: str) -> None:
    kubectl.box(name, 1)
    watching = kubectl.start("get", "box", name, "-w", "--output-watch-events")
    try:
        assert watching.stdout is not None
        lines = [watching.stdout.readline().split() for _ in range(2)]
        kubectl.succeeds("patch", "box", name, "--type=merge", "-p", '{"spec":{"size":2}}')
        lines.append(watching.stdout.readline().split())
        kubectl.succeeds("delete", "box", name)
        lines.append(watching.stdout.readline().split())
    finally:
        watching.terminate()
        watching.communicate()

    assert lines == [
        ["EVENT", "NAME", "SIZE"],
        ["ADDED", name, "1"],
        ["MODIFIED", name, "2"],
        ["DELETED", name, "2"],
    ]


def test_describe_explain_and_raw(kubectl: Kubectl, name: str) -> None:
    kubectl.box(name, 4, labels={"a": "b"})

    described = table(kubectl.succeeds("describe", "box", name))
    explained = kubectl.succeeds("explain", "box.spec")
    server = kubectl.succeeds(
        "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"
    )
    # A raw path replaces the whole path of the server's address.
    prefix = urlsplit(server).path
    path = f"{prefix}/apis/example.com/v1/namespaces/default/boxes/{name}"
    raw = json.loads(kubectl.succeeds("get", "--raw", path))

    for line in (["Name:", name], ["Labels:", "a=b"], ["Size:", "4"], ["Events:", "<none>"]):
        assert line in described
    assert "How much goes in." in explained
    assert "size\t<integer> -required-" in explained
    assert raw["spec"] == {"size": 4}
    assert kubectl.succeeds("get", "--raw", f"{prefix}/readyz") == "ok"


def test_describe_in_the_project_shows_what_happened_in_the_cell(
    project: Kubectl, name: str
) -> None:
    fail = {"simulated.compute.datumapis.com/fail": "ImageUnavailable"}
    workload = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"annotations": fail},
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": "datumcloud/d1-standard-2"},
                        "sandbox": {"containers": [{"name": "app", "image": "acme/web:1"}]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                },
            },
            "placements": [
                {"name": "main", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
            ],
        },
    }
    # A name with a dash in it, and a placement without: the readable form.
    deployment = f"{name}-main-dfw"
    project.succeeds("create", "-f", project.file(workload))
    project.succeeds("wait", f"workload/{name}", "--for=create")
    cause = "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=ImageUnavailable"
    project.succeeds("wait", f"instance/{deployment}-0", "--for=create", "--timeout=30s")
    project.succeeds("wait", f"instance/{deployment}-0", cause, "--timeout=30s")
    project.succeeds(
        "wait",
        f"workloaddeployment/{deployment}",
        cause.replace("Ready'", "ReplicasReady'"),
        "--timeout=30s",
    )

    reasons = {
        kind: [
            line[1]
            for line in table(project.succeeds("describe", kind, f"{deployment}{ordinal}"))
            if line[:1] == ["Warning"]
        ]
        for kind, ordinal in (("instance", "-0"), ("workloaddeployment", ""))
    }

    assert reasons == {"instance": ["ImageUnavailable"], "workloaddeployment": ["ImageUnavailable"]}
    project.succeeds("delete", "workload", name, "--timeout=30s")


def test_resources_are_listed_with_their_short_names(kubectl: Kubectl) -> None:
    found = table(kubectl.succeeds("api-resources", "--api-group=example.com", "-o", "wide"))
    versions = kubectl.succeeds("api-versions").splitlines()

    verbs = "delete,deletecollection,get,list,patch,create,update,watch"
    assert found[1] == ["boxes", "bx", "example.com/v1", "true", "Box", verbs, "all"]
    assert {"v1", "example.com/v1", "compute.datumapis.com/v1alpha"} <= set(versions)


def test_errors_for_missing_or_invalid_objects_are_clear(kubectl: Kubectl, name: str) -> None:
    wrong = box(name, 0, {"color": "blue"})
    misspelt = {**box(name), "spec": {"size": 1, "colour": "red"}}
    lost = box(name, namespace="nowhere")
    kubectl.box(f"{name}-there")

    assert kubectl.fails("get", "box", name) == (
        f'Error from server (NotFound): boxes.example.com "{name}" not found'
    )
    assert kubectl.fails("get", "crates") == (
        'error: the server doesn\'t have a resource type "crates"'
    )
    assert kubectl.fails("create", "-f", kubectl.file(wrong)) == textwrap.dedent(
        f"""\
        The Box "{name}" is invalid:{" "}
        * spec.color: Unsupported value: "blue": supported values: "red", "green"
        * spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"""
    )
    assert kubectl.fails("create", "-f", kubectl.file(misspelt)).endswith(
        ': strict decoding error: unknown field "spec.colour"'
    )
    assert kubectl.fails("create", "-f", kubectl.file(lost)).endswith(
        ': namespaces "nowhere" not found'
    )
    assert kubectl.fails("create", "-f", kubectl.file(box(f"{name}-there"))).endswith(
        f': boxes.example.com "{name}-there" already exists'
    )
    assert kubectl.fails("get", "boxes", "--field-selector=spec.size=1").endswith(
        "field label not supported: spec.size"
    )
    assert kubectl.fails("delete", "namespace", "default") == (
        'Error from server (Forbidden): namespaces "default" is forbidden:'
        " this namespace may not be deleted"
    )
