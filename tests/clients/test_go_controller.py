"""A controller written with controller-runtime does its work on the embedded server.

It has everything that such programs have: a manager with leader election, caches filled by
WatchList, a finalizer, an owned object, a status, Events by both recorders, typed writes and
deletes, and server-side apply.
"""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_conformance.targets import PREFIX, https_server
from tests.support.clients.kubeconfig import write_kubeconfig
from tests.support.cluster.differential import DEFINITIONS, DifferentialRequest, ServerSide

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
GADGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Gadget", "plural": "gadgets"},
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
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"text": {"type": "string"}},
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, ServerSide]]:
    """A kubeconfig for an empty plane, and a way to ask it."""
    with https_server() as server:
        address = server.address
        tls = ssl.create_default_context(cadata=address.ca_pem.decode())
        side = ServerSide(address.base_url, PREFIX, address.token, tls)
        try:
            yield write_kubeconfig(tmp_path / "kubeconfig", address), side
        finally:
            side.close()


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


def check_scenario(binary: Path, served: tuple[Path, ServerSide]) -> None:
    kubeconfig, side = served
    code, made = side.send(DifferentialRequest("POST", DEFINITIONS, GADGETS))
    assert code == 201, made

    lines = run_scenario(binary, kubeconfig)

    assert [line for line in lines if line.startswith("done: ")] == [f"done: {s}" for s in STEPS]
    counts = dict(line.rsplit(": ", 1) for line in lines if not line.startswith("done: "))
    assert int(counts["watch lists"]) >= 2, "one for each cached kind"
    assert int(counts["protobuf bodies"]) >= 10
    _, lease = side.send(
        DifferentialRequest("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/gadgets")
    )
    assert not lease["spec"].get("holderIdentity"), "the leader gave the lease back"
    _, events = side.send(DifferentialRequest("GET", "/api/v1/namespaces/default/events"))
    assert {"Written", "WrittenToo"} <= {event["reason"] for event in events["items"]}


def test_a_controller_with_the_newest_client_go_does_its_work(
    controller: Path, served: tuple[Path, ServerSide]
) -> None:
    check_scenario(controller, served)


@pytest.mark.campaign
def test_a_controller_with_the_minor_before_does_its_work(
    previous_controller: Path, served: tuple[Path, ServerSide]
) -> None:
    check_scenario(previous_controller, served)
