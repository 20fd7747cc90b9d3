"""Quota of a project: denied and freed, unobserved, lowered, and with conflicts.

Tests of a virtual day run for an hour with the ordinary tests.
"""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from datum_compute.testing.network import Direction
from tests.support.client.intercepted_transport import NO_WATCHES, Rule
from tests.support.federation.budgets import (
    A_WHILE,
    CELL,
    HOUR,
    check_claims_match_buckets,
    claims,
    conditions_shown,
    deploy,
    gone,
    in_cell,
    in_managers,
    named,
    random_conflicts,
    ready,
    refuse_kinds,
    scale,
    serving,
    set_grant,
)
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.objects import condition, until
from tests.support.simulation.platform import leftovers, list_on_planes


@A_WHILE
async def test_a_denied_instance_starts_when_quota_is_freed_and_writes_nothing_meanwhile(
    seconds: float,
) -> None:
    async with stage(cities=("DFW",), grant={"instances": 2}) as on:
        await deploy(on, "web", 2)
        await serving(on, "web", 2)
        await deploy(on, "api", 1)
        await until(
            on.project,
            compute.INSTANCES,
            "api-default-dfw-0",
            NAMESPACE,
            lambda obj: condition(obj, "QuotaGranted") == ("False", "QuotaExceeded"),
        )
        await asyncio.sleep(300)
        assert await check_claims_match_buckets(on, 2) == "", "a denied claim is not kept"
        before = on.writes()
        await asyncio.sleep(seconds)
        assert on.writes() == before

        await scale(on, "web", 1)
        await serving(on, "api", 1, within=10)
        await asyncio.sleep(1)  # a bucket reports its usage at most twice a second
        assert await check_claims_match_buckets(on, 2) == ""


@pytest.mark.parametrize("way", ["another goes", "more is granted", "granted by another"])
async def test_a_denied_instance_starts_whichever_way_quota_becomes_free(way: str) -> None:
    async with stage(cities=("DFW",), grant={"instances": 1}) as on:
        await deploy(on, "web", 1)
        await serving(on, "web", 1)
        await deploy(on, "api", 1)
        await until_denied(on, "api-default-dfw-0")
        assert await on.written_in(HOUR, after=300) == []
        if way == "another goes":
            await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        elif way == "more is granted":
            await set_grant(on, instances=2)
        else:
            [grant] = (await on.project.list(quota.RESOURCE_GRANTS)).items
            body = {"metadata": {"name": "gift"}, "spec": values(grant.spec)}
            await on.project.create(quota.RESOURCE_GRANTS, body, grant.namespace)
        await serving(on, "api", 1, within=10)
        held = 1 if way == "another goes" else 2
        await eventually("claims match buckets", lambda: check_claims_match_buckets(on, held))


async def test_a_denied_instance_claims_again_at_intervals_without_readable_buckets() -> None:
    """It retries less and less often, and keeps no denied claim."""
    rules: list[Rule] = []
    wrap = in_cell(rules, plane="project/")
    async with stage(cities=("DFW",), grant={"instances": 1}, wrap=wrap) as on:
        await deploy(on, "web", 1)
        await serving(on, "web", 1)
        rules.append(refuse_kinds(403, [quota.ALLOWANCE_BUCKETS.plural]))
        await on.restart(CELL)  # so that its cache has no bucket
        await deploy(on, "api", 1)
        await until_denied(on, "api-default-dfw-0")
        await asyncio.sleep(600)
        before = on.writes().get(quota.RESOURCE_CLAIMS.group_resource, 0)
        await asyncio.sleep(HOUR)
        asked = on.writes()[quota.RESOURCE_CLAIMS.group_resource] - before
        assert 0 < asked <= 4 * HOUR / 60, "a claim is made, answered and given up"
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await serving(on, "api", 1, within=700)
        await eventually("claims match buckets", lambda: check_claims_match_buckets(on, 1))


