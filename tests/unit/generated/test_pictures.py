"""The picture of an Instance's life follows the gates of the API."""

from __future__ import annotations

import re

import pytest

from datum_compute.api.compute import reasons
from scripts import pictures


@pytest.mark.parametrize(
    ("added", "removal"),
    [
        (reasons.Gate("License", "Licensed"), "with Licensed=True"),
        (reasons.Gate("License"), "by the controller that decides it"),
    ],
    ids=["with-a-condition", "without"],
)
def test_a_new_gate_is_drawn_above_what_is_below_the_gates(
    monkeypatch: pytest.MonkeyPatch, added: reasons.Gate, removal: str
) -> None:
    before = pictures.rendered()[pictures.LIFE]
    monkeypatch.setitem(reasons.GATES, added.name, added)

    after = pictures.rendered()[pictures.LIFE]

    for gate in reasons.GATES:
        assert f">gate {gate}<" in after
    assert f">{removal}<" in after
    assert height(after) - height(before) == 76


def height(picture: str) -> int:
    [found] = re.findall(r'viewBox="0 0 1000 (\d+)"', picture)
    return int(found)
