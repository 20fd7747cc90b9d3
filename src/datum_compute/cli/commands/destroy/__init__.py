"""The destroy command."""

from datum_compute.cli.commands.destroy.command import configure, run

__all__ = ["configure", "run"]