async def until_denied(on: Stage, name: str) -> None:
    await until(
        on.cell(),
        compute.INSTANCES,
        name,
        on.hub_namespace,
        lambda obj: condition(obj, "QuotaGranted") == ("False", "QuotaExceeded"),
    )


# A grant that is lowered.


async def test_a_grant_lowered_below_usage_stops_no_instance() -> None:
    async with stage(cities=("DFW",), grant={"instances": 3}) as on:
        assert on.commit_checker is not None
        on.commit_checker.quota_is_kept = False  # running Instances go on, and may exceed the limit
        await deploy(on, "web", 3)
        await serving(on, "web", 3)
        await asyncio.sleep(60)
        before = await conditions_shown(on, "web")
        await set_grant(on, instances=1)
        await on.restart(CELL)
        assert await on.written_in(HOUR, after=300) == []
        assert await conditions_shown(on, "web") == before

        # It rolls with the claims it holds, and releases those it no longer needs.
        body = merge({"spec": named("web", 3, image="acme/web:2")["spec"]})
        await on.project.patch(compute.WORKLOADS, "web", body, NAMESPACE)
        await asyncio.sleep(120)
        assert len(await ready(on, "web")) == 3
        await scale(on, "web", 1)
        await eventually("claims match buckets", lambda: check_claims_match_buckets(on, 1))
        await deploy(on, "api", 1)
        await until_denied(on, "api-default-dfw-0")
        await set_grant(on, instances=2)
        await serving(on, "api", 1, within=10)


# A grant without an event.


@pytest.mark.parametrize(("age", "tier"), [(20, 1.0), (200, 15.0), (500, 60.0), (2000, 300.0)])
async def test_a_grant_that_arrives_while_every_watch_is_down_is_found_within_the_tier(
    age: float, tier: float
) -> None:
    rules: list[Rule] = []
    async with stage(cities=("DFW",), grant={"instances": 0}, wrap=in_cell(rules)) as on:
        await deploy(on, "web", 1)
        await until_denied(on, "web-default-dfw-0")
        await asyncio.sleep(age)
        rules.append(NO_WATCHES)
        await set_grant(on, instances=1)
        # One tier to find free quota and claim it, and a moment to read the answer.
        await serving_gate(on, tier + 10)


@pytest.mark.parametrize(("age", "tier"), [(20, 1.0), (200, 15.0), (500, 60.0), (2000, 300.0)])
async def test_a_missed_decision_on_a_claim_is_found_within_the_tier(
    age: float, tier: float
) -> None:
    """The claim exists all the time, and its decision comes without an event."""
    rules: list[Rule] = []
    async with stage(cities=("DFW",), wrap=in_cell(rules)) as on:
        on.stop("standin-quota")
        await deploy(on, "web", 1)
        await until(
            on.cell(),
            compute.INSTANCES,
            "web-default-dfw-0",
            on.hub_namespace,
            lambda obj: condition(obj, "QuotaGranted") == ("Unknown", "QuotaNoBudget"),
        )
        await asyncio.sleep(age)
        rules.append(NO_WATCHES)
        await on.start("standin-quota")
        await serving_gate(on, tier + 10)


async def serving_gate(on: Stage, within: float) -> None:
    await until(
        on.cell(),
        compute.INSTANCES,
        "web-default-dfw-0",
        on.hub_namespace,
        lambda obj: not obj.view(compute.Instance).gates,
        within=within,
    )


# Many at once.


@pytest.mark.parametrize(("seed", "share"), [(1, 0.5), (2, 0.5), (3, 0.9)])
async def test_many_conflicts_lose_no_instance_and_no_claim(seed: int, share: float) -> None:
    rules = [random_conflicts(seed, share)]
    wrap = in_managers(rules)
    async with stage(cities=("DFW",), grant={"instances": 4}, wrap=wrap, seed=seed) as on:
        await deploy(on, "web", 3)
        await deploy(on, "api", 3)
        await serving(on, "", 4)
        assert on.commit_checker is not None
        assert on.commit_checker.broken == []
        rules.clear()
        await eventually("claims match buckets", lambda: check_claims_match_buckets(on, 4))
        await scale(on, "web", 1)
        await serving(on, "api", 3)
        await eventually("claims match buckets", lambda: check_claims_match_buckets(on, 4))


