"""Rules in CEL: the same verdict at the same field as a real server.

With ``CEL_VERDICTS=write`` the verdicts of the real server are stored for the tests that have none.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.support.apiserver.cel_cases import (
    CASES,
    DEFINITIONS,
    VERDICTS,
    comparable,
    requests,
    verdict,
)
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.differential import DifferentialRequest, ServerSide, both_sides

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def judge(side: ServerSide, number: int) -> list[list[list[str]]]:
    """The verdicts of one case, the definition's first."""
    found: list[list[list[str]]] = []
    for ask in requests(number, CASES[number]):
        code, answer = side.send(DifferentialRequest(ask.method, ask.path, ask.body))
        # A real server serves a new definition some time after it has answered.
        while code == 404 and not isinstance(answer, dict):
            code, answer = side.send(DifferentialRequest(ask.method, ask.path, ask.body))
        if ask.is_judged:
            found.append(verdict(answer))
        else:
            assert code == 201, answer
        if ask.path == DEFINITIONS:
            if code != 201:
                return found
            _wait_served(side, number)
    return found


def _wait_served(side: ServerSide, number: int) -> None:
    group = f"c{number}.cel.example.com"
    for version in ("v1", "v2"):
        path = f"/apis/{group}/{version}/namespaces/default/things"
        while side.send(DifferentialRequest("GET", path))[0] != 200:
            pass


def test_every_rule_has_the_verdict_of_the_real_server(control_plane: ControlPlane) -> None:
    wrong: list[Any] = []
    stored: dict[str, Any] = {}
    with both_sides(control_plane) as (ours, real):
        for number, case in enumerate(CASES):
            expected, found = judge(real, number), judge(ours, number)
            stored[case.title] = expected
            if [*map(comparable, expected)] != [*map(comparable, found)]:
                wrong.append((case.title, expected, found))
    if os.environ.get("CEL_VERDICTS") == "write":
        VERDICTS.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    assert not wrong, json.dumps(wrong, indent=1)
