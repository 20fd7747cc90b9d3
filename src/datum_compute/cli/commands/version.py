"""``version``."""

from __future__ import annotations

import argparse

from datum_compute import __version__
from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.errors import PROGRAM
from datum_compute.cli.render.output import add_output_flags, show


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "version", "version -o json")
    add_output_flags(parser, "`name`, `version`")


def run(context: Context) -> int:
    text = f"{PROGRAM} {__version__}"
    view = {"name": PROGRAM, "version": __version__}
    show(context, view, as_table=lambda _: text, names=[f"version/{__version__}"])
    return 0
