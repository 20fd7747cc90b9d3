"""A log line is a constant message and its fields, and can be parsed."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from datum_compute.assembly.local.process import silence_engagements
from datum_compute.assembly.logs import JsonFormatter, TextFormatter


def a_record(message: str, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord("datum_compute.runtime", logging.INFO, "", 0, message, (), None)
    record.created = 1_767_225_600.25
    record.fields = fields
    return record


def line(message: str, **fields: object) -> str:
    return TextFormatter().format(a_record(message, **fields))


def test_values_follow_the_message_and_are_quoted_where_needed() -> None:
    text = line("reconcile failed", cluster="demo", reason='it said "no"', delay=0.25, name="")

    assert text.endswith(
        r'datum_compute.runtime: reconcile failed cluster=demo reason="it said \"no\"" delay=0.25'
    )


def test_a_value_cannot_start_a_new_log_line() -> None:
    assert "\n" not in line("waiting", reason="first\nsecond")


def test_a_json_line_is_one_object() -> None:
    text = JsonFormatter().format(a_record("waiting", reason="first\nsecond", name="", delay=0.5))

    assert "\n" not in text
    assert json.loads(text) == {
        "ts": "2026-01-01T00:00:00.250Z",
        "level": "info",
        "logger": "datum_compute.runtime",
        "msg": "waiting",
        "reason": "first\nsecond",
        "delay": 0.5,
    }


def test_a_field_cannot_take_the_place_of_the_message() -> None:
    assert json.loads(JsonFormatter().format(a_record("waiting", msg="other")))["msg"] == "waiting"


def test_a_stack_trace_stays_on_one_json_line() -> None:
    record = a_record("reconcile failed")
    try:
        raise ValueError("our bug")
    except ValueError:
        record.exc_info = sys.exc_info()

    text = JsonFormatter().format(record)

    assert "\n" not in text
    assert "ValueError: our bug" in json.loads(text)["stacktrace"]


def test_a_platform_in_the_foreground_does_not_log_each_engaged_cluster(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    logger = logging.getLogger("datum_compute.runtime.fleet")
    before = logger.level
    try:
        silence_engagements()
        logger.info("cluster engaged")
        logger.warning("cluster lost")
        logging.getLogger("datum_compute.controllers").info("the hub is unreachable")
    finally:
        logger.setLevel(before)

    assert [record.message for record in caplog.records] == [
        "cluster lost",
        "the hub is unreachable",
    ]
