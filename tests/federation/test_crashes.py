"""However often, and after whichever write, a manager dies: the end is the same.

To see one crash again::

    .venv/bin/python -m tests.federation.test_crashes change_the_image 17
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from tests.e2e.stories import Wish
from tests.federation.crashes import Scenario, Teller
from tests.federation.stage import NAMESPACE, Stage

WEB = Wish("web", "acme/web:1", 2, ("DFW",))
API = Wish("api", "acme/api:1", 1, ("DFW",))


async def create(on: Stage, wish: Wish = WEB) -> None:
    await on.project.create(compute.WORKLOADS, wish.to_create(), NAMESPACE)


async def change(on: Stage, wish: Wish) -> None:
    body = merge({"spec": wish.body()["spec"]})
    await on.project.patch(compute.WORKLOADS, wish.name, body, NAMESPACE)


async def settled(on: Stage) -> None:
    await asyncio.sleep(60)


async def deployed(on: Stage) -> None:
    await create(on)


async def deployed_badly(on: Stage) -> None:
    await create(on, replace(WEB, image="acme/web:bad", fail="ImageUnavailable"))


async def deployed_in_two_cities(on: Stage) -> None:
    await create(on, replace(WEB, minimum=1, cities=("DFW", "LHR")))


async def one_denied(on: Stage) -> None:
    await create(on, replace(WEB, minimum=1))
    await settled(on)
    await create(on, API)


async def without_network(on: Stage) -> None:
    body = replace(WEB, minimum=1).to_create()
    body["spec"]["template"]["spec"]["networkInterfaces"] = [{"network": {"name": "blue"}}]
    await on.project.create(compute.WORKLOADS, body, NAMESPACE)


async def deploy(on: Stage) -> None:
    await create(on)


async def scale_up(on: Stage) -> None:
    await change(on, replace(WEB, minimum=3))


async def scale_down(on: Stage) -> None:
    await change(on, replace(WEB, minimum=1))


async def change_the_image(on: Stage) -> None:
    await change(on, replace(WEB, image="acme/web:2"))


async def restart(on: Stage) -> None:
    await change(on, replace(WEB, restarted="2026-02-01T00:00:00Z"))


async def restart_one_city(on: Stage) -> None:
    note = {compute.ANNOTATION_RESTARTED_AT: "2026-02-01T00:00:00Z"}
    body = merge({"spec": {"template": {"metadata": {"annotations": note}}}})
    await on.project.patch(compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", body, NAMESPACE)


async def fix_a_bad_image(on: Stage) -> None:
    await change(on, WEB)


async def add_a_city(on: Stage) -> None:
    await change(on, replace(WEB, cities=("DFW", "LHR")))


async def leave_a_city(on: Stage) -> None:
    await change(on, replace(WEB, minimum=1, cities=("LHR",)))


async def destroy(on: Stage) -> None:
    await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)


async def delete_and_recreate(on: Stage) -> None:
    await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
    while True:
        try:
            await create(on, replace(WEB, image="acme/web:2", minimum=1))
        except errors.AlreadyExists:
            await asyncio.sleep(0.1)
        else:
            return


async def free_a_slot(on: Stage) -> None:
    await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)


async def exceed_the_quota(on: Stage) -> None:
    await create(on, replace(WEB, minimum=2))


async def bring_the_network(on: Stage) -> None:
    body = {"metadata": {"name": "blue"}, "spec": {"ipam": {"mode": "Auto"}}}
    await on.project.create(networking.NETWORKS, body, NAMESPACE)


async def lose_an_instance(on: Stage) -> None:
    assert on.witness is not None
    found = await on.cell().get(compute.INSTANCES, "web-default-dfw-1", on.hub_namespace)
    on.witness.ordered.add(found.metadata.uid)
    await on.cell().delete(compute.INSTANCES, found.name, found.namespace)


SCENARIOS = [
    Scenario(deploy),
    Scenario(scale_up, deployed),
    Scenario(scale_down, deployed),
    Scenario(change_the_image, deployed),
    Scenario(restart, deployed),
    Scenario(restart_one_city, deployed),
    Scenario(fix_a_bad_image, deployed_badly),
    Scenario(add_a_city, deployed),
    Scenario(leave_a_city, deployed_in_two_cities),
    Scenario(destroy, deployed),
    Scenario(delete_and_recreate, deployed),
    Scenario(free_a_slot, one_denied, instances=1),
    Scenario(exceed_the_quota, instances=1),
    Scenario(bring_the_network, without_network),
    Scenario(lose_an_instance, deployed),
]
QUICK = {"deploy": (5, 11)}
"""Crashes that are seen with the ordinary tests."""


def difference(wanted: dict[str, Any], found: dict[str, Any]) -> str:
    for key in sorted(wanted.keys() | found.keys()):
        if wanted.get(key) != found.get(key):
            return f"{key}:\n  {wanted.get(key)}\n  {found.get(key)}"
    return ""


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_a_crash_after_any_write_changes_nothing_in_the_end(
    scenario: Scenario, tmp_path: Path
) -> None:
    teller = Teller(scenario, tmp_path)
    undisturbed, wanted = teller.tell(0)
    assert undisturbed.writes > 3, "there is something to interrupt"
    fatal = 1
    while True:
        killer, found = teller.tell(fatal)
        if not killer.victim:
            break
        problem = difference(wanted, found)
        assert not problem, f"{scenario.name} {fatal}: {killer.victim}, {killer.last}\n{problem}"
        fatal += 1
    assert fatal > undisturbed.writes


@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_crash_after_some_writes_changes_nothing_in_the_end(name: str, tmp_path: Path) -> None:
    [scenario] = [each for each in SCENARIOS if each.name == name]
    teller = Teller(scenario, tmp_path)
    _, wanted = teller.tell(0)
    for fatal in QUICK[name]:
        killer, found = teller.tell(fatal)
        assert killer.victim
        assert difference(wanted, found) == ""


def main() -> None:
    parser = argparse.ArgumentParser(description="See a scenario with a crash again.")
    parser.add_argument("scenario", choices=[each.name for each in SCENARIOS])
    parser.add_argument("fatal", type=int, help="the write after which the manager dies")
    arguments = parser.parse_args()
    [scenario] = [each for each in SCENARIOS if each.name == arguments.scenario]
    with TemporaryDirectory() as name:
        teller = Teller(scenario, Path(name))
        _, wanted = teller.tell(0)
        killer, found = teller.tell(arguments.fatal)
        print(killer, difference(wanted, found) or "the same", sep="\n")


if __name__ == "__main__":
    main()
