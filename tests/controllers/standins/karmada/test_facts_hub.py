"""The hub's API before anything is propagated.

Facts about Karmada that the stand-in reproduces, one per test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.client import errors
from datum_compute.client.protocol import EventType, merge
from tests.support.objects import until, until_gone
from tests.support.standins.karmada import HUB_KINDS, NAME, NS, WDS
from tests.support.standins.platform import (
    CITY,
    build,
    create_namespace,
    deployment,
    standin_platform,
)


async def test_the_hub_is_an_api_with_locking_generations_selectors_and_watches() -> None:
    async with standin_platform() as found:
        hub = found.hub
        await create_namespace(hub, NS)
        made = await hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        status = {"status": {"replicas": 1, "currentReplicas": 0, "desiredReplicas": 0}}
        reported = await hub.patch(WDS, NAME, merge(status), NS, subresource="status")
        spec = merge({"spec": {"scaleSettings": {"minReplicas": 4}}})
        changed = await hub.patch(WDS, NAME, spec, NS)
        async with hub.watch(WDS, NS, resource_version=made.metadata.resource_version) as events:
            seen = [(await anext(events)) for _ in range(2)]
        twin = await found.cells["dfw"].create(NAMESPACES, build(NAMESPACES, NS), dry_run=False)

        assert reported.metadata.generation == made.metadata.generation
        assert changed.metadata.generation == made.metadata.generation + 1
        assert [event.type for event in seen] == [EventType.MODIFIED, EventType.MODIFIED]
        assert twin.metadata.uid != (await hub.get(NAMESPACES, NS)).metadata.uid
        for selected, count in ((f"{CITY}=DFW", 1), (f"{CITY}=LHR", 0)):
            assert len((await hub.list(WDS, NS, label_selector=selected)).items) == count
        for name, count in ((NAME, 1), ("other", 0)):
            found_by_name = await hub.list(WDS, NS, field_selector=f"metadata.name={name}")
            assert len(found_by_name.items) == count
        stale = {"metadata": {"resourceVersion": made.metadata.resource_version, "labels": {}}}
        with pytest.raises(errors.Conflict):
            await hub.patch(WDS, NAME, merge({**stale, "spec": {"cityCode": "LHR"}}), NS)


async def test_the_hub_garbage_collects_dependents_and_waits_for_finalizers() -> None:
    async with standin_platform() as found:
        await create_namespace(found.hub, NS)
        owner = await found.hub.create(WDS, deployment("owner", NS, "DFW"), NS)
        owned = deployment("owned", NS, "DFW")
        owned["metadata"]["finalizers"] = ["example.com/hold"]
        owned["metadata"]["ownerReferences"] = [
            {
                "apiVersion": WDS.api_version,
                "kind": WDS.kind,
                "name": "owner",
                "uid": owner.metadata.uid,
            }
        ]
        await found.hub.create(WDS, owned, NS)
        await found.hub.delete(WDS, "owner", NS)
        await until(found.hub, WDS, "owned", NS, lambda one: one.metadata.deleting)
        await found.hub.patch(WDS, "owned", merge({"metadata": {"finalizers": []}}), NS)

        await until_gone(found.hub, WDS, "owned", NS)


async def test_the_hub_serves_karmadas_kinds_and_ours() -> None:
    async with standin_platform() as found:
        for resource in (
            *HUB_KINDS,
            karmada.INTERPRETER_CUSTOMIZATIONS,
            compute.INSTANCES,
        ):
            await found.hub.list(resource)
