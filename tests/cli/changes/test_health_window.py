"""A command that waits for a rollout says complete only after everything has stayed ready."""

from __future__ import annotations

import json

import pytest

from tests.support.cli.read_screens import manifest
from tests.support.cli.session import cli_session

CRASHES = json.dumps(manifest("api", crash_after_seconds="2"))


def test_a_crash_right_after_the_rollout_fails_the_deploy() -> None:
    with cli_session("DFW", "LHR") as here:
        result = here.run("deploy -f -", stdin=CRASHES)

        assert result.code == 3, result.transcript
        assert "  healthy, watching for 10s\n" in result.err
        assert "after it was complete: crashing: " in result.err
        assert "Rollout complete" not in result.err


def test_a_deploy_without_a_window_ends_when_the_rollout_is_complete() -> None:
    with cli_session("DFW", "LHR") as here:
        result = here.run("deploy -f - --window=0s", stdin=CRASHES)

        assert result.code == 0, result.transcript
        assert "healthy" not in result.err


@pytest.mark.parametrize("line", ["scale api --min 2", "restart api", "rollout undo api --yes"])
def test_every_wait_for_a_rollout_watches_and_deploy_says_when_it_was_complete(line: str) -> None:
    with cli_session("DFW") as here:
        created = here.run("deploy api --image=a:1 --city=DFW")
        assert "Rollout complete in 0." in created.err, "the window is no part of it"
        here.run("deploy api --image=a:2 --no-wait")
        here.wait(20)

        assert "  healthy, watching for 10s\n" in here.run(line).err
        assert "healthy" not in here.run("rollout status api").err, "nothing rolls any more"
