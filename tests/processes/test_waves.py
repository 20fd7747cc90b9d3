"""Three waves with one bad city, on a local platform of real processes: how a failure ends, and
what a kill, a deploy and an undo in the middle do to it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from datum_compute.assembly.local.state import StateDirectory
from tests.support.cli.read_screens import manifest

pytestmark = [pytest.mark.long, pytest.mark.realtime, pytest.mark.timeout(1800)]

CITIES = ["DFW", "IAD", "LHR"]
TIMEOUT = "45s"
"""Of a wave: long for a city that answers on a busy machine."""
LONGEST_WAIT = 600.0
"""Seconds: the machine may be busy."""


class Person:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = StateDirectory(directory / "state")

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "datum_compute.cli", *words, "--data-dir", str(self.state.path)],
            capture_output=True,
            text=True,
            timeout=LONGEST_WAIT,
            check=False,
            env={
                "HOME": str(self.directory),
                "PATH": os.defpath,
                "DATUM_RUNTIME": "simulated",
            },
        )

    def succeeds(self, *words: str) -> str:
        done = self.types(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def starts(self) -> None:
        self.succeeds("local", "up", "--detach", "--cities", ",".join(CITIES))

    def kills_the_platform(self) -> None:
        running = self.state.running()
        assert running is not None
        watched = os.pidfd_open(running.pid)
        os.kill(running.pid, signal.SIGKILL)
        select.select([watched], [], [], 30)
        os.close(watched)

    def file(self, name: str, image: str, policy: dict[str, Any], **simulated: str) -> str:
        """A workload of one instance in each city."""
        body = manifest(name, **simulated)
        template = body["spec"]["template"]
        template["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = image
        [placement] = body["spec"]["placements"]
        placement |= {"cityCodes": CITIES, "scaleSettings": {"minReplicas": 1}}
        notes = {"waves": "each", "soak": "1s", **policy}
        body["metadata"]["annotations"] = {"compute.datumapis.com/rollout": json.dumps(notes)}
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps(body))
        return str(path)

    def images(self, name: str) -> list[str]:
        """What runs in each city, in the order of the waves."""
        found = {
            each["city"]: each["object"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"]
            for each in json.loads(self.succeeds("instances", "--workload", name, "-o", "json"))
        }
        return [found.get(city, "") for city in CITIES]

    def status(self, name: str) -> tuple[str, list[str]]:
        """The stage of the rollout, and the phase of each city."""
        text = self.succeeds("rollout", "status", name, "--no-wait", "-o", "json")
        found = json.loads(text)
        return found.get("stage") or "", [row["phase"] for row in found["rows"]]

    def outcomes(self, name: str) -> list[str]:
        """Of each revision, the newest first."""
        history = json.loads(self.succeeds("rollout", "history", name, "-o", "json"))
        return [each.get("outcome", "") for each in history]


def wait_until(holds: Callable[[], bool], missing: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not holds():
        assert time.monotonic() < deadline, f"at last: {missing()}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    found = Person(tmp_path_factory.mktemp("waves"))
    try:
        found.starts()
        yield found
    finally:
        pid = found.state.holder()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)


@pytest.fixture
def bad_city(person: Person) -> Iterator[Callable[[], object]]:
    """The second city does not answer; the value lets it."""

    def mend() -> object:
        return person.succeeds("local", "cell", "connect", "iad")

    yield mend
    mend()


def roll_with_a_bad_city(person: Person, name: str, on_failure: str) -> tuple[int, str]:
    """How a deploy of the second image ends while the second city does not answer."""
    policy = {"onFailure": on_failure, "timeout": TIMEOUT}
    person.succeeds("deploy", "-f", person.file(name, "a:1", policy), "--window=0s")
    person.succeeds("local", "cell", "disconnect", "iad")
    file = person.file(name, "a:2", policy)
    done = person.types("deploy", "-f", file, "--window=0s", "--timeout=5m")
    return done.returncode, done.stderr


def test_a_bad_city_pauses_the_rollout_until_a_person_decides(
    person: Person, bad_city: Callable[[], object]
) -> None:
    code, text = roll_with_a_bad_city(person, "paused", "Pause")

    assert code == 3, text
    assert f"IAD: not ready within {TIMEOUT}" in text
    assert person.images("paused") == ["a:2", "a:1", "a:1"]
    assert person.status("paused") == ("WaveFailed", ["Done", "Failed", "Waiting"])

    person.succeeds("rollout", "promote", "paused")
    wait_until(
        lambda: person.images("paused") == ["a:2", "a:1", "a:2"], lambda: person.images("paused")
    )
    bad_city()
    wait_until(lambda: person.status("paused")[0] == "", lambda: person.status("paused"))
    assert person.images("paused") == ["a:2"] * 3


def test_a_bad_city_undoes_the_rollout_and_an_undo_of_that_changes_nothing_that_runs(
    person: Person, bad_city: Callable[[], object]
) -> None:
    code, text = roll_with_a_bad_city(person, "undone", "Undo")

    assert code == 3, text
    assert 'rollout of "undone" failed: rolled back: template ' in text
    wait_until(lambda: person.images("undone") == ["a:1"] * 3, lambda: person.images("undone"))
    assert person.status("undone") == ("RolledBack", ["Undone", "Undone", "Waiting"])
    assert person.outcomes("undone")[0] == "rolled back"
    bad_city()

    person.succeeds("rollout", "undo", "undone", "--yes", "--window=0s")

    assert person.images("undone") == ["a:1"] * 3
    assert person.status("undone")[0] == ""
    assert person.outcomes("undone")[0] == "complete"


def test_a_bad_city_is_left_behind_and_follows(
    person: Person, bad_city: Callable[[], object]
) -> None:
    code, text = roll_with_a_bad_city(person, "left", "Continue")

    assert code == 3, text
    assert person.images("left") == ["a:2", "a:1", "a:2"]
    assert person.status("left") == ("WaveFailed", ["Done", "Failed", "Done"])
    bad_city()
    wait_until(lambda: person.status("left")[0] == "", lambda: person.status("left"))
    assert person.images("left") == ["a:2"] * 3


def test_a_kill_in_the_middle_of_an_undo_changes_nothing_of_its_end(person: Person) -> None:
    slow = {"start_seconds": "5"}
    policy = {"timeout": "5m"}
    person.succeeds("deploy", "-f", person.file("killed", "a:1", policy, **slow), "--window=0s")
    policy = {"soak": "30m"}
    person.succeeds("deploy", "-f", person.file("killed", "a:2", policy, **slow), "--no-wait")
    wait_until(
        lambda: person.status("killed")[1] == ["Soaking", "Waiting", "Waiting"],
        lambda: person.status("killed"),
    )
    person.succeeds("rollout", "promote", "killed")
    wait_until(
        lambda: person.status("killed")[1] == ["Done", "Soaking", "Waiting"],
        lambda: person.status("killed"),
    )

    person.succeeds("rollout", "abort", "killed")
    person.kills_the_platform()
    person.starts()

    wait_until(lambda: person.images("killed") == ["a:1"] * 3, lambda: person.images("killed"))
    wait_until(
        lambda: person.status("killed") == ("RolledBack", ["Undone", "Undone", "Waiting"]),
        lambda: person.status("killed"),
    )
    available = json.loads(person.succeeds("instances", "--workload", "killed", "-o", "json"))
    assert {each["status"] for each in available} <= {"Available", "Starting"}
    assert person.outcomes("killed")[0] == "rolled back"


def test_a_deploy_during_a_soak_begins_anew_with_the_newest_template(person: Person) -> None:
    person.succeeds("deploy", "-f", person.file("changed", "a:1", {}), "--window=0s")
    person.succeeds("deploy", "-f", person.file("changed", "a:2", {"soak": "30m"}), "--no-wait")
    wait_until(
        lambda: person.status("changed") == ("Soaking", ["Soaking", "Waiting", "Waiting"]),
        lambda: person.status("changed"),
    )

    person.succeeds("deploy", "-f", person.file("changed", "a:3", {}), "--window=0s")

    assert person.images("changed") == ["a:3"] * 3
    assert person.outcomes("changed")[0] == "complete"
