"""How the path of the state directory is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from datum_compute.cli.commands.local.paths import abbreviate_home
from datum_compute.testing.environment import SimulatedEnvironment


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ana/.local/state/datum-compute", "~/.local/state/datum-compute"),
        ("/home/anabel/state", "/home/anabel/state"),
        ("/srv/state", "/srv/state"),
    ],
)
def test_a_path_below_the_home_is_shown_relative_to_it(path: str, expected: str) -> None:
    env = SimulatedEnvironment(variables={"HOME": "/home/ana"})

    assert abbreviate_home(Path(path), env) == expected


def test_without_a_home_the_path_is_shown_in_full() -> None:
    assert abbreviate_home(Path("/srv/state"), SimulatedEnvironment(variables={})) == "/srv/state"
