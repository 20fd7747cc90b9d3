"""The real kubectl writes, against a local platform on all kinds of planes.

Expectations are the words a person reads, and the state of the world as the API shows it.
"""

from __future__ import annotations

import uuid

import pytest

from tests.support.cluster.kubectl import Kubectl, box, table

pytestmark = pytest.mark.cluster


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
