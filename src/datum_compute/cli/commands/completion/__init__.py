"""The completion command: :mod:`.command` prints a script for the shell, which runs the hidden
``__complete``, and :mod:`.candidates` answers that."""

from datum_compute.cli.commands.completion.command import configure, run

__all__ = ["configure", "run"]
