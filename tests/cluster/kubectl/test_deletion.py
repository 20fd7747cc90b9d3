"""The real kubectl deletes, against a local platform on all kinds of planes.

Expectations are the words a person reads, and the state of the world as the API shows it.
"""

from __future__ import annotations

import pytest

from tests.support.cluster.kubectl import Kubectl, table

pytestmark = pytest.mark.cluster


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
