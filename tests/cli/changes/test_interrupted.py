"""A command that is interrupted at any request and run again ends as if the first had
finished: with the same objects and the same history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import CONFIG_MAPS
from datum_compute.cli.history.entries import NAME_PREFIX
from datum_compute.cli.session import to_dict
from datum_compute.client import errors
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.cli.intercepted_session import InterceptedSession
from tests.support.cli.session import CliSession, cli_session

BASE = "deploy {} --image=a/api:1 --city=DFW --label=team=web"
NEWER = "deploy {} --image=a/api:2 --env=A=1"


@dataclass(frozen=True)
class Scenario:
    """Commands that lead to the one that is interrupted."""

    before: tuple[str, ...]
    command: str


SCENARIOS = {
    "create": Scenario((), BASE),
    "update": Scenario((BASE,), NEWER + " --label=tier=1"),
    "scale": Scenario((BASE,), "scale {} --min 2"),
    "undo": Scenario((BASE, NEWER), "rollout undo {} --to-revision 1 --yes"),
    "destroy": Scenario((BASE,), "destroy {} --yes"),
}

WAYS = ("interrupted before", "interrupted after", "dropped before", "dropped after")


def end(here: CliSession, way: str, at: int) -> InterceptedSession:
    """Interrupt a command at its ``at``-th request."""

    async def here_and_now(request: HttpRequest, number: int) -> HttpResponse | None:
        if number != at:
            return None
        if way.startswith("dropped"):
            raise errors.Disconnected("the line broke")
        await between.interrupt()
        return None

    async def pass_on(request: HttpRequest, number: int) -> HttpResponse | None:
        return None

    if way.endswith("before"):
        between = InterceptedSession(here, here_and_now)
    else:
        between = InterceptedSession(here, pass_on, here_and_now)
    return between


def outcome(here: CliSession, name: str) -> Any:
    """All objects of a workload, without names, ids and times."""
    client = here.client()

    async def look() -> list[Any]:
        found: list[Any] = []
        for resource in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
            for item in (await client.list(resource, "default")).items:
                value = to_dict(item)
                if item.name == name or item.name.startswith(f"{name}-"):
                    found.append((resource.plural, value.get("spec"), _labels(value)))
        for item in (await client.list(CONFIG_MAPS, "default")).items:
            if item.name == NAME_PREFIX + name:
                data = to_dict(item)["data"]
                found += [_entry(data[key]) for key in sorted(data, key=int)]
        return found

    text = json.dumps(here.act(look()), sort_keys=True)
    uids = {to_dict(item)["metadata"]["uid"] for item in _all(here)}
    for uid in uids:
        text = text.replace(uid, "UID")
    return json.loads(text.replace(name, "NAME"))


def _all(here: CliSession) -> Iterator[Any]:
    for resource in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
        yield from here.act(here.client().list(resource, "default")).items


def _labels(value: dict[str, Any]) -> Any:
    return value["metadata"].get("labels")


def _entry(text: str) -> Any:
    entry = json.loads(text)
    return {key: value for key, value in entry.items() if key != "timestamp"}


def run_interrupted(
    here: CliSession, scenario: Scenario, way: str, at: int, name: str
) -> tuple[bool, Any]:
    """Whether the command made that many requests, and the objects at the end."""
    for line in scenario.before:
        assert here.run(line.format(name)).code == 0
    between = end(here, way, at)
    first = between.run(scenario.command.format(name))
    if len(between.requests) < at:
        return False, None
    assert first.code in (0, 1, 130), (at, between.requests[at - 1], first)
    again = here.run(scenario.command.format(name))
    gone = "destroy" in scenario.command and again.code == 5
    assert again.code == 0 or gone, (at, between.requests[at - 1], again.err)
    here.wait(5)
    return True, outcome(here, name)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_an_interrupted_command_run_again_ends_as_if_it_had_finished(
    scenario: str, way: str
) -> None:
    with cli_session("DFW") as here:
        recorded = SCENARIOS[scenario]
        for line in (*recorded.before, recorded.command):
            assert here.run(line.format("w0")).code == 0
        here.wait(5)
        wanted = outcome(here, "w0")
        at, interrupted = 0, True
        while interrupted:
            at += 1
            assert at < 100
            interrupted, found = run_interrupted(here, recorded, way, at, f"w{at}")
            if interrupted:
                assert found == wanted, f"{way} request {at}"
            here.run(f"destroy w{at} --yes")
        assert at > 5, "it makes several requests"


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_failed_undo_run_again_is_finished_and_not_reverted(way: str) -> None:
    """Without a revision an undo goes to the previous one: run again after a failure it must
    not undo itself. One that is wholly recorded says that the rollout goes on."""
    with cli_session("DFW") as here:
        for at in range(1, 30):
            name = f"w{at}"
            for line in (BASE, NEWER):
                assert here.run(line.format(name) + " --no-wait").code == 0
            between = end(here, way, at)
            first = between.run(f"rollout undo {name} --yes --no-wait")
            if len(between.requests) < at:
                break
            stored = here.act(here.client().get(CONFIG_MAPS, NAME_PREFIX + name, "default"))
            if len(to_dict(stored)["data"]) == 3:
                assert first.code == 0 or "the rollout" in first.err, first
            else:
                assert here.run(f"rollout undo {name} --yes --no-wait").code == 0
            image = here.run(f"status {name} -o json").json["image"]
            assert image == "a/api:1", (at, between.requests[at - 1])
            here.run(f"destroy {name} --yes")
        else:
            raise AssertionError("an undo makes fewer requests")
        assert at > 5


def restarts(here: CliSession, name: str) -> list[str]:
    """The changes in the history after the first."""
    found = here.run(f"rollout history {name} -o json").json
    return [each["changes"] for each in reversed(found)][1:]


def restarted_at(here: CliSession, name: str) -> set[str]:
    """The restart annotations of a workload's deployments."""
    page = here.act(here.client().list(compute.WORKLOAD_DEPLOYMENTS, "default"))
    mine = [to_dict(item) for item in page.items if item.name.startswith(f"{name}-")]
    templates = [each["spec"]["template"].get("metadata") or {} for each in mine]
    found = [(each.get("annotations") or {}).get(RESTARTED) for each in templates]
    return {each for each in found if each}


RESTARTED = "compute.datumapis.com/restartedAt"
BOTH = "deploy {} --image=a/api:1 --city=DFW,LHR --no-wait"


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("flags", "recorded"), [("", "restart"), (" --city DFW", "restart in DFW")], ids=["all", "city"]
)
def test_every_restart_is_recorded_wherever_it_was_interrupted(
    flags: str, recorded: str, way: str
) -> None:
    """Every restart time in a template has its entry, and the second run restarts."""
    with cli_session("DFW", "LHR") as here:
        for at in range(1, 40):
            name = f"w{at}"
            assert here.run(BOTH.format(name)).code == 0
            here.wait(5)
            between = end(here, way, at)
            between.run(f"restart {name} --no-wait{flags}")
            if len(between.requests) < at:
                break
            here.wait(5)
            first = restarted_at(here, name)
            again = here.run(f"restart {name} --no-wait{flags}")
            here.wait(5)
            assert again.code == 0, again.err
            assert restarted_at(here, name) - first, f"{way} request {at}: it did not restart"
            entries = restarts(here, name)
            assert set(entries) == {recorded}
            assert len(entries) >= len(first) + 1, f"{way} request {at}: {entries}"
            here.run(f"destroy {name} --yes")
        else:
            raise AssertionError("a restart makes fewer requests")
        assert at > 5
