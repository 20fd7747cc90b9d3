"""The rollout command."""

from datum_compute.cli.commands.rollout.command import configure, run

__all__ = ["configure", "run"]
