"""What was found out about a provider on this machine."""

from __future__ import annotations

from typing import NamedTuple


class Probe(NamedTuple):
    usable: bool
    text: str
    """For people: what it runs on, or why it cannot run."""


class Sample(NamedTuple):
    """An image to try the platform with, which serves HTTP on port 80."""

    image: str
    text: str = ""
    """For people, where it is not the public one: why."""
