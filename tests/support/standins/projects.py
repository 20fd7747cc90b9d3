"""A root with the controllers of projects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.standins.milo_projects import project_controllers
from tests.support.standins.platform import (
    StandinPlatform,
    running,
    standin_platform,
)

PROJECTS = resourcemanager.PROJECTS


@asynccontextmanager
async def projects() -> AsyncIterator[StandinPlatform]:
    async with standin_platform() as found:
        controllers = project_controllers(
            found.root_fleet(),
            lambda name: found.embedded.client(f"project/{name}"),
            found.env,
        )
        async with running(found.env, controllers):
            yield found
