"""What a person types, against the plane of a kubeconfig."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import NamedTuple

WITHIN = 240.0


class Printed(NamedTuple):
    output: str
    messages: str


async def types(kubeconfig: Path, *words: str, ends_with: int = 0) -> Printed:
    """The command must end with this exit code."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "datum_compute.cli", *words, "--kubeconfig", str(kubeconfig)),
        stdout=PIPE,
        stderr=PIPE,
        env={"HOME": str(kubeconfig.parent), "PATH": os.defpath},
    )
    try:
        output, messages = await asyncio.wait_for(process.communicate(), WITHIN)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    printed = Printed(output.decode(), messages.decode())
    assert process.returncode == ends_with, f"{words}: {process.returncode}: {printed}"
    return printed
