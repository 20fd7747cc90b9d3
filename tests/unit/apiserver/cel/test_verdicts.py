"""Rules in CEL: the verdicts that a real server gave, field by field."""

from __future__ import annotations

import json
from typing import Any

from tests.support.apiserver.cel_cases import CASES, VERDICTS, comparable, requests, verdict
from tests.support.apiserver.widgets import widget_server

RULES_AT_LEAST = 60


async def test_every_rule_has_the_verdict_of_a_real_server() -> None:
    expected = json.loads(VERDICTS.read_text())
    wrong: list[Any] = []
    async with widget_server() as caller:
        for number, case in enumerate(CASES):
            found = []
            revision = "1"
            for ask in requests(number, case):
                body = json.dumps(ask.body).replace("@revision", revision).encode()
                code, answer = await caller.call(ask.method, ask.path, body)
                revision = (answer.get("metadata") or {}).get("resourceVersion", revision)
                if ask.is_judged:
                    found.append(verdict(answer))
                if code == 422 and not ask.path.endswith("things") and "one-" not in ask.path:
                    break
            if [*map(comparable, expected[case.title])] != [*map(comparable, found)]:
                wrong.append((case.title, expected[case.title], found))
    assert not wrong, json.dumps(wrong, indent=1)


def test_the_verdicts_are_those_of_many_rules_and_of_both_kinds() -> None:
    expected = json.loads(VERDICTS.read_text())

    assert expected.keys() == {case.title for case in CASES}
    judged = [one for verdicts in expected.values() for one in verdicts[1:]]
    refused = [title for title, (definition, *_) in expected.items() if definition]
    assert len(expected) - len(refused) >= RULES_AT_LEAST
    assert len(refused) > 30
    assert sum(1 for one in judged if one) > 100
    assert sum(1 for one in judged if not one) > 90
