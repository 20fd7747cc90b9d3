"""A controller written with controller-runtime does its work on the embedded server.

It has everything that such programs have: a manager with leader election, caches filled by
WatchList, a finalizer, an owned object, a status, Events by both recorders, typed writes and
deletes, and server-side apply.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.clients.gadgets import GadgetPlane

pytestmark = [pytest.mark.clients, pytest.mark.realtime, pytest.mark.timeout(1800)]

STEPS = (
    "leader",
    "status",
    "owned",
    "events",
    "deletion",
    "typed",
    "deletes",
    "reviews",
    "apply",
)


def run_scenario(binary: Path, kubeconfig: Path) -> list[str]:
    environment = {
        "PATH": os.defpath,
        "HOME": str(kubeconfig.parent),
        "KUBECONFIG": str(kubeconfig),
    }
    done = subprocess.run(
        [binary],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


def check_scenario(binary: Path, plane: GadgetPlane) -> None:
    lines = run_scenario(binary, plane.kubeconfig)

    assert [line for line in lines if line.startswith("done: ")] == [f"done: {s}" for s in STEPS]
    counts = dict(line.rsplit(": ", 1) for line in lines if not line.startswith("done: "))
    assert int(counts["watch lists"]) >= 2, "one for each cached kind"
    assert int(counts["protobuf bodies"]) >= 10
    lease = plane.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/gadgets")
    assert not lease["spec"].get("holderIdentity"), "the leader gave the lease back"
    events = plane.get("/api/v1/namespaces/default/events")
    assert {"Written", "WrittenToo"} <= {event["reason"] for event in events["items"]}


def test_a_controller_with_the_newest_client_go_does_its_work(
    controller: Path, plane: GadgetPlane
) -> None:
    check_scenario(controller, plane)


@pytest.mark.campaign
def test_a_controller_with_the_minor_before_does_its_work(
    previous_controller: Path, plane: GadgetPlane
) -> None:
    check_scenario(previous_controller, plane)
