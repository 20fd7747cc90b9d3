"""An operator on kopf does its work, with webhooks that it registers itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.env import SystemEnvironment
from tests.support.clients.gadgets import CONFIG_MAPS, GADGETS_PATH, GadgetPlane, gadget

pytestmark = [pytest.mark.clients, pytest.mark.realtime]

OPERATOR = Path(__file__).parent / "kopf_operator.py"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
MERGE_PATCH = "application/merge-patch+json"


@pytest.fixture
def operate(plane: GadgetPlane, tmp_path: Path) -> Callable[[], Any]:
    """Runs the operator, from its first registered webhook to an orderly end."""
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    ensure_certificates(certificates, SystemEnvironment())
    environment = {
        "PATH": os.defpath,
        "HOME": str(tmp_path),
        "KUBECONFIG": str(plane.kubeconfig),
        "CERTIFICATES": str(certificates),
    }

    @contextmanager
    def run() -> Iterator[None]:
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "kopf", "run", "--standalone", "-A", str(OPERATOR)],
                stdout=log,
                stderr=log,
                env=environment,
            )
        try:
            plane.wait_until(
                lambda: registered(plane, "validating") and registered(plane, "mutating"),
                "no webhooks",
            )
            yield
            process.send_signal(signal.SIGTERM)
            # A write of its own may wait for its webhook, which no longer answers, for 30 s.
            assert process.wait(100) == 0
        finally:
            process.kill()
            process.wait()
            print((tmp_path / "log").read_text())  # shown when the test fails

    return run


def registered(plane: GadgetPlane, kind: str) -> list[dict[str, Any]]:
    found = plane.get(f"{WEBHOOKS}/{kind}webhookconfigurations/gadgets.example.com")
    return found.get("webhooks", []) if found else []


def stored(plane: GadgetPlane, name: str, field: str) -> Any:
    found = plane.get(f"{GADGETS_PATH}/{name}")
    return found.get(field, {}) if found else {}


def test_handlers_follow_the_life_of_an_object(
    plane: GadgetPlane, operate: Callable[[], Any]
) -> None:
    with operate():
        assert plane.send("POST", GADGETS_PATH, gadget("one", text="a"))[0] == 201
        child = plane.wait_until(lambda: plane.get(f"{CONFIG_MAPS}/one"), "no child")
        plane.wait_until(
            lambda: stored(plane, "one", "status").get("create") == {"child": "one"},
            "the result of the handler is not recorded",
        )
        change = {"spec": {"text": "b"}}
        path = f"{GADGETS_PATH}/one"
        assert plane.send("PATCH", path, change, content_type=MERGE_PATCH)[0] == 200
        plane.wait_until(
            lambda: plane.get(f"{CONFIG_MAPS}/one")["data"] == {"text": "b", "before": "a"},
            "the child is not updated",
        )
        plane.wait_until(lambda: stored(plane, "one", "status").get("ticks", 0) >= 3, "no timer")

    made = plane.get(f"{GADGETS_PATH}/one")
    assert made["metadata"]["finalizers"]
    (owner,) = child["metadata"]["ownerReferences"]
    assert owner["uid"] == made["metadata"]["uid"]
    events = plane.get("/api/v1/namespaces/default/events")["items"]
    assert "Written" in {event["reason"] for event in events}

    with operate():
        plane.wait_until(
            lambda: stored(plane, "one", "status").get("resumed") == 1, "no resumption"
        )
        assert plane.send("DELETE", f"{GADGETS_PATH}/one")[0] == 200
        record = plane.wait_until(lambda: plane.get(f"{CONFIG_MAPS}/one-deleted"), "no deletion")
        plane.wait_until(lambda: plane.get(f"{GADGETS_PATH}/one") is None, "the object stays")
        plane.wait_until(lambda: plane.get(f"{CONFIG_MAPS}/one") is None, "the child stays")
        assert record["data"] == {"retry": "1"}


def test_webhooks_of_the_operator_review_every_write(
    plane: GadgetPlane, operate: Callable[[], Any]
) -> None:
    path = f"{GADGETS_PATH}/one"
    with operate():
        refused, answer = plane.send("POST", GADGETS_PATH, gadget("bad", text="forbidden"))
        assert plane.send("POST", GADGETS_PATH, gadget("one", replicas=1))[0] == 201
        change = {"spec": {"text": "forbidden"}}
        unchanged, _ = plane.send("PATCH", path, change, content_type=MERGE_PATCH)
        apply = gadget("one", text="forbidden")
        query = (("fieldManager", "ana"), ("force", "true"))
        unapplied, _ = plane.send(
            "PATCH", path, apply, query=query, content_type="application/apply-patch+yaml"
        )

        assert (refused, unchanged, unapplied) == (422, 422, 422)
        assert answer["message"].endswith("denied the request: this text is forbidden")
        assert plane.get(f"{GADGETS_PATH}/bad") is None
        assert stored(plane, "one", "spec") == {"replicas": 1, "text": "as the webhook sets it"}

    assert registered(plane, "validating") == []
    assert registered(plane, "mutating") == []
    assert plane.send("POST", GADGETS_PATH, gadget("two", text="forbidden"))[0] == 201
