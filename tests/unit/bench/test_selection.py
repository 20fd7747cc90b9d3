"""Which budgets a command line selects, and to which module time is attributed."""

from __future__ import annotations

import argparse
import json

import pytest

from bench.__main__ import NUMBERS, build_parser, parse_numbers
from bench.apiserver import gadget
from bench.profiler import FunctionKey, module_of


def test_everything_is_measured_unless_some_are_named() -> None:
    assert build_parser().parse_args([]).only == NUMBERS
    assert build_parser().parse_args(["--only", "1,9"]).only == [1, 9]


@pytest.mark.parametrize("text", ["", "0", "1,", "1,nine", "1,1000"])
def test_unknown_budget_numbers_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected some of 1, 2, 3"):
        parse_numbers(text)


@pytest.mark.parametrize(
    ("key", "module"),
    [
        (
            ("/x/src/datum_compute/runtime/workqueue/queue.py", 7, "add"),
            "datum_compute.runtime.workqueue.queue",
        ),
        (("/x/src/datum_compute/api/__init__.py", 1, "f"), "datum_compute.api"),
        (("/v/site-packages/uvicorn/server.py", 3, "get"), "uvicorn"),
        (("/usr/lib/python3.11/asyncio/events.py", 80, "_run"), "asyncio"),
        (("/usr/lib/python3.11/heapq.py", 1, "merge"), "heapq"),
        (("~", 0, "<method 'execute' of 'apsw.Connection' objects>"), "apsw (compiled)"),
        (("~", 0, "<built-in method builtins.len>"), "builtins (compiled)"),
        (("~", 0, "<method 'append' of 'list' objects>"), "built-in"),
    ],
)
def test_time_is_attributed_to_the_module_that_spent_it(key: FunctionKey, module: str) -> None:
    assert module_of(key) == module


def test_measured_objects_have_the_size_the_budget_names() -> None:
    assert 900 <= len(json.dumps(gadget("gadget-00000"))) <= 1124
