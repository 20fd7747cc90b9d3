"""A command waits for the spec it wrote: a change from elsewhere ends its wait, and Ctrl-C leaves
the rollout to itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.history.entries import change_annotation, new_entry
from datum_compute.cli.history.spec_patch import change_spec
from datum_compute.cli.session import to_dict
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.cli.intercepted_session import InterceptedSession
from tests.support.cli.read_screens import manifest
from tests.support.cli.session import CliSession, CommandResult, cli_session

SLOW = json.dumps(manifest("api", start_seconds="60"))
WAITS = {
    "deploy": "deploy api --image=a:3",
    "scale": "scale api --min 3",
    "restart": "restart api",
    "undo": "rollout undo api --to-revision 1 --yes",
    "status": "rollout status api",
}


def run_while(
    here: CliSession, line: str, meanwhile: Callable[[], Awaitable[Any]], after: float = 3
) -> CommandResult:
    """Run a command, and something else that many seconds after its start."""

    async def later() -> None:
        await asyncio.sleep(after)
        await meanwhile()

    task = here.loop.create_task(later())
    result = here.run(line)
    here.loop.run_until_complete(task)
    return result


def slow_workload(here: CliSession) -> None:
    assert here.run("deploy -f - --no-wait", stdin=SLOW).code == 0
    assert here.run("deploy api --image=a:2 --no-wait").code == 0


async def patch_image(here: CliSession, image: str) -> None:
    """A change as kubectl makes it."""
    containers = [{"name": "app", "image": image}]
    spec = {"template": {"spec": {"runtime": {"sandbox": {"containers": containers}}}}}
    await here.client().patch(compute.WORKLOADS, "api", merge({"spec": spec}), "default")


@pytest.mark.parametrize("waiting", sorted(WAITS))
def test_a_wait_ends_as_superseded_when_the_spec_moves_on(waiting: str) -> None:
    with cli_session("DFW", "LHR") as here:
        slow_workload(here)

        result = run_while(here, WAITS[waiting], lambda: patch_image(here, "a:9"))

        assert result.code == 8, result.transcript
        number = 3 if waiting == "status" else 4
        said = f'the rollout of "api" was superseded by revision #{number} (by another client, 0s'
        assert said in result.err
        assert "complete" not in result.err


def test_a_superseded_wait_names_the_user_whose_change_came_after() -> None:
    with cli_session("DFW", "LHR") as here:
        slow_workload(here)

        async def ben() -> None:
            client = here.client()
            live = to_dict(await client.get(compute.WORKLOADS, "api", "default"))
            spec = json.loads(json.dumps(live["spec"]))
            spec["placements"][0]["scaleSettings"]["minReplicas"] = 4
            entry = new_entry(spec, now=here.env.now(), changes="scaled", actor="ben")
            notes = {**live["metadata"]["annotations"], **change_annotation(entry)}
            await change_spec(client, live, spec, annotations=notes)

        result = run_while(here, WAITS["deploy"], ben)

        assert result.code == 8
        assert "superseded by revision #4 (by ben, 0s ago)" in result.err
        assert "Try:  datumctl-compute rollout status api" in result.err


def test_a_wait_does_not_take_a_namesake_for_the_workload_it_wrote() -> None:
    with cli_session("DFW", "LHR") as here:
        slow_workload(here)

        async def recreate(request: HttpRequest, number: int) -> HttpResponse | None:
            """Before the first read of the wait, so that it never finds its own."""
            if ("watch", "true") in request.query:
                watched.append(number)
            elif watched and request.path.endswith("/workloads/api") and not done:
                done.append(number)
                client = here.client()
                await client.delete(compute.WORKLOADS, "api", "default")
                patch = merge({"metadata": {"finalizers": None}})
                await client.patch(compute.WORKLOADS, "api", patch, "default")
                await client.create(compute.WORKLOADS, manifest("api"), "default")
            return None

        watched: list[int] = []
        done: list[int] = []
        between = InterceptedSession(here, recreate)
        result = between.run(WAITS["deploy"])

        assert done
        assert result.code == 8, result.err
        assert '"api" was deleted and created again' in result.err


def test_a_workload_destroyed_meanwhile_is_not_found_rather_than_superseded() -> None:
    with cli_session("DFW", "LHR") as here:
        slow_workload(here)

        async def destroy() -> None:
            await here.client().delete(compute.WORKLOADS, "api", "default")

        result = run_while(here, WAITS["deploy"], destroy)

        assert result.code == 5, result.transcript
        assert 'workload "api" was deleted while it was watched' in result.err


@pytest.mark.parametrize("waiting", sorted(set(WAITS) - {"status"}))
def test_ctrl_c_after_a_write_detaches_with_the_exit_code_of_an_interrupt(waiting: str) -> None:
    with cli_session("DFW", "LHR") as here:
        slow_workload(here)

        async def interrupt(request: HttpRequest, number: int) -> HttpResponse | None:
            if ("watch", "true") in request.query:
                await between.interrupt()
            return None

        between = InterceptedSession(here, interrupt)
        result = between.run(WAITS[waiting])

        assert result.code == 130
        assert 'Detached; the rollout of "api" goes on. See  datumctl-compute status api' in (
            result.err
        )
        image = here.run("status api -o json").json["image"]
        assert (image == "a:2") == (waiting in ("scale", "restart")), "the change was written"


@pytest.mark.parametrize("line", ["scale api --min 2", "restart api", "rollout status api"])
def test_nothing_waits_for_a_workload_that_is_being_deleted(line: str) -> None:
    with cli_session("DFW") as here:
        assert here.run("deploy api --image=a:1 --city=DFW").code == 0
        here.platform.partitions.disconnect("dfw")
        assert here.run("destroy api --yes --no-wait").code == 0
        here.wait(5)

        result = here.run(line)

        assert result.code == 6, result.transcript
        assert 'Error: workload "api" is being destroyed' in result.err
        assert "Try:  datumctl-compute destroy api --yes" in result.err
        assert here.run("rollout status api --no-wait").code == 0
