"""What others wrote never controls the terminal: names, labels, messages and log lines."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.core.objects import EVENTS
from datum_compute.cli import errors
from datum_compute.cli.context import Streams
from datum_compute.cli.explain import states
from datum_compute.cli.explain.suggestions import Invocation, Remark
from datum_compute.cli.main import main
from datum_compute.cli.render.output import Cell, Colour, table
from datum_compute.cli.render.printable import printable, printable_with_colours
from tests.support.cli.session import CliSession, SessionReach, cli_session
from tests.support.cli.terminal import Terminal

DEPLOY = "deploy api --image=a:1 --city=DFW"
INSTANCE = "api-default-dfw-0"
ESCAPES = "\x1b]0;owned\x07\x1b[2Jgone\x9b31m\u202etxt\rover \x1b[31mred\x1b[0m end"
SHOWN = r"\x1b]0;owned\x07\x1b[2Jgone\x9b31m\u202etxt\rover red end"


def report_an_event_with_escapes(here: CliSession) -> None:
    here.run(DEPLOY)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "odd", "namespace": "default"},
        "involvedObject": {"kind": "Instance", "name": INSTANCE, "namespace": "default"},
        "reason": "Odd",
        "type": "Warning",
        "message": ESCAPES,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    here.act(here.client().create(EVENTS, event, "default"))


@pytest.mark.parametrize("line", [f"instances describe {INSTANCE}", "workloads describe api"])
def test_escape_sequences_in_a_message_are_shown_instead_of_sent(line: str) -> None:
    with cli_session() as here:
        report_an_event_with_escapes(here)

        result = here.run(line)
        on_terminal = Terminal()
        streams = Streams(io.StringIO(), on_terminal, Terminal())
        main(line.split(), here.env, streams, reach=SessionReach(here))

        shown = " ".join(SHOWN.replace(r"\r", " ").split())
        assert shown in result.out
        assert shown in on_terminal.getvalue()
        assert "\x1b]" not in on_terminal.getvalue()


def test_our_own_colours_reach_the_terminal() -> None:
    with cli_session() as here:
        report_an_event_with_escapes(here)
        out = Terminal()

        main(
            ["instances"],
            here.env,
            Streams(io.StringIO(), out, Terminal()),
            reach=SessionReach(here),
        )

        assert "\x1b[32mAvailable\x1b[0m" in out.getvalue()


def test_log_lines_keep_their_control_characters_only_with_raw() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        here.logs[f"{INSTANCE}/log"] = f"2026-01-01T00:00:01Z a\tb {ESCAPES[:20]}\n"

        safe = here.run("logs api")
        raw = here.run("logs api --raw")

        assert safe.out == f"{INSTANCE} | a\tb {printable(ESCAPES[:20])}\n"
        assert "\x1b" not in safe.out
        assert raw.out == f"{INSTANCE} | a\tb {ESCAPES[:20]}\n"


def test_an_error_of_the_server_is_printed_without_control_characters() -> None:
    out = io.StringIO()

    failure = errors.CommandError(ESCAPES, Remark(ESCAPES))
    errors.render(failure, out, output=None, invocation=Invocation("program"))

    assert out.getvalue() == f"Error: {SHOWN}\nTry:  {SHOWN}\n"


@pytest.mark.parametrize("wanted", ["json", "yaml"])
def test_formats_for_programs_escape_control_characters_and_keep_them(wanted: str) -> None:
    with cli_session() as here:
        report_an_event_with_escapes(here)

        result = here.run(f"instances describe {INSTANCE} -o {wanted}")

        assert not [c for c in result.out if unicodedata.category(c) == "Cc" and c != "\n"]
        assert "owned" in result.out


@given(st.text())
def test_nothing_that_controls_a_terminal_passes(text: str) -> None:
    shown = printable(text)

    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\t\n"]
    assert printable(shown) == shown


def test_marks_for_colours_that_others_wrote_do_not_colour() -> None:
    rows = [(Cell("Available", Colour.GREEN), "\ufdd3red")]
    text = table(("STATUS", "NAME"), rows, width=None, colours=True)

    assert printable_with_colours(text).splitlines() == [
        "STATUS      NAME",
        r"\x1b[32mAvailable\x1b[0m   \ufdd3red".replace(r"\x1b", "\x1b"),
    ]


def test_a_cell_of_a_table_is_one_line() -> None:
    rows = [("a\r\n  b", "c\td"), ("e  f", "\rg")]

    drawn = table(("NAME", "NOTE"), rows, width=None)

    assert drawn.splitlines() == ["NAME   NOTE", "a b    c d", "e  f    g"]


def test_messages_cannot_carry_marks_for_colours() -> None:
    assert states.clean_message("all \ufdd3red\ufdd0 now") == "all red now"
