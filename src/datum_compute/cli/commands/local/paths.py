"""Paths of a local platform, as users write them."""

from __future__ import annotations

from pathlib import Path

from datum_compute.env import Environment


def abbreviate_home(path: Path, env: Environment) -> str:
    """The path with ``~`` for the home directory."""
    home = env.variable("HOME")
    if home and path.is_relative_to(home):
        return f"~/{path.relative_to(home)}"
    return str(path)
