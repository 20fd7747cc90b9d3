"""On a terminal progress is redrawn in place; elsewhere no escape code appears."""

from __future__ import annotations

import io

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from datum_compute.client.protocol import merge
from tests.support.cli.read_screens import manifest
from tests.support.cli.session import CliSession, SessionReach, cli_session
from tests.support.cli.terminal import Terminal

DEPLOY = ("deploy", "api", "--image=acme/api:1", "--city=DFW,LHR", "--min=2")


def at_a_terminal(here: CliSession, *argv: str, stdin: str = "") -> tuple[int, Terminal, Terminal]:
    out, err = Terminal(), Terminal()
    code = main(argv, here.env, Streams(io.StringIO(stdin), out, err), reach=SessionReach(here))
    return code, out, err


def test_a_rollout_is_redrawn_in_place_with_the_time_it_takes() -> None:
    with cli_session() as here:
        code, _, err = at_a_terminal(here, *DEPLOY)

        assert code == 0
        rows = [line for line in err.screen if line.startswith("  default")]
        assert rows == [
            "  default     DFW    2/2       2/2     Done",
            "  default     LHR    2/2       2/2     Done",
        ]
        assert sum("PLACEMENT" in line for line in err.screen) == 1
        seen = [line for screen in err.screens() for line in screen]
        assert "  0s" in seen
        assert "  0s" not in err.screen, "in the end the rows are what counts"
        assert any("Pending" in line for line in seen), "earlier states were there, and went"


def test_the_elapsed_time_is_redrawn_while_nothing_changes() -> None:
    with cli_session() as here:
        body = manifest("api", start_seconds="20")
        here.act(here.client().create(compute.WORKLOADS, body, "default"))

        code, out, _ = at_a_terminal(here, "rollout", "status", "api")

        assert code == 0
        times = {screen[-1] for screen in out.screens()}
        assert {"5s", "12s", "19s", "39s"} <= times


def test_a_blocked_row_shows_its_reason() -> None:
    with cli_session(grant={"instances": 1}) as here:
        code, _, err = at_a_terminal(here, *DEPLOY)

        assert code == 7
        blocked = [line for line in err.screen if "Blocked" in line]
        assert blocked
        assert all("Blocked    quota exceeded: " in line for line in blocked)
        assert all(len(line) <= 80 for line in err.screen if "Blocked" in line)
        assert any(line.endswith("…") for line in blocked), "cut where the terminal ends"


def test_colours_appear_only_on_terminals_that_allow_them() -> None:
    with cli_session() as here:
        at_a_terminal(here, *DEPLOY)
        _, coloured, _ = at_a_terminal(here, "instances")
        plain = here.run("instances")

        assert "\x1b[32mAvailable" in coloured.getvalue()
        assert "\x1b" not in plain.out + plain.err
        assert [line for line in coloured.screen if line] == plain.out.splitlines()

    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with cli_session(variables=variables) as here:
            _, _, err = at_a_terminal(here, *DEPLOY)
            _, out, _ = at_a_terminal(here, "status", "api")

            assert "\x1b" not in out.getvalue()
            assert "\x1b[32m" not in err.getvalue()
            assert "  default     DFW    2/2       2/2     Done" in err.screen


class LooksAway(Terminal):
    """Interrupts, as Ctrl-C does, once a text has been drawn."""

    text = ""

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.text and self.text in text:
            self.text = ""
            raise KeyboardInterrupt
        return written


@pytest.mark.parametrize("command", ["status api", "instances", "workloads"])
def test_watching_on_a_terminal_redraws_and_ends_with_ctrl_c(command: str) -> None:
    with cli_session() as here:
        here.run(" ".join((*DEPLOY, "--no-wait")))
        out, err = LooksAway(), Terminal()
        out.text = "api"
        here.wait(5)

        streams = Streams(io.StringIO(), out, err)
        code = main([*command.split(), "--watch"], here.env, streams, reach=SessionReach(here))

        assert code == 130
        assert err.screen[0] == "Interrupted."


def test_watching_off_a_terminal_prints_only_changes() -> None:
    with cli_session() as here:
        here.run(" ".join(DEPLOY))
        out, err = Paper(), io.StringIO()
        streams = Streams(io.StringIO(), out, err)
        here.loop.call_later(3.5, lambda: _scale(here))

        code = main(["instances", "--watch"], here.env, streams, reach=SessionReach(here))

        assert code == 130
        first = out.getvalue().splitlines()
        assert first[0].startswith("NAME ")
        assert [line.split()[0] for line in first[1:5]] == [
            "api-default-dfw-0",
            "api-default-dfw-1",
            "api-default-lhr-0",
            "api-default-lhr-1",
        ]
        assert first[5] == "instance/api-default-dfw-1 is gone"
        assert "\x1b" not in out.getvalue()


class Paper(io.StringIO):
    """Output whose reader interrupts once a deletion is printed."""

    def write(self, text: str) -> int:
        written = super().write(text)
        if "gone" in text:
            raise KeyboardInterrupt
        return written


def _scale(here: CliSession) -> None:
    placement = {
        "name": "default",
        "cityCodes": ["DFW", "LHR"],
        "scaleSettings": {"minReplicas": 1},
    }
    spec = merge({"spec": {"placements": [placement]}})
    patching = here.client().patch(compute.WORKLOADS, "api", spec, "default")
    here.tasks.append(here.loop.create_task(patching))
