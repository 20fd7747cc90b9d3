"""The propagation policies of the cities on the hub, for as long as a deployment needs them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.management.federation import federator, policy_cleanup_controller
from datum_compute.controllers.management.federation.policies import ensure_policy_removed
from tests.support.controllers.federation import (
    DEPLOYMENTS,
    NAME,
    given_deployment,
)
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    controller_planes,
    deployment,
    given_namespace,
    settle,
)
from tests.support.objects import until, until_gone, until_names


async def test_a_policy_is_shared_and_deleted_with_the_last_deployment_of_the_city() -> None:
    policies = karmada.PROPAGATION_POLICIES
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        await given_deployment(w, "a-main-dfw")
        await given_deployment(w, "b-main-dfw")
        await until_names(w.hub, DEPLOYMENTS, "a-main-dfw", "b-main-dfw")
        policy = await w.hub.get(policies, "city-dfw", w.hub_namespace)
        await w.project.delete(DEPLOYMENTS, "a-main-dfw", NAMESPACE)
        await until_gone(w.project, DEPLOYMENTS, "a-main-dfw", NAMESPACE)
        kept = await w.hub.get(policies, "city-dfw", w.hub_namespace)
        assert kept.metadata.uid == policy.metadata.uid

        await w.project.delete(DEPLOYMENTS, "b-main-dfw", NAMESPACE)
        await until_gone(w.hub, policies, "city-dfw", w.hub_namespace)


async def test_a_policy_deleted_by_hand_is_recreated() -> None:
    policies = karmada.PROPAGATION_POLICIES
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        await given_deployment(w)
        first = await until(w.hub, policies, "city-dfw", w.hub_namespace, lambda obj: True)
        await w.hub.delete(policies, "city-dfw", w.hub_namespace)
        await until(
            w.hub,
            policies,
            "city-dfw",
            w.hub_namespace,
            lambda obj: obj.metadata.uid != first.metadata.uid,
        )


async def given_policy(w: ControllerPlanes, name: str = "city-dfw", city: str = "DFW") -> Object:
    """As the federator creates it, in the hub namespace of a project."""
    selector = {"matchLabels": {compute.LABEL_TOPOLOGY_CITY_CODE: city}}
    spec = {
        "resourceSelectors": [
            {
                "apiVersion": DEPLOYMENTS.api_version,
                "kind": DEPLOYMENTS.kind,
                "labelSelector": selector,
            }
        ],
        "placement": {"clusterAffinity": {"labelSelector": selector}},
    }
    body = {"metadata": {"name": name}, "spec": spec}
    return await w.hub.create(karmada.PROPAGATION_POLICIES, body, w.hub_namespace)


async def test_a_policy_that_arrives_after_its_last_deployment_is_removed() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_policy(w)
        await given_policy(w, name="of-another-origin")
        async with w.running(policy_cleanup_controller(w.hub_fleet())):
            await settle(55)
            await until_names(
                w.hub, karmada.PROPAGATION_POLICIES, "city-dfw", "of-another-origin"
            )  # its deployment may be created soon
            await settle(10)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES, "of-another-origin")


@pytest.mark.parametrize("seconds", [-300, 300])
async def test_a_policy_is_kept_for_its_grace_period_whatever_the_servers_clock(
    seconds: int,
) -> None:
    """The creation time of a policy may be wrong in either direction."""
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        w.env.start += timedelta(seconds=seconds)
        await given_policy(w)
        w.env.start -= timedelta(seconds=seconds)
        async with w.running(policy_cleanup_controller(w.hub_fleet())):
            await settle(55)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES, "city-dfw")
            await settle(10)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES)


async def test_a_policy_is_kept_for_as_long_as_a_deployment_needs_it() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_policy(w)
        labels = {compute.LABEL_TOPOLOGY_CITY_CODE: "DFW"}
        body = deployment(NAME, replicas=1)
        body["metadata"]["labels"] = labels
        await w.hub.create(DEPLOYMENTS, body, w.hub_namespace)
        async with w.running(policy_cleanup_controller(w.hub_fleet())):
            await settle(600)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES, "city-dfw")
            await w.hub.delete(DEPLOYMENTS, NAME, w.hub_namespace)
            await settle(10)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES)


async def test_a_policy_recreated_for_a_new_deployment_is_not_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The deletion carries the uid of the policy that was read before the deployments."""
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_policy(w)
        hub, list_deployments = w.hub, w.hub.list

        async def list_then_recreate(*args: Any, **options: Any) -> Any:
            found = await list_deployments(*args, **options)
            await hub.delete(karmada.PROPAGATION_POLICIES, "city-dfw", w.hub_namespace)
            await given_policy(w)
            return found

        monkeypatch.setattr(hub, "list", list_then_recreate)
        await ensure_policy_removed(hub, w.hub_namespace, "DFW")
        monkeypatch.undo()

        await until_names(w.hub, karmada.PROPAGATION_POLICIES, "city-dfw")
