"""Images built by the engine from a directory on this machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from datum_compute.env import Environment
from datum_compute.providers.container import build_context, sockets
from datum_compute.providers.container.build_context import ContextUnusable
from datum_compute.providers.container.engine import (
    ContainerEngine,
    EngineRefused,
    EngineUnreachable,
)
from datum_compute.providers.container.failures import one_line
from datum_compute.providers.errors import BuildFailed

ID_LETTERS = 12
"""Of an image's id, as engines show it."""

_STEP = re.compile(r"(?:STEP|Step) \d+(?:/\d+)? ?: (.+)")


async def build_image(
    env: Environment,
    engine: str,
    name: str,
    directory: Path,
    dockerfile: str | None,
    show: Callable[[str], None],
) -> str:
    """The reference of the built image, whose tag is its id: another image has another one, and
    the same image the same. ``show`` gets the builder's output line by line. Raises
    ``BuildFailed``."""
    try:
        found = build_context.find_dockerfile(directory, dockerfile)
        archive = build_context.pack_directory(directory, found)
        socket = await sockets.find_socket(env, engine)
        if socket is None:
            raise BuildFailed(f"{engine} does not answer")
        async with ContainerEngine(socket) as opened:
            return await _build(opened, env.new_uid()[:8], name, archive, found, show)
    except ContextUnusable as error:
        raise BuildFailed(str(error)) from error
    except EngineUnreachable as error:
        raise BuildFailed(f"{engine} broke off: {error}") from error


async def _build(
    engine: ContainerEngine,
    mark: str,
    name: str,
    archive: bytes,
    dockerfile: str,
    show: Callable[[str], None],
) -> str:
    repository = f"localhost/{name}"
    # A name of its own until its id is known: two builds may run at once.
    temporary = f"{repository}:build-{mark}"
    step = ""
    try:
        async for line in engine.build(archive, temporary, dockerfile):
            show(line)
            if named := _STEP.match(line):
                step = named[1]
        image = await engine.image(temporary)
    except EngineRefused as error:
        where = f" at {step}" if step else ""
        raise BuildFailed(f"the build failed{where}: {one_line(error.message)}") from error
    if image is None:
        raise BuildFailed("the build ended without an image")
    tag = str(image["Id"]).removeprefix("sha256:")[:ID_LETTERS]
    await engine.tag(temporary, repository, tag)
    await engine.untag(temporary)
    return f"{repository}:{tag}"
