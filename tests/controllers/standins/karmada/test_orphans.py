"""Objects that arrive in a member after their Work is gone are deleted, and no others."""

from __future__ import annotations

from typing import Any

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import EventType, WatchEvent, merge
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.request import Request
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.karmada import karmada_controllers
from datum_compute.standins.karmada.detector import Detector
from datum_compute.testing.cache_history import CacheHistory, RecordedEvent
from tests.support.client.intercepted_transport import DISCONNECTED
from tests.support.objects import exists, until, until_gone
from tests.support.standins.karmada import (
    NAME,
    NS,
    propagated,
    until_ready,
)
from tests.support.standins.platform import (
    StandinPlatform,
    create_cluster,
    create_interpreter,
    create_namespace,
    create_policy,
    deployment,
    running,
    settle,
    standin_platform,
    upstream_labels,
)

WDS = compute.WORKLOAD_DEPLOYMENTS
BINDINGS = karmada.RESOURCE_BINDINGS


async def work_of_deployment(found: StandinPlatform) -> Object:
    works = await found.hub.list(karmada.WORKS, "karmada-es-dfw")
    [work] = [one for one in works.items if karmada.LABEL_BINDING_ID in one.metadata.labels]
    return work


async def sent(found: StandinPlatform) -> dict[str, Any]:
    """The body with which the object was created in the member."""
    [manifest] = values((await work_of_deployment(found)).spec)["workload"]["manifests"]
    return dict(manifest)


async def destroy(found: StandinPlatform) -> None:
    await found.hub.delete(WDS, NAME, NS)
    await until_gone(found.cells["dfw"], WDS, NAME, NS)
    await settle()


async def test_an_object_created_after_its_work_is_gone_is_deleted() -> None:
    async with propagated() as found:
        late = await sent(found)
        await destroy(found)
        await found.cells["dfw"].create(WDS, late, NS)

        await until_gone(found.cells["dfw"], WDS, NAME, NS)


def again(work: Object) -> dict[str, Any]:
    """The body with which a Work was created."""
    metadata = {
        "name": work.name,
        "labels": dict(work.metadata.labels),
        "annotations": dict(work.metadata.annotations),
        "finalizers": list(work.metadata.finalizers),
    }
    return {"metadata": metadata, "spec": values(work.spec)}


async def test_a_work_created_after_its_binding_is_gone_is_deleted() -> None:
    async with propagated() as found:
        late = await work_of_deployment(found)
        await destroy(found)
        await found.hub.create(karmada.WORKS, again(late), late.namespace)

        await until_gone(found.hub, karmada.WORKS, late.name, late.namespace)
        await until_gone(found.cells["dfw"], WDS, NAME, NS)


async def test_a_work_of_an_earlier_binding_does_not_block_the_next() -> None:
    async with propagated() as found:
        late = await work_of_deployment(found)
        await destroy(found)
        await found.hub.create(karmada.WORKS, again(late), late.namespace)
        await found.hub.create(WDS, deployment(NAME, NS, "DFW", replicas=4), NS)

        await until(
            found.cells["dfw"],
            WDS,
            NAME,
            NS,
            lambda one: values(one.spec)["scaleSettings"]["minReplicas"] == 4,
        )
        await settle()
        mine = (await work_of_deployment(found)).metadata.labels[karmada.LABEL_BINDING_ID]
        assert mine != late.metadata.labels[karmada.LABEL_BINDING_ID]


async def test_an_orphan_that_arrives_while_stopped_is_removed_at_the_next_start() -> None:
    async with standin_platform() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, NS, upstream_labels())
        await create_policy(found.hub, NS, "DFW")
        await create_interpreter(found.hub)
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)

        def controllers() -> Any:
            return karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)

        async with running(found.env, controllers()):
            await until(found.cells["dfw"], WDS, NAME, NS, lambda _: True)
            late = await sent(found)
            await destroy(found)
        await found.cells["dfw"].create(WDS, late, NS)
        async with running(found.env, controllers()):
            await until_gone(found.cells["dfw"], WDS, NAME, NS)


async def test_an_orphan_behind_a_partition_is_removed_on_reconnect() -> None:
    async with propagated() as found:
        late = await sent(found)
        await destroy(found)
        found.links["dfw"].rules.append(DISCONNECTED)
        await until_ready(found, "False", within=90)
        await found.cells["dfw"].create(WDS, late, NS)
        await settle()
        assert await exists(found.cells["dfw"], WDS, NAME, NS)
        found.links["dfw"].rules.clear()

        await until_gone(found.cells["dfw"], WDS, NAME, NS, within=120)


async def test_a_lost_cluster_that_is_removed_and_joins_again_keeps_its_objects() -> None:
    async with propagated() as found:
        before = await found.cells["dfw"].get(WDS, NAME, NS)
        found.links["dfw"].rules.append(DISCONNECTED)
        await until_ready(found, "False", within=90)
        await found.hub.delete(karmada.CLUSTERS, "dfw")
        await until_gone(found.hub, karmada.CLUSTERS, "dfw")
        found.links["dfw"].rules.clear()
        await settle()
        await create_cluster(found.hub, "dfw", "DFW")
        await until_ready(found, "True", within=90)
        await settle()

        assert (await found.cells["dfw"].get(WDS, NAME, NS)).metadata.uid == before.metadata.uid


async def test_an_object_of_the_members_own_with_that_name_stays() -> None:
    async with propagated() as found:
        own = await sent(found)
        await destroy(found)
        del own["metadata"]["labels"][karmada.LABEL_MANAGED]
        await found.cells["dfw"].create(WDS, own, NS)
        await settle()

        assert await exists(found.cells["dfw"], WDS, NAME, NS)


async def test_no_binding_is_created_for_a_template_that_only_a_stale_cache_has() -> None:
    """It would be collected and recreated for as long as the cache is stale."""
    assert await bindings_made(template_is_gone=False) == 1
    assert await bindings_made(template_is_gone=True) == 0


async def bindings_made(*, template_is_gone: bool) -> int:
    """By a detector whose cache still has template and policy, and gets no events."""
    async with standin_platform() as found:
        await create_namespace(found.hub, NS, upstream_labels())
        await create_policy(found.hub, NS, "DFW")
        [policy] = (await found.hub.list(karmada.PROPAGATION_POLICIES, NS)).items
        known = merge({"metadata": {"labels": {karmada.LABEL_POLICY_ID: "an-id"}}})
        policy = await found.hub.patch(karmada.PROPAGATION_POLICIES, policy.name, known, NS)
        body = deployment(NAME, NS, "DFW")
        claim = {
            karmada.ANNOTATION_POLICY_NAMESPACE: NS,
            karmada.ANNOTATION_POLICY_NAME: policy.name,
        }
        body["metadata"]["labels"][karmada.LABEL_POLICY_ID] = "an-id"
        body["metadata"]["annotations"] = claim
        template = await found.hub.create(WDS, body, NS)
        past = CacheHistory()
        for resource in (WDS, karmada.PROPAGATION_POLICIES, BINDINGS, karmada.CLUSTERS):
            past.declare("hub", resource)
        for resource, obj in ((karmada.PROPAGATION_POLICIES, policy), (WDS, template)):
            past.events.append(RecordedEvent("hub", resource, WatchEvent(EventType.ADDED, obj)))
        if template_is_gone:
            await found.hub.delete(WDS, NAME, NS)
        hub = past.view("hub", len(past.events), found.hub, found.env)
        reconcile = for_object(hub, WDS, Detector(WDS, found.env).reconcile)
        await reconcile(Request("hub", NS, NAME))
        return len((await found.hub.list(BINDINGS, NS)).items)
