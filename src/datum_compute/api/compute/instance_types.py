"""The instance types and their sizes. Imports nothing heavy: the CLI lists them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["INSTANCE_TYPES", "INSTANCE_TYPE_D1_STANDARD_2", "InstanceType"]

PREFIX = "datumcloud/"


class InstanceType(NamedTuple):
    name: str
    """With its prefix, as the API has it."""
    millicores: int
    mebibytes: int

    @property
    def short_name(self) -> str:
        return self.name.removeprefix(PREFIX)


INSTANCE_TYPE_D1_STANDARD_2 = f"{PREFIX}d1-standard-2"
"""The default: one vCPU and two GiB of memory."""

INSTANCE_TYPES = {
    each.name: each for each in (InstanceType(INSTANCE_TYPE_D1_STANDARD_2, 1000, 2048),)
}
"""By name."""


def full_name(name: str) -> str:
    """A name with its prefix; one with another prefix stays."""
    return name if "/" in name else PREFIX + name
