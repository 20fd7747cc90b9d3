"""The lifecycle of a workload, step by step on any platform.

After every step all planes must match the last spec: deployments, Instances, claims, policies,
bindings, Works and networks, with their counters.
"""

from __future__ import annotations

from dataclasses import replace

from datum_compute.api import conditions, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.testing.expectations import eventually
from tests.support.federation.instance_observer import observe_instances
from tests.support.simulation.platform import (
    NAMESPACE,
    RunningPlatform,
    cell_planes,
    leftovers,
    list_on_planes,
)
from tests.support.simulation.random_operations import DesiredWorkload
from tests.support.simulation.settled import unsettled

BOTH = ("DFW", "LHR")
FIRST = DesiredWorkload("web", "acme/web:1", 2, BOTH)


class Lifecycle:
    def __init__(self, on: RunningPlatform, *, within: float) -> None:
        """``within`` is how many seconds each step may take."""
        self._on = on
        self._within = within

    async def run(self) -> None:
        await self.deploy()
        await self.scale_up_and_down()
        await self.change_the_image()
        await self.restart_all_and_one_city()
        await self.fix_a_bad_image()
        await self.leave_a_city_and_come_back()
        await self.delete_and_recreate()
        await self.destroy()

    async def settled(self, desired: DesiredWorkload) -> None:
        await eventually(
            f"all planes match {desired}",
            lambda: unsettled(self._on, {desired.name: desired}),
            within=self._within,
        )

    async def change(self, desired: DesiredWorkload) -> None:
        body = merge({"spec": desired.body()["spec"]})
        await self._on.project.patch(compute.WORKLOADS, desired.name, body, NAMESPACE)

    async def become(self, desired: DesiredWorkload) -> None:
        await self.change(desired)
        await self.settled(desired)

    async def uids(self, city: str) -> dict[str, str]:
        found = await list_on_planes(self._on, compute.INSTANCES, f"cell/{city.lower()}")
        return {obj.name: obj.metadata.uid for obj in found}

    async def deploy(self) -> None:
        async with observe_instances(self._on) as seen:
            await self._on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
            await self.settled(FIRST)
        assert seen.broken == [], "one after the other, each behind its gates"
        came = {uid for city in BOTH for uid in (await self.uids(city)).values()}
        assert seen.gated == seen.opened == came

    async def scale_up_and_down(self) -> None:
        before = await self.uids("DFW")
        async with observe_instances(self._on) as seen:
            await self.become(replace(FIRST, minimum=4))
        assert seen.broken == []
        grown = await self.uids("DFW")
        assert {name: grown[name] for name in before} == before, "those that ran, run"
        await self.become(replace(FIRST, minimum=1))
        assert await self.uids("DFW") == {"web-default-dfw-0": before["web-default-dfw-0"]}
        await self.become(FIRST)

    async def change_the_image(self) -> None:
        before = await self.uids("LHR")
        await self.become(replace(FIRST, image="acme/web:2"))
        after = await self.uids("LHR")
        assert after.keys() == before.keys()
        assert set(after.values()).isdisjoint(before.values())

    async def restart_all_and_one_city(self) -> None:
        desired = replace(FIRST, image="acme/web:2")
        first = {city: await self.uids(city) for city in BOTH}
        await self.become(replace(desired, restarted="2026-02-01T00:00:00Z"))
        second = {city: await self.uids(city) for city in BOTH}
        for city in BOTH:
            assert set(first[city].values()).isdisjoint(second[city].values())
        note = {compute.ANNOTATION_RESTARTED_AT: "2026-02-02T00:00:00Z"}
        await self._on.project.patch(
            compute.WORKLOAD_DEPLOYMENTS,
            "web-default-dfw",
            merge({"spec": {"template": {"metadata": {"annotations": note}}}}),
            NAMESPACE,
        )
        await self.settled(desired)
        third = {city: await self.uids(city) for city in BOTH}
        assert set(second["DFW"].values()).isdisjoint(third["DFW"].values())
        assert second["LHR"] == third["LHR"]

    async def fix_a_bad_image(self) -> None:
        bad = replace(FIRST, image="acme/web:bad", fail="ImageUnavailable")
        await self.change(bad)

        async def reported() -> str:
            obj = await self._on.project.get(
                compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", NAMESPACE
            )
            stated = obj.view(compute.WorkloadDeployment).status.conditions
            ready = conditions.find(stated, "ReplicasReady")
            reason = ready.reason if ready else "nothing"
            return "" if reason == "ImageUnavailable" else f"the reason is {reason}"

        await eventually("the reason is shown in the project", reported, within=self._within)
        obj = await self._on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        available = obj.view(compute.Workload).status.conditions
        assert conditions.is_true(available, "Available"), "one at a time: the others serve"
        await self.become(replace(FIRST, image="acme/web:3"))

    async def leave_a_city_and_come_back(self) -> None:
        desired = replace(FIRST, image="acme/web:3")
        before = await self.uids("DFW")
        await self.become(replace(desired, cities=("DFW",)))
        await self.become(desired)
        assert await self.uids("DFW") == before

    async def delete_and_recreate(self) -> None:
        desired = replace(FIRST, image="acme/web:4", minimum=1)
        before = await self._on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        await self._on.project.delete(compute.WORKLOADS, "web", NAMESPACE)

        async def recreated() -> str:
            try:
                await self._on.project.create(compute.WORKLOADS, desired.to_create(), NAMESPACE)
            except errors.AlreadyExists:
                return "the name is taken"
            return ""

        await eventually("recreated at once", recreated, within=self._within)
        await self.settled(desired)
        after = await self._on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        assert after.metadata.uid != before.metadata.uid

    async def destroy(self) -> None:
        await self._on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("nothing is left", lambda: leftovers(self._on), within=self._within)
        for plane in cell_planes(self._on):
            for resource in (networking.NETWORKS, networking.NETWORK_CONTEXTS):
                assert await list_on_planes(self._on, resource, plane) == [], "the mirror goes too"
        for obj in await list_on_planes(
            self._on, quota.ALLOWANCE_BUCKETS, f"project/{self._on.settings.project}"
        ):
            status = obj.view(quota.AllowanceBucket).status
            assert (status.allocated, status.claim_count) == (0, 0), "all budget is given back"

    async def delete_the_project(self) -> None:
        """With a workload in it."""
        await self._on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
        await self.settled(FIRST)
        name = self._on.settings.project
        await self._on.client("root").delete(resourcemanager.PROJECTS, name)
        await eventually(
            "nothing of the project is left", lambda: self._left_of_project(), within=self._within
        )

    async def _left_of_project(self) -> str:
        shared = ("hub", *cell_planes(self._on))
        for resource, planes in (
            (compute.WORKLOAD_DEPLOYMENTS, shared),
            (compute.INSTANCES, shared),
            (karmada.PROPAGATION_POLICIES, ("hub",)),
            (karmada.RESOURCE_BINDINGS, ("hub",)),
            (networking.NETWORK_BINDINGS, shared[1:]),
            (networking.NETWORKS, shared[1:]),
            (networking.NETWORK_CONTEXTS, shared[1:]),
            (networking.SUBNET_CLAIMS, shared[1:]),
            (networking.SUBNETS, shared[1:]),
        ):
            for obj in await list_on_planes(self._on, resource, *planes):
                return f"{obj!r} is left"
        for work in await list_on_planes(self._on, karmada.WORKS, "hub"):
            if not any(owner.kind == "Namespace" for owner in work.metadata.owner_references):
                return f"{work!r} is left"
        for obj in (await self._on.client("root").list(resourcemanager.PROJECTS)).items:
            if obj.name == self._on.settings.project:
                return f"{obj!r} is left"
        return ""
