"""The scale command."""

from datum_compute.cli.commands.scale.command import configure, run

__all__ = ["configure", "run"]
