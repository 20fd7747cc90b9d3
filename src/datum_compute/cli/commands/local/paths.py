"""Where a local platform keeps its state, as people write it."""

from __future__ import annotations

from pathlib import Path

from datum_compute.env import Environment


def abbreviate_home(path: Path, env: Environment) -> str:
    """The path as people write it, from their home where it lies there."""
    home = env.variable("HOME")
    if home and path.is_relative_to(home):
        return f"~/{path.relative_to(home)}"
    return str(path)
