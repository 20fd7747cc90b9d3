"""The real kubectl against a local platform, on all kinds of planes.

Expectations are kubectl's output and the state of the API.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from datum_compute.assembly.local.state import StateDirectory
from scripts.cluster_tools import KUBERNETES_VERSION, ensure_tools

pytestmark = pytest.mark.cluster

PROJECT, HUB, CELL = PLANES = ("project/demo", "hub", "cell/dfw")

BOXES: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boxes.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Box", "plural": "boxes", "shortNames": ["bx"], "categories": ["all"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "Something to put things in.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {
                                        "type": "integer",
                                        "minimum": 1,
                                        "description": "How much goes in.",
                                    },
                                    "color": {"type": "string", "enum": ["red", "green"]},
                                },
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {
                        "name": "Color",
                        "type": "string",
                        "jsonPath": ".spec.color",
                        "priority": 1,
                    },
                ],
            }
        ],
    },
}


class Kubectl:
    """kubectl for one plane, and a directory for its files."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._directory = directory
        self._command = [
            str(ensure_tools() / "kubectl"),
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={kubeconfig.parent / 'cache'}",
        ]
        self._environment = {"HOME": str(directory), "PATH": os.defpath, "TMPDIR": str(directory)}

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *words],
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
            env={**self._environment, **environment},
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        )

    def succeeds(self, *words: str, **environment: str) -> str:
        done = self.run(*words, **environment)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def fails(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 1, f"{words}: {done.stdout}{done.stderr}"
        return done.stderr.strip()

    def object(self, *words: str) -> Any:
        return json.loads(self.succeeds("get", *words, "--output=json"))

    def file(self, obj: dict[str, Any]) -> str:
        path = self._directory / f"{uuid.uuid4().hex}.json"
        path.write_text(json.dumps(obj), encoding="utf-8")
        return str(path)

    def script(self, text: str) -> str:
        path = self._directory / f"{uuid.uuid4().hex}.sh"
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o700)
        return str(path)

    def box(self, name: str, size: int = 1, **metadata: Any) -> str:
        """Make a box."""
        self.succeeds("create", "-f", self.file(box(name, size, **metadata)))
        return name


