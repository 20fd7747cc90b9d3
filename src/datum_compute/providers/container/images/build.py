"""Images built by the engine from a directory on this machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from datum_compute.env import Environment
from datum_compute.providers.container import sockets
from datum_compute.providers.container.engine import (
    ContainerEngine,
    EngineRefused,
    EngineUnreachable,
)
from datum_compute.providers.container.failures import one_line
from datum_compute.providers.container.images import context
from datum_compute.providers.container.images.context import ContextUnusable
from datum_compute.providers.errors import BuildFailed

TAG_LETTERS = 12
"""Of the digest of the files, as many as engines show of an id."""

_STEP = re.compile(r"(?:STEP|Step) \d+(?:/\d+)? ?: (.+)")


async def build_image(
    env: Environment,
    engine: str,
    name: str,
    directory: Path,
    dockerfile: str | None,
    show: Callable[[str], None],
) -> str:
    """The reference of the image, whose tag follows from the files: the same files are built once.
    ``show`` gets the builder's output line by line. Raises ``BuildFailed``."""
    try:
        found = context.find_dockerfile(directory, dockerfile)
        archive = context.pack_directory(directory, found)
        socket = await sockets.find_socket(env, engine)
        if socket is None:
            raise BuildFailed(f"{engine} does not answer")
        async with ContainerEngine(socket) as opened:
            tag = context.content_digest(archive, found)[:TAG_LETTERS]
            reference = f"localhost/{name}:{tag}"
            await _build(opened, reference, archive, found, show)
            return reference
    except ContextUnusable as error:
        raise BuildFailed(str(error)) from error
    except EngineUnreachable as error:
        raise BuildFailed(f"{engine} broke off: {error}") from error


async def _build(
    engine: ContainerEngine,
    reference: str,
    archive: bytes,
    dockerfile: str,
    show: Callable[[str], None],
) -> None:
    if await engine.image(reference) is not None:
        show(f"{reference} is there already: no file has changed")
        return
    step = ""
    try:
        async for line in engine.build(archive, reference, dockerfile):
            show(line)
            if named := _STEP.match(line):
                step = named[1]
    except EngineRefused as error:
        where = f" at {step}" if step else ""
        raise BuildFailed(f"the build failed{where}: {one_line(error.message)}") from error
