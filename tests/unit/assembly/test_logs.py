"""A log line is a constant message and its values, and can be taken apart again."""

from __future__ import annotations

import logging

from datum_compute.assembly.logs import TextFormatter


def line(message: str, **fields: object) -> str:
    record = logging.LogRecord("datum_compute.runtime", logging.INFO, "", 0, message, (), None)
    record.fields = fields
    return TextFormatter().format(record)


def test_values_follow_the_message_and_odd_ones_are_quoted() -> None:
    text = line("reconcile failed", cluster="demo", reason='it said "no"', delay=0.25, name="")

    assert text.endswith(
        r'datum_compute.runtime: reconcile failed cluster=demo reason="it said \"no\"" delay=0.25'
    )


def test_a_value_cannot_start_a_line_of_its_own() -> None:
    assert "\n" not in line("waiting", reason="first\nsecond")
