"""The logs command."""

from datum_compute.cli.commands.logs.command import configure, run

__all__ = ["configure", "run"]
