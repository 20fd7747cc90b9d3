"""``version``."""

from __future__ import annotations

import argparse

from datum_compute import __version__
from datum_compute.cli.context import Context


def configure(parser: argparse.ArgumentParser) -> None:
    """Takes nothing of its own."""


def run(context: Context) -> int:
    context.show(f"datumctl-compute {__version__}")
    return 0
