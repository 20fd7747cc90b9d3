"""The real kubectl applies on the server's side, on a local platform with all kinds of planes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster.kubectl import Kubectl, box

pytestmark = pytest.mark.cluster

SERVER_SIDE = ("apply", "--server-side")


def owned(kubectl: Kubectl, name: str) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    """The object, and who owns fields of it."""
    obj = kubectl.object("box", name, "--show-managed-fields")
    entries = obj["metadata"]["managedFields"]
    return obj, {(each["manager"], each["operation"]) for each in entries}


def test_apply_owns_its_fields_and_removes_what_it_drops(kubectl: Kubectl, name: str) -> None:
    first = kubectl.file(box(name, 1, {"color": "red"}, labels={"a": "b"}))
    created = kubectl.succeeds(*SERVER_SIDE, "-f", first)
    one = owned(kubectl, name)
    kubectl.succeeds(*SERVER_SIDE, "-f", first)
    same = owned(kubectl, name)
    kubectl.succeeds(*SERVER_SIDE, "-f", kubectl.file(box(name, 2)))
    two, _ = owned(kubectl, name)

    assert created == f"box.example.com/{name} serverside-applied"
    assert one[1] == {("kubectl", "Apply")}
    assert same == one, "the same again changes neither the revision nor the time"
    assert two["spec"] == {"size": 2}
    assert "labels" not in two["metadata"]


def test_a_conflict_names_the_manager_and_force_wins(kubectl: Kubectl, name: str) -> None:
    kubectl.succeeds(*SERVER_SIDE, "-f", kubectl.file(box(name, 1)))
    other = (*SERVER_SIDE, "--field-manager=other", "-f", kubectl.file(box(name, 2)))

    refused = kubectl.fails(*other)
    kubectl.succeeds(*other, "--force-conflicts")

    assert 'conflict with "kubectl": .spec.size' in refused
    assert kubectl.object("box", name)["spec"]["size"] == 2


def test_client_side_apply_moves_to_the_server_and_back(kubectl: Kubectl, name: str) -> None:
    kubectl.succeeds("apply", "-f", kubectl.file(box(name, 1, labels={"a": "b"})))
    assert owned(kubectl, name)[1] == {("kubectl-client-side-apply", "Update")}

    kubectl.succeeds(*SERVER_SIDE, "-f", kubectl.file(box(name, 2)))
    moved, managers = owned(kubectl, name)
    assert managers == {("kubectl", "Apply"), ("kubectl-last-applied", "Apply")}
    assert moved["spec"] == {"size": 2}
    assert "labels" not in moved["metadata"], "what was applied before and is dropped, goes"

    configured = kubectl.succeeds("apply", "-f", kubectl.file(box(name, 3)))
    assert configured == f"box.example.com/{name} configured"
    assert kubectl.object("box", name)["spec"] == {"size": 3}


def test_diff_shows_what_a_server_side_apply_would_do(kubectl: Kubectl, name: str) -> None:
    kubectl.succeeds(*SERVER_SIDE, "-f", kubectl.file(box(name, 1)))
    before = owned(kubectl, name)

    same = kubectl.run("diff", "--server-side", "-f", kubectl.file(box(name, 1)))
    other = kubectl.run("diff", "--server-side", "-f", kubectl.file(box(name, 2)))

    assert (same.returncode, same.stdout) == (0, "")
    changed = [line.split() for line in other.stdout.splitlines() if line[:2] in ("- ", "+ ")]
    assert other.returncode == 1
    assert ["+", "size:", "2"] in changed
    assert owned(kubectl, name) == before


def test_prune_deletes_what_is_no_longer_applied(kubectl: Kubectl, name: str) -> None:
    files = [kubectl.file(box(f"{name}-{each}", labels={"set": name})) for each in "ab"]
    options = ("--prune", f"--selector=set={name}", "--prune-allowlist=example.com/v1/Box")
    kubectl.succeeds("apply", "-f", files[0], "-f", files[1])

    done = kubectl.succeeds("apply", "-f", files[0], *options)

    assert f"box.example.com/{name}-b pruned" in done
    assert "NotFound" in kubectl.fails("get", "box", f"{name}-b")
    assert kubectl.object("box", f"{name}-a")


def test_an_applyset_deletes_what_left_it(kubectl: Kubectl, name: str) -> None:
    files = [kubectl.file(box(f"{name}-{each}")) for each in "ab"]
    words = (*SERVER_SIDE, "--prune", f"--applyset=configmaps/{name}", "--namespace=default")
    kubectl.succeeds(*words, "-f", files[0], "-f", files[1], KUBECTL_APPLYSET="true")

    done = kubectl.succeeds(*words, "-f", files[0], KUBECTL_APPLYSET="true")

    assert f"box.example.com/{name}-b pruned" in done
    assert "NotFound" in kubectl.fails("get", "box", f"{name}-b")
    assert kubectl.object("box", f"{name}-a")
