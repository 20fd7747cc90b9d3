"""Deletes policies that route no deployment.

The federator creates the policy of a city before the first deployment there and deletes it
after the last. A create that timed out may arrive after that, when no deployment is left whose
reconcile would delete the policy. So each policy is checked after a grace period, and whenever a
deployment of its city is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from datum_compute.api import core, karmada
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client
from datum_compute.controllers.management.federation.hub_objects import city_of_policy
from datum_compute.controllers.planes import HUB
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live, has_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.watches.predicates import created, deleted
from datum_compute.runtime.writes import patch

GRACE_SECONDS = 60.0
"""How long a policy may wait for its first deployment, which is created right after it."""


def policy_cleanup_controller(hub: Fleet) -> Controller:
    """Requests name a policy on the hub."""
    return Controller(
        "policy",
        hub,
        PolicyCleanup(hub).reconcile,
        watches=[
            Watch.each(hub, karmada.PROPAGATION_POLICIES, predicate=created),
            Watch(hub, compute.WORKLOAD_DEPLOYMENTS, _policy_of, predicate=deleted),
        ],
        reads=[Read(hub, core.NAMESPACES)],
    )


class PolicyCleanup:
    def __init__(self, hub: Fleet) -> None:
        self._hub = hub
        self._seen: dict[Request, tuple[str, float]] = {}
        """The uid of each policy, and the loop's time when it was first seen: its creation
        timestamp is of another clock."""

    async def reconcile(self, request: Request) -> Result:
        hub = self._hub.require(HUB)
        policy = hub.cache(karmada.PROPAGATION_POLICIES).get(request.name, request.namespace)
        if policy is None or policy.metadata.deleting:
            self._seen.pop(request, None)
            return DONE
        namespace = hub.cache(core.NAMESPACES).get(policy.namespace)
        city = city_of_policy(policy)
        if namespace is None or not city:
            return DONE  # not created by the federator
        if compute.LABEL_UPSTREAM_CLUSTER_NAME not in namespace.metadata.labels:
            return DONE
        if (left := self._grace_left(request, policy.metadata.uid)) > 0:
            return after(left)
        held = hub.cache(compute.WORKLOAD_DEPLOYMENTS).list(policy.namespace)
        if not any(_city_label(each) == city for each in held):
            await ensure_policy_removed(hub.client, policy.namespace, city)
        return DONE

    def _grace_left(self, request: Request, uid: str) -> float:
        now = asyncio.get_running_loop().time()
        known, since = self._seen.get(request, ("", now))
        if known != uid:
            since = now
            self._seen[request] = (uid, now)
        return since + GRACE_SECONDS - now


async def ensure_policy_removed(hub_client: Client, hub_namespace: str, city: str) -> None:
    """Delete the policy of a city when the hub namespace has no deployment of that city.

    The policy is read before the deployments and deleted by its uid, so one that is recreated
    in between, for a new deployment, stays.
    """
    name = names.policy_name(city)
    policy = await find_live(hub_client, karmada.PROPAGATION_POLICIES, name, hub_namespace)
    if policy is None:
        return
    selector = f"{compute.LABEL_TOPOLOGY_CITY_CODE}={city}"
    deployments = compute.WORKLOAD_DEPLOYMENTS
    if not await has_live(hub_client, deployments, hub_namespace, label_selector=selector):
        await patch.delete_if_present(hub_client, karmada.PROPAGATION_POLICIES, policy)


def _policy_of(_: str, hub_deployment: Object) -> Iterable[Request]:
    city = _city_label(hub_deployment)
    return [Request(HUB, hub_deployment.namespace, names.policy_name(city))] if city else []


def _city_label(hub_deployment: Object) -> str:
    """By which policies select; it can be read whatever the spec is."""
    return hub_deployment.metadata.labels.get(compute.LABEL_TOPOLOGY_CITY_CODE, "")
