"""Status: from the member to the template, and when.

Facts about Karmada that the stand-in reproduces, one per test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpResponse
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.karmada import karmada_controllers
from tests.support.client.intercepted_transport import Rule, SentRequest, ends_with, record, respond
from tests.support.objects import condition, until
from tests.support.standins.karmada import (
    BINDING,
    BINDINGS,
    CLUSTERS,
    HUB_KINDS,
    INTERPRETERS,
    NAME,
    NS,
    POLICIES,
    WDS,
    change,
    propagated,
    propagation,
    report,
    until_ready,
    work_of,
)
from tests.support.standins.platform import (
    create_cluster,
    create_interpreter,
    create_policy,
    deployment,
    revisions,
    running,
    settle,
    standin_platform,
)


async def test_status_reaches_the_template_in_less_than_a_second_without_polling() -> None:
    async with propagated() as found:
        await settle()
        await report(found, replicas=3)

        await until(
            found.hub,
            WDS,
            NAME,
            NS,
            lambda one: values(one.status).get("replicas") == 3,
            within=1.0,
        )


async def test_status_is_brought_up_from_a_member_that_counts_as_not_ready() -> None:
    async with propagated() as found:
        await settle()
        unhealthy = respond(HttpResponse(500, {}, b"not ready"))
        found.links["dfw"].rules.append(Rule(unhealthy, ends_with("/readyz", "/healthz")))
        await until_ready(found, "False", within=90)
        await report(found, replicas=3)

        await until(
            found.hub,
            WDS,
            NAME,
            NS,
            lambda one: values(one.status).get("replicas") == 3,
            within=1.0,
        )


async def test_the_work_holds_the_members_status_with_its_identity() -> None:
    async with propagated() as found:
        await report(found, replicas=3)
        await until(found.hub, WDS, NAME, NS, lambda one: values(one.status).get("replicas") == 3)
        status = values((await work_of(found)).status)["manifestStatuses"][0]

        assert status["status"]["replicas"] == 3
        assert status["identifier"] == {
            "ordinal": 0,
            "group": WDS.group,
            "version": WDS.version,
            "kind": WDS.kind,
            "resource": WDS.plural,
            "namespace": NS,
            "name": NAME,
        }


async def test_a_reflection_script_that_returns_nil_is_an_error_that_is_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with propagated() as found:
        script = {"luaScript": "function ReflectStatus(o) return o.status end"}
        customizations = {"customizations": {"statusReflection": script}}
        await change(found, INTERPRETERS, "workloaddeployment-status", spec=customizations)
        with caplog.at_level(logging.ERROR):
            await change(found, WDS, NAME, metadata={"annotations": {"a": "1"}})
            await settle()
        failed = [str(each.exc_info) for each in caplog.records if each.exc_info]
        assert len(failed) > 1
        assert all("ReflectStatus" in each and "got nil" in each for each in failed)

        await report(found, replicas=3)
        await until(found.hub, WDS, NAME, NS, lambda one: values(one.status).get("replicas") == 3)


async def test_of_several_members_the_status_of_the_first_by_name_is_used() -> None:
    async with propagation() as found:
        for name in ("lhr", "dfw"):
            await create_cluster(found.hub, name, "DFW")
        await create_interpreter(found.hub)
        await create_policy(found.hub, NS, "DFW")
        await change(found, POLICIES, "city-dfw", spec={"placement": {"spreadConstraints": None}})
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        for name, replicas in (("lhr", 5), ("dfw", 2)):
            await until(found.cells[name], WDS, NAME, NS, lambda _: True)
            status = {"replicas": replicas, "currentReplicas": 0, "desiredReplicas": 0}
            await found.cells[name].patch(
                WDS, NAME, merge({"status": status}), NS, subresource="status"
            )

        await until(
            found.hub,
            BINDINGS,
            BINDING,
            NS,
            lambda one: (
                [
                    (item["clusterName"], item.get("status", {}).get("replicas"))
                    for item in values(one.status).get("aggregatedStatus", [])
                ]
                == [("dfw", 2), ("lhr", 5)]
            ),
        )
        await until(found.hub, WDS, NAME, NS, lambda one: values(one.status).get("replicas") == 2)


async def test_nothing_is_written_again_while_nothing_changes() -> None:
    async with propagated() as found:
        await report(found, replicas=1)
        await settle()
        planes = [found.hub, *found.cells.values()]
        before = await revisions(planes, HUB_KINDS)
        await asyncio.sleep(3600)

        assert await revisions(planes, HUB_KINDS) == before


async def test_a_member_is_probed_at_readyz_and_where_that_is_missing_at_healthz() -> None:
    async with standin_platform() as found:
        probes: list[SentRequest] = []
        missing = HttpResponse(404, {"content-type": "text/plain"}, b"404 page not found")
        found.links["dfw"].rules += [
            Rule(record(probes), ends_with("/readyz", "/healthz")),
            Rule(respond(missing), ends_with("/readyz")),
        ]
        members = found.member_fleet()
        async with running(found.env, karmada_controllers(found.hub_fleet(), members, found.env)):
            await create_cluster(found.hub, "dfw", "DFW")
            await until_ready(found, "True")

        paths = [each.request.path.rpartition("/")[2] for each in probes]
        assert paths[:2] == ["readyz", "healthz"]


async def test_known_kinds_are_kept_when_discovery_fails() -> None:
    async with standin_platform() as found:
        members = found.member_fleet()
        async with running(found.env, karmada_controllers(found.hub_fleet(), members, found.env)):
            await create_cluster(found.hub, "dfw", "DFW")
            known = await until_ready(found, "True")
            unavailable = HttpResponse(503, {"content-type": "text/plain"}, b"not now")
            of_group = ends_with(f"/apis/{WDS.api_version}")
            found.links["dfw"].rules.append(Rule(respond(unavailable), of_group))
            partial = await until(
                found.hub,
                CLUSTERS,
                "dfw",
                "",
                lambda one: condition(one, "CompleteAPIEnablements") == ("False", "Partial"),
            )

        assert condition(known, "CompleteAPIEnablements") == ("True", "Complete")
        served = values(known.status)["apiEnablements"]
        assert WDS.kind in [one["kind"] for one in served[0]["resources"]]
        assert values(partial.status)["apiEnablements"] == served
