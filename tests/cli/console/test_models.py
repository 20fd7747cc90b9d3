"""What the page shows is what the commands print, in every state that has a golden screen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from datum_compute.cli.console import models
from datum_compute.cli.console.project import CopiedProject
from datum_compute.cli.console.sessions import ConsoleGrant
from datum_compute.cli.explain.suggestions import Invocation
from tests.support.cli.read_screens import SCENES
from tests.support.cli.session import PROGRAM, TOKEN, CliSession

Json = dict[str, Any]


@contextmanager
def copied_project(here: CliSession) -> Iterator[CopiedProject]:
    """The copies that a session of the console keeps."""
    grant = ConsoleGrant(TOKEN, here.platform.settings.project, True, Invocation(PROGRAM))

    async def begin() -> tuple[CopiedProject, asyncio.Task[None]]:
        project = CopiedProject(here.env, here.platform.server.handle, grant)
        return project, asyncio.create_task(project.run())

    async def end(task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    project, task = here.act(begin())
    try:
        yield project
    finally:
        here.act(end(task))


def printed(here: CliSession, line: str) -> Any:
    """The JSON of a command without raw objects and ages; None where it fails."""
    result = here.run(f"{line} -o json")
    return models.shown(result.json) if result.code == 0 else None


def expected_overview(here: CliSession) -> Json:
    found: Json = {}
    for view in printed(here, "workloads"):
        name = view["name"]
        found[f"workloads/{name}"] = view
        found[f"placements/{name}"] = printed(here, f"status {name}")["placements"]
        found[f"rollouts/{name}"] = printed(here, f"rollout status {name} --no-wait")
    found |= {f"instances/{view['name']}": view for view in printed(here, "instances")}
    found |= {f"cities/{view['city']}": view for view in printed(here, "cities")}
    return found | {f"quota/{view['resource']}": view for view in printed(here, "quota")}


def expected_details(here: CliSession, name: str) -> Json:
    described = printed(here, f"workloads describe {name}")
    found = {"why": printed(here, f"why {name}")}
    if described is not None:
        found["status"] = printed(here, f"status {name}")
        found["history"] = printed(here, f"rollout history {name}")
        found["events"] = described["events"][: models.MAX_EVENTS]
    return {f"{key}/{name}": value for key, value in found.items()}


def compare(here: CliSession, project: CopiedProject, overview: models.Overview) -> None:
    """The overview is computed with what it remembers, and from nothing."""
    here.wait(0.01)  # the copies follow
    known = here.act(project.read(overview.compute))
    fresh = here.act(project.read(models.Overview().compute))
    expected = expected_overview(here)
    assert fresh == expected
    assert {key: each for key, each in known.items() if not key.startswith("quota/")} == {
        key: each for key, each in expected.items() if not key.startswith("quota/")
    }
    names = [key.partition("/")[2] for key in known if key.startswith("workloads/")]
    instances = sorted(key for key in known if key.startswith("instances/"))[:1]
    for name in [*names, *(key.partition("/")[2] for key in instances)]:
        found: Json = {}
        for detail in models.details(name):
            found |= here.act(project.read(detail))
        assert found == expected_details(here, name), name


@pytest.mark.parametrize("name", sorted(SCENES))
def test_the_models_are_what_the_commands_print(name: str) -> None:
    scene, compared, before = SCENES[name], 0, -1
    with scene.session() as here, copied_project(here) as project:
        overview = models.Overview()
        for _ in scene.play(here):
            revision = here.platform.store.planes["project/demo"].revision
            if revision != before:  # most screens are of a state that was compared
                compare(here, project, overview)
                compared += 1
            before = here.platform.store.planes["project/demo"].revision
    assert compared