async def test_an_unregistered_kind_is_reported_and_recovers_once_registered() -> None:
    """Admission refuses such claims, so there is nothing to release."""
    async with stage(cities=("DFW",)) as on:
        root = on.client("root")
        registrations = (await root.list(quota.RESOURCE_REGISTRATIONS)).items
        [vcpus] = [
            obj for obj in registrations if values(obj.spec)["resourceType"].endswith("/vcpus")
        ]
        await root.delete(quota.RESOURCE_REGISTRATIONS, vcpus.name)
        await asyncio.sleep(5)
        await deploy(on, "web", 1)
        reported = await until(
            on.project,
            compute.INSTANCES,
            "web-default-dfw-0",
            NAMESPACE,
            lambda obj: condition(obj, "QuotaGranted") == ("False", "QuotaMisconfigured"),
        )
        assert reported.view(compute.Instance).gates == (compute.GATE_QUOTA,)
        await asyncio.sleep(700)
        before = on.writes()
        await asyncio.sleep(HOUR)
        assert on.writes() == before
        assert await claims(on) == []

        body = {"metadata": {"name": vcpus.name}, "spec": values(vcpus.spec)}
        await root.create(quota.RESOURCE_REGISTRATIONS, body)
        await serving(on, "web", 1, within=310)


async def test_a_claim_whose_release_reply_was_lost_starts_no_instance() -> None:
    """The cell's requests arrive without a reply: its cache shows a granted claim that it has
    released, and that others may hold by now."""
    async with stage(cities=("DFW",)) as on:
        await deploy(on, "api", 1)
        await deploy(on, "web", 1)
        await serving(on, "", 2)
        cell, project = {CELL}, {"project/demo"}
        on.network.partition(cell, project, direction=Direction.BACK, silent=False)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)

        async def given_up() -> str:
            held = [each.name for each in await claims(on)]
            return "" if held == ["instance-api-default-dfw-0"] else f"claims are {held}"

        await eventually("released", given_up)
        await eventually("gone", lambda: gone(on, "web"))
        await deploy(on, "web", 1)
        await asyncio.sleep(30)
        [waits] = [
            obj
            for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")
            if obj.name.startswith("web")
        ]
        assert waits.view(compute.Instance).gates == (compute.GATE_QUOTA,)
        on.network.heal()
        await serving(on, "web", 1)
        await eventually("true", lambda: check_claims_match_buckets(on, 2))


@pytest.mark.parametrize("silent", [True, False])
async def test_the_last_claim_in_an_unreachable_project_is_released_on_reconnect(
    silent: bool,
) -> None:
    """By then nothing of the project is left in the cell."""
    async with stage(cities=("DFW",)) as on:
        await deploy(on, "web", 1)
        await serving(on, "web", 1)
        on.network.partition({CELL}, {"project/demo"}, silent=silent)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("gone", lambda: gone(on, "web"))
        await asyncio.sleep(300)
        assert len(await claims(on)) == 1, "the project was unreachable"
        on.network.heal()

        await eventually("given up", lambda: check_claims_match_buckets(on, 0))


async def test_a_claim_that_arrives_after_its_instance_is_gone_is_released() -> None:
    """Its create got no answer, and by now the project has no deployment in the cell."""
    async with stage(cities=("DFW",)) as on:
        await deploy(on, "web", 1)
        await serving(on, "web", 1)
        [claim] = await claims(on)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("destroyed", lambda: leftovers(on))
        await asyncio.sleep(10)
        metadata = {"name": claim.name, "labels": dict(claim.metadata.labels)}
        body = {"metadata": metadata, "spec": values(claim.spec)}
        await on.project.create(quota.RESOURCE_CLAIMS, body, claim.namespace)

        await eventually("given up", lambda: check_claims_match_buckets(on, 0))
