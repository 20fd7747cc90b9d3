"""The exec command."""

from datum_compute.cli.commands.exec.command import configure, run

__all__ = ["configure", "run"]
