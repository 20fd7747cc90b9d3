"""How a deploy ends when another shell, its user, a crash or its policy interferes: the words and
the exit code of each, in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from datum_compute.assembly.local.state import StateDirectory
from tests.support.cli.read_screens import manifest

pytestmark = [pytest.mark.long, pytest.mark.realtime]


class Shells:
    """Commands on one platform, one after the other or at once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = StateDirectory(directory / "state")

    def start(self, *words: str) -> subprocess.Popen[str]:
        place = ["--data-dir", str(self.state.path)]
        return subprocess.Popen(
            [sys.executable, "-m", "datum_compute.cli", *words, *place],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"HOME": str(self.directory), "PATH": os.defpath, "DATUM_RUNTIME": "simulated"},
        )

    def run(self, *words: str) -> str:
        done = self.start(*words)
        out, err = done.communicate(timeout=120)
        assert done.returncode == 0, f"{words}: {err}"
        return out

    def file(self, name: str, policy: dict[str, Any] | None = None, **simulated: str) -> str:
        """A workload of one instance in each city, for the simulated provider."""
        body = manifest(name, **simulated)
        [placement] = body["spec"]["placements"]
        placement |= {"cityCodes": ["DFW", "LHR"], "scaleSettings": {"minReplicas": 1}}
        if policy is not None:
            body["metadata"]["annotations"] = {"compute.datumapis.com/rollout": json.dumps(policy)}
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps(body))
        return str(path)


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shells]:
    found = Shells(tmp_path_factory.mktemp("shells"))
    try:
        found.run("local", "up", "--detach", "--cities", "DFW,LHR")
        yield found
    finally:
        pid = found.state.holder()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)


def ending(first: subprocess.Popen[str], seen: str, then: Callable[[], object]) -> tuple[int, str]:
    """The exit code and stderr of a command, after something that is done once ``seen`` shows."""
    assert first.stderr is not None
    text = ""
    for line in first.stderr:
        text += line
        if seen in line:
            break
    then()
    text += first.communicate(timeout=120)[1]
    return first.returncode, text


def test_a_deploy_that_another_shell_supersedes_ends_with_8(shells: Shells) -> None:
    slow = shells.file("slow", start_seconds="60")
    first = shells.start("deploy", "-f", slow)

    code, text = ending(
        first, "PLACEMENT", lambda: shells.run("scale", "slow", "--min", "2", "--no-wait")
    )

    assert (code, 'the rollout of "slow" was superseded by revision #2 (by ' in text) == (8, True)


def test_a_deploy_that_its_user_cancels_is_detached_with_130(shells: Shells) -> None:
    first = shells.start("deploy", "-f", shells.file("left", start_seconds="60"))

    code, text = ending(first, "PLACEMENT", lambda: first.send_signal(signal.SIGINT))

    assert (code, 'Detached; the rollout of "left" goes on.' in text) == (130, True)
    assert json.loads(shells.run("workloads", "-o", "json"))


def test_a_deploy_that_another_shell_aborts_is_rolled_back_and_ends_with_3(
    shells: Shells,
) -> None:
    flags = ("--city=DFW,LHR", "--waves=each", "--soak=2s")
    shells.run("deploy", "steered", "--image=a:1", *flags)
    first = shells.start("deploy", "steered", "--image=a:2", "--soak=10m")

    code, text = ending(first, "Soaking", lambda: shells.run("rollout", "abort", "steered"))

    assert code == 3, text
    assert 'rollout of "steered" failed: rolled back: template ' in text
    assert "aborted by a user" in text
    [newest, *_] = json.loads(shells.run("rollout", "history", "steered", "-o", "json"))
    assert newest["outcome"] == "rolled back"


def test_a_deploy_that_its_policy_undoes_ends_with_3(shells: Shells) -> None:
    policy = {"waves": "each", "timeout": "5s", "onFailure": "Undo"}
    shells.run("deploy", "-f", shells.file("undone", policy))
    first = shells.start("deploy", "-f", shells.file("undone", policy, start_seconds="60"))

    code, text = ending(first, "PLACEMENT", lambda: None)

    assert code == 3, text
    assert 'rollout of "undone" failed: rolled back: template ' in text
    status = json.loads(shells.run("rollout", "status", "undone", "--no-wait", "-o", "json"))
    assert (status["stage"], [row["phase"] for row in status["rows"]]) == (
        "RolledBack",
        ["Undone", "Waiting"],
    )


def test_a_deploy_that_crashes_in_the_window_ends_with_3(shells: Shells) -> None:
    first = shells.start("deploy", "-f", shells.file("crashes", crash_after_seconds="2"))

    code, text = ending(first, "healthy, watching for 10s", lambda: None)

    assert (code, "after it was complete: crashing: " in text) == (3, True), text
