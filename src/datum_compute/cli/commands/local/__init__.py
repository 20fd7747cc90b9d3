"""The local command."""

from datum_compute.cli.commands.local.command import configure, run

__all__ = ["configure", "run"]
