"""The local platform as a person uses it: real processes, real sockets, real kills."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datum_compute.assembly.local.state import StateDirectory

pytestmark = [pytest.mark.long, pytest.mark.realtime]


class Person:
    """Runs commands with a state directory of their own."""

    def __init__(self, directory: Path) -> None:
        self.state = StateDirectory(directory / "state")
        self._environment = {
            "HOME": str(directory),
            "PATH": os.defpath,
            "DATUM_RUNTIME": "simulated",
        }

    def types(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "datum_compute.cli", *words]
        return subprocess.run(
            [*command, "--data-dir", str(self.state.path)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=self._environment,
        )

    def succeeds(self, *words: str) -> str:
        done = self.types(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def reads(self, *words: str) -> Any:
        return json.loads(self.succeeds(*words, "-o", "json"))

    def kills_the_platform(self) -> None:
        running = self.state.running()
        assert running is not None
        watched = os.pidfd_open(running.pid)
        os.kill(running.pid, signal.SIGKILL)
        # Not our child, so there is nothing to reap: the descriptor turns readable at its end.
        select.select([watched], [], [], 10)
        os.close(watched)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    user = Person(tmp_path)
    try:
        yield user
    finally:
        running = user.state.running()
        if running is not None:
            os.kill(running.pid, signal.SIGTERM)


def cities(person: Person) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for instance in person.reads("instances"):
        found.setdefault(instance["city"], []).append(instance["status"])
    return found


def test_up_deploy_scale_update_destroy_down(person: Person) -> None:
    up = person.types("local", "up", "--detach", "--cities", "DFW,LHR")
    assert up.returncode == 0, up.stderr
    assert "Ready in" in up.stderr

    deployed = person.types(
        "deploy", "web", "--image=acme/web:1", "--city=DFW,LHR", "--min=2", "--window=0s"
    )
    assert deployed.returncode == 0, deployed.stderr
    assert "Rollout complete" in deployed.stderr
    assert cities(person) == {"DFW": ["Available"] * 2, "LHR": ["Available"] * 2}

    person.succeeds("scale", "web", "--min", "3", "--window=0s")
    assert cities(person) == {"DFW": ["Available"] * 3, "LHR": ["Available"] * 3}
    person.succeeds("scale", "web", "--min", "1", "--window=0s")
    assert cities(person) == {"DFW": ["Available"], "LHR": ["Available"]}

    person.succeeds("deploy", "web", "--image=acme/web:2", "--window=0s")
    assert person.reads("status", "web")["image"] == "acme/web:2"
    assert "nothing to change" in person.types("deploy", "web", "--image=acme/web:2").stderr

    gone = person.types("destroy", "web", "--yes")
    assert gone.returncode == 0, gone.stderr
    assert person.types("status", "web").returncode == 5
    assert cities(person) == {}

    assert "already running" in person.types("local", "up", "--detach").stderr
    person.succeeds("local", "down")
    assert person.state.running() is None


def test_a_platform_killed_during_a_rollout_finishes_it_after_a_restart(person: Person) -> None:
    person.succeeds("local", "up", "--detach", "--cities", "DFW,LHR")
    person.succeeds(
        "deploy", "web", "--image=acme/web:1", "--city=DFW,LHR", "--min=6", "--window=0s"
    )
    person.succeeds("deploy", "web", "--image=acme/web:2", "--no-wait")

    person.kills_the_platform()
    assert person.state.running() is None
    person.succeeds("local", "up", "--detach")

    # The rollout was written before the kill; deploying the same again only waits for it.
    person.succeeds("deploy", "web", "--image=acme/web:2", "--window=0s")
    images = {
        i["object"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"]
        for i in person.reads("instances")
    }
    assert images == {"acme/web:2"}
    assert cities(person) == {"DFW": ["Available"] * 6, "LHR": ["Available"] * 6}


def test_every_plane_has_a_kubeconfig(person: Person) -> None:
    person.succeeds("local", "up", "--detach", "--cities", "DFW", "--runtime", "simulated")

    for plane in ("root", "hub", "cell/dfw", "cell/DFW", "project/demo"):
        assert f"datum-{plane.replace('/', '-')}" in person.succeeds(
            "local", "kubeconfig", "--plane", plane
        )
    assert person.types("local", "kubeconfig", "--plane", "cell/nowhere").returncode == 2
    absent = person.types("local", "kubeconfig", "--plane", "project/nope")
    assert (absent.returncode, absent.stdout) == (5, "")
    assert 'Error: project "nope" not found; available: demo' in absent.stderr
    status = person.reads("local", "status")
    assert status["runtime"] == "simulated"
    assert {"pid", "address", "runtime", "cities", "planes", "uptimeSeconds"} <= set(status)
    for wanted, expected in (
        ("table", f"Address   {status['address']}"),
        ("wide", f"Address   {status['address']}"),
        ("yaml", f"address: {status['address']}"),
        ("name", status["address"]),
    ):
        assert expected in person.types("local", "status", "-o", wanted).stdout.splitlines()


def test_the_status_has_the_urls_that_are_served(person: Person) -> None:
    person.succeeds("local", "up", "--detach", "--cities", "DFW", "--runtime", "simulated")
    assert person.reads("local", "status")["urls"] == []
    shown = person.succeeds("deploy", "web", "--image=a:1", "--city=DFW", "--http-port=80", "--yes")
    url = shown.splitlines()[-1]

    assert person.reads("local", "status")["urls"] == [url]
    assert f"URL       {url}" in person.succeeds("local", "status").splitlines()


def test_a_user_is_added_and_removed_in_every_format(person: Person) -> None:
    person.succeeds("local", "up", "--detach", "--cities", "DFW", "--runtime", "simulated")
    add = ("local", "user", "add", "ana", "--role")

    added = person.reads(*add, "viewer")
    again = person.reads(*add, "editor")
    other = person.reads(
        "local", "user", "add", "ben", "--role", "viewer", "--credential", "kubeconfig"
    )
    removed = person.reads("local", "user", "remove", "ana")

    token, config = added.pop("token"), other.pop("kubeconfig")
    ana = {"user": "ana", "action": "added", "project": "demo", "role": "viewer"}
    assert (added, again) == (ana, {**ana, "role": "editor"})
    assert token
    assert 'current-context: "datum-project-demo"' in config
    assert removed == {"user": "ana", "action": "removed"}
    assert person.succeeds(*add, "viewer", "-o", "name") == "user/ana\n"


def test_a_disconnected_cell_stays_disconnected_over_a_restart(person: Person) -> None:
    person.succeeds("local", "up", "--detach", "--cities", "DFW,LHR")
    person.succeeds(
        "deploy", "web", "--image=acme/web:1", "--city=DFW,LHR", "--min=1", "--window=0s"
    )
    done = person.types("local", "cell", "disconnect", "dfw")
    assert (done.returncode, "keep running" in done.stderr) == (0, True), done.stderr
    person.succeeds("local", "down")
    person.succeeds("local", "up", "--detach")

    assert person.reads("local", "status")["disconnected"] == ["DFW"]
    assert "DFW (disconnected), LHR" in person.succeeds("local", "status")
    assert cities(person) == {"DFW": ["Available"], "LHR": ["Available"]}
    assert person.types("local", "cell", "disconnect", "ABC").returncode == 2

    person.succeeds("local", "cell", "connect", "DFW")
    assert person.reads("local", "status")["disconnected"] == []
    person.succeeds("deploy", "web", "--image=acme/web:2", "--window=0s")
    # Counters and Instances return over separate connections, each of which was down for a while.
    both = {"DFW": ["Available"], "LHR": ["Available"]}
    assert any(cities(person) == both for _ in range(150))