def box(name: str, size: int = 1, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Box",
        "metadata": {"name": name, **metadata},
        "spec": {"size": size, **(spec or {})},
    }


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A running local platform; the directory holds a kubeconfig for each plane."""
    directory = tmp_path_factory.mktemp("platform")
    state = StateDirectory(directory / "state")

    def types(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "datum_compute.cli", *words, "--data-dir", str(state.path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"HOME": str(directory), "PATH": os.defpath},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        types("local", "up", "--detach", "--cities=DFW,LHR", "--port=0")
        for plane in PLANES:
            config = types("local", "kubeconfig", f"--plane={plane}")
            path = directory / plane.replace("/", "-")
            path.write_text(config, encoding="utf-8")
            path.chmod(0o600)
            kubectl = Kubectl(path, directory)
            kubectl.succeeds("create", "-f", kubectl.file(BOXES))
        yield directory
    finally:
        running = state.running()
        if running is not None:
            os.kill(running.pid, signal.SIGTERM)


@pytest.fixture(params=PLANES)
def kubectl(request: pytest.FixtureRequest, platform: Path, tmp_path: Path) -> Kubectl:
    return Kubectl(platform / request.param.replace("/", "-"), tmp_path)


@pytest.fixture
def project(platform: Path, tmp_path: Path) -> Kubectl:
    return Kubectl(platform / PROJECT.replace("/", "-"), tmp_path)


@pytest.fixture
def name() -> str:
    return f"box-{uuid.uuid4().hex[:8]}"


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


def test_apply_reports_created_unchanged_and_configured(kubectl: Kubectl, name: str) -> None:
    first = kubectl.file(box(name, 1, {"color": "red"}))
    second = kubectl.file(box(name, 2))

    created = kubectl.succeeds("apply", "-f", first)
    one = kubectl.object("box", name)
    unchanged = kubectl.succeeds("apply", "-f", first)
    same = kubectl.object("box", name)
    configured = kubectl.succeeds("apply", "-f", second)
    two = kubectl.object("box", name)

    assert created == f"box.example.com/{name} created"
    assert unchanged == f"box.example.com/{name} unchanged"
    assert same == one
    assert configured == f"box.example.com/{name} configured"
    assert two["spec"] == {"size": 2}, "fields that are no longer applied are removed"
    assert (one["metadata"]["generation"], two["metadata"]["generation"]) == (1, 2)


def test_diff_shows_what_apply_would_do_and_does_nothing(kubectl: Kubectl, name: str) -> None:
    kubectl.succeeds("apply", "-f", kubectl.file(box(name, 1)))
    before = kubectl.object("box", name)

    same = kubectl.run("diff", "-f", kubectl.file(box(name, 1)))
    other = kubectl.run("diff", "-f", kubectl.file(box(name, 2)))
    new = kubectl.run("diff", "-f", kubectl.file(box(f"{name}-new")))

    assert (same.returncode, same.stdout) == (0, "")
    changed = [line for line in other.stdout.splitlines() if line[:2] in ("- ", "+ ")]
    assert other.returncode == 1
    assert [line.split() for line in changed] == [
        ["-", "generation:", "1"],
        ["+", "generation:", "2"],
        ["-", "size:", "1"],
        ["+", "size:", "2"],
    ]
    assert (new.returncode, f"+  name: {name}-new" in new.stdout) == (1, True)
    assert kubectl.object("box", name) == before
    assert "NotFound" in kubectl.fails("get", "box", f"{name}-new")


def test_edit_saves_what_the_editor_leaves(kubectl: Kubectl, name: str) -> None:
    kubectl.box(name, 1)

    edit = kubectl.script('sed -i "s/size: 1/size: 5/" "$1"')
    edited = kubectl.succeeds("edit", "box", name, KUBE_EDITOR=edit)
    idle = kubectl.run("edit", "box", name, KUBE_EDITOR="true")

    assert edited == f"box.example.com/{name} edited"
    assert kubectl.object("box", name)["spec"] == {"size": 5}
    assert "Edit cancelled, no changes made." in idle.stdout + idle.stderr


def test_label_and_annotate_add_and_remove(kubectl: Kubectl, name: str) -> None:
    kubectl.box(name)

    labeled = kubectl.succeeds("label", "box", name, "tier=one", "extra=yes")
    refused = kubectl.fails("label", "box", name, "tier=two")
    kubectl.succeeds("label", "box", name, "tier=two", "--overwrite")
    unlabeled = kubectl.succeeds("label", "box", name, "extra-")
    annotated = kubectl.succeeds("annotate", "box", name, "example.com/note=hello world")
    bad = kubectl.fails("label", "box", name, "tier=not ok", "--overwrite")

    found = kubectl.object("box", name)["metadata"]
    assert labeled == f"box.example.com/{name} labeled"
    assert refused == "error: 'tier' already has a value (one), and --overwrite is false"
    assert unlabeled == f"box.example.com/{name} unlabeled"
    assert annotated == f"box.example.com/{name} annotated"
    assert 'invalid label value: "tier=not ok"' in bad
    assert found["labels"] == {"tier": "two"}
    assert found["annotations"] == {"example.com/note": "hello world"}
    assert found["generation"] == 1


def test_patch_accepts_merge_and_json_patches(kubectl: Kubectl, name: str) -> None:
    kubectl.box(name, 1)
    merge = '{"spec":{"size":2,"color":"red"}}'
    operations = (
        '[{"op":"test","path":"/spec/size","value":2},{"op":"remove","path":"/spec/color"}]'
    )

    merged = kubectl.succeeds("patch", "box", name, "--type=merge", "-p", merge)
    again = kubectl.succeeds("patch", "box", name, "--type=merge", "-p", merge)
    kubectl.succeeds("patch", "box", name, "--type=json", "-p", operations)
    failed = kubectl.fails("patch", "box", name, "--type=json", "-p", operations)
    strategic = kubectl.fails("patch", "box", name, "-p", merge)
    status = '{"status":{"phase":"Full"},"spec":{"size":9}}'
    kubectl.succeeds("patch", "box", name, "--subresource=status", "--type=merge", "-p", status)

    found = kubectl.object("box", name)
    assert merged == f"box.example.com/{name} patched"
    assert again == f"box.example.com/{name} patched (no change)"
    assert (
        failed
        == "The request is invalid: the server rejected our request due to an error in our request"
    )
    assert strategic.startswith("error: application/strategic-merge-patch+json is not supported by")
    assert (found["spec"], found["status"]) == ({"size": 2}, {"phase": "Full"})


def test_replace_needs_the_latest_version(kubectl: Kubectl, name: str) -> None:
    kubectl.box(name, 1)
    old = kubectl.object("box", name)
    kubectl.succeeds("label", "box", name, "a=b")
    latest = kubectl.object("box", name)
    old["spec"]["size"] = latest["spec"]["size"] = 7

    stale = kubectl.fails("replace", "-f", kubectl.file(old))
    replaced = kubectl.succeeds("replace", "-f", kubectl.file(latest))
    absent = kubectl.fails("replace", "-f", kubectl.file(box(f"{name}-absent")))

    assert stale.endswith(
        f'Operation cannot be fulfilled on boxes.example.com "{name}": the object has been'
        " modified; please apply your changes to the latest version and try again"
    )
    assert replaced == f"box.example.com/{name} replaced"
    assert absent.endswith(f'boxes.example.com "{name}-absent" not found')
    assert kubectl.object("box", name)["spec"] == {"size": 7}


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_cascades_to_dependents_or_orphans_them(
    project: Kubectl, name: str, cascade: str
) -> None:
    project.box(name)
    uid = project.object("box", name)["metadata"]["uid"]
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Box",
        "name": name,
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    project.box(f"{name}-inner", ownerReferences=[owner])

    output = project.succeeds("delete", "box", name, f"--cascade={cascade}")

    assert output == f'box.example.com "{name}" deleted'
    assert project.fails("get", "box", name).endswith("not found")
    if cascade == "orphan":
        inner = project.object("box", f"{name}-inner")
        assert "ownerReferences" not in inner["metadata"]
    else:
        project.succeeds("wait", f"box/{name}-inner", "--for=delete", "--timeout=10s")
        assert project.fails("get", "box", f"{name}-inner").endswith("not found")


def test_delete_waits_for_finalizers(kubectl: Kubectl, name: str) -> None:
    kubectl.box(name, finalizers=["example.com/hold"])
    deleting = kubectl.start("delete", "box", name)
    held = "--for=jsonpath={.metadata.deletionTimestamp}"
    kubectl.succeeds("wait", f"box/{name}", held, "--timeout=10s")
    waited = kubectl.start("wait", f"box/{name}", "--for=delete", "--timeout=20s")
    still = kubectl.object("box", name)
    again = kubectl.succeeds("delete", "box", name, "--wait=false")

    operations = '[{"op":"remove","path":"/metadata/finalizers"}]'
    kubectl.succeeds("patch", "box", name, "--type=json", "-p", operations)

    assert deleting.communicate(timeout=20)[0].strip() == f'box.example.com "{name}" deleted'
    assert waited.communicate(timeout=20)[0].strip() == f"box.example.com/{name} condition met"
    assert again == f'box.example.com "{name}" deleted'
    assert still["metadata"]["finalizers"] == ["example.com/hold"]
    assert (deleting.returncode, waited.returncode) == (0, 0)
    assert kubectl.fails("get", "box", name).endswith("not found")


def test_delete_with_dry_run_deletes_nothing(kubectl: Kubectl, name: str) -> None:
    kubectl.box(name, labels={"set": name})
    before = kubectl.object("box", name)

    output = kubectl.succeeds("delete", "box", name, "--dry-run=server")

    assert output == f'box.example.com "{name}" deleted (server dry run)'
    assert kubectl.object("box", name) == before
    kubectl.succeeds("delete", "boxes", "-l", f"set={name}")
    assert kubectl.succeeds("get", "boxes", "-l", f"set={name}", "-o", "name") == ""


def test_wait_ends_when_the_condition_is_met_or_time_is_up(kubectl: Kubectl, name: str) -> None:
    kubectl.box(name)
    waiting = kubectl.start("wait", f"box/{name}", "--for=condition=Full", "--timeout=20s")
    never = kubectl.fails("wait", f"box/{name}", "--for=condition=Empty", "--timeout=1s")
    status = '{"status":{"phase":"Done","conditions":[{"type":"Full","status":"True"}]}}'

    kubectl.succeeds("patch", "box", name, "--subresource=status", "--type=merge", "-p", status)

    assert waiting.communicate(timeout=20)[0].strip() == f"box.example.com/{name} condition met"
    assert never == f"error: timed out waiting for the condition on boxes/{name}"
    phase = "--for=jsonpath={.status.phase}=Done"
    assert kubectl.succeeds("wait", f"box/{name}", phase).endswith("condition met")
    gone = kubectl.fails("wait", f"box/{name}-absent", "--for=condition=Full")
    assert gone == f'Error from server (NotFound): boxes.example.com "{name}-absent" not found'


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


def test_deleting_a_namespace_deletes_its_content(kubectl: Kubectl, name: str) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": name},
        "data": {"a": "1"},
    }
    kubectl.succeeds("apply", "-f", kubectl.file(namespace), "-f", kubectl.file(settings))
    kubectl.box("inside", namespace=name)
    assert table(kubectl.succeeds("get", "cm,boxes", "-n", name, "-o", "name")) == [
        ["configmap/settings"],
        ["box.example.com/inside"],
    ]

    output = kubectl.succeeds("delete", "namespace", name)

    assert output == f'namespace "{name}" deleted'
    assert kubectl.fails("get", "namespace", name).endswith(f'namespaces "{name}" not found')
    assert kubectl.succeeds("get", "boxes", "-n", name, "-o", "name") == ""


def test_an_applied_workload_runs_and_is_deleted(project: Kubectl) -> None:
    name = f"web-{uuid.uuid4().hex[:6]}"
    container = {"name": "app", "image": "registry.example/acme/web:1"}
    workload = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": "datumcloud/d1-standard-2"},
                        "sandbox": {"containers": [container]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                }
            },
            "placements": [
                {
                    "name": "default",
                    "cityCodes": ["DFW", "LHR"],
                    "scaleSettings": {"minReplicas": 1},
                }
            ],
        },
    }
    manifest = project.file(workload)
    mine = ("-l", f"compute.datumapis.com/workload-name={name}")

    project.succeeds("apply", "-f", manifest)
    project.succeeds("wait", f"workload/{name}", "--for=condition=Available", "--timeout=30s")
    project.succeeds("wait", "instances", *mine, "--for=condition=Ready", "--timeout=30s")
    running = table(project.succeeds("get", "instances", *mine))
    settled = project.object("workload", name)["metadata"]["generation"]
    project.succeeds("apply", "-f", manifest)
    again = project.object("workload", name)["metadata"]["generation"]
    project.succeeds("delete", "workload", name, "--timeout=30s")

    assert [row[0] for row in running[1:]] == [f"{name}-default-dfw-0", f"{name}-default-lhr-0"]
    assert [row[2] for row in running[1:]] == ["True", "True"]
    assert again == settled, "defaults in lists make kubectl send a patch that changes nothing"
    assert project.fails("get", "workload", name).endswith("not found")
    assert project.succeeds("get", "instances", *mine, "-o", "name") == ""
