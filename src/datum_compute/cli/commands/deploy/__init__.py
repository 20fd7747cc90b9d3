"""The deploy command."""

from datum_compute.cli.commands.deploy.command import configure, run

__all__ = ["configure", "run"]
