"""Clusters: each member has a place for its Works on the hub, and is probed for its health.

A new Cluster gets the finalizer and its execution namespace before it can become ready, so
nothing is ever scheduled to a member that has no place for it. From then on it is probed
every ten seconds; the condition is written only when it changes (:mod:`.health` says when),
together with the kinds the member serves (:mod:`.enablements`). While it is not ready it
carries a taint that keeps new things off it; what is there already stays.

A deleted Cluster gives up its execution namespace, and with it its Works, and goes when that
is gone and no binding targets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from datum_compute.api import conditions, karmada
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.watches.predicates import content_changed
from datum_compute.runtime.writes import patch
from datum_compute.standins.karmada import names
from datum_compute.standins.karmada.enablements import Enablements, read_enablements
from datum_compute.standins.karmada.health import PROBE_SECONDS, Health, decide_health

PROBE_TIMEOUT_SECONDS = 5.0
"""A guess, below the probing interval."""
NEW_MEMBER_SECONDS = 1.0
"""Until a member has been ready once, it is asked this often: somebody waits for it."""

TARGETED_SECONDS = 1.0
"""How often a leaving Cluster looks whether something is still bound to it. A guess."""

_HEALTHY = "cluster is healthy and ready to accept workloads"


def cluster_controller(
    hub: Fleet, members: Fleet, kinds: Sequence[Resource], env: Environment
) -> Controller:
    reconciler = _Clusters(hub, members, kinds, env)
    return Controller(
        "propagation-cluster",
        hub,
        reconciler.reconcile,
        watches=[
            # Its own condition writes must not set off the next probe.
            Watch(hub, karmada.CLUSTERS, itself, predicate=content_changed),
            Watch(hub, NAMESPACES, _cluster_of_namespace, predicate=content_changed),
        ],
        reads=[Read(hub, karmada.RESOURCE_BINDINGS)],
    )


def _cluster_of_namespace(cluster: str, namespace: Object) -> list[Request]:
    member = names.cluster_of(namespace.name)
    return [Request(cluster, "", member)] if member else []


class _Clusters:
    def __init__(
        self, hub: Fleet, members: Fleet, kinds: Sequence[Resource], env: Environment
    ) -> None:
        self._hub = hub
        self._members = members
        self._kinds = kinds
        self._env = env
        self._health: dict[str, Health] = {}

    async def reconcile(self, request: Request) -> Result:
        hub = self._hub.get(request.cluster)
        if hub is None:
            return DONE
        cluster = hub.cache(karmada.CLUSTERS).get(request.name)
        if cluster is None:
            self._health.pop(request.name, None)
            return DONE
        if cluster.metadata.deleting:
            return await self._unjoin(hub, cluster)
        cluster = await patch.ensure_metadata(
            hub.client, karmada.CLUSTERS, cluster, finalizer=karmada.FINALIZER_CLUSTER
        )
        await self._ensure_home(hub, cluster)
        return await self._probe(hub, cluster)

    async def _ensure_home(self, hub: Cluster, cluster: Object) -> None:
        name = karmada.execution_namespace(cluster.name)
        if hub.cache(NAMESPACES).get(name) is not None:
            return
        body = {
            "apiVersion": NAMESPACES.api_version,
            "kind": NAMESPACES.kind,
            "metadata": {"name": name},
        }
        try:
            await hub.client.create(NAMESPACES, body)
        except errors.AlreadyExists:
            pass

    async def _probe(self, hub: Cluster, cluster: Object) -> Result:
        member = self._members.get(cluster.name)
        good, reason, message = await _ask(member.client) if member else _UNKNOWN_MEMBER
        at = asyncio.get_running_loop().time()
        health = decide_health(self._health.get(cluster.name), good=good, at=at)
        self._health[cluster.name] = health
        if health.ready == good:
            condition = (conditions.TRUE if good else conditions.FALSE, reason, message)
            await self._report(hub, cluster, condition, member.client if member else None)
        return after(PROBE_SECONDS if health.ever_ready else NEW_MEMBER_SECONDS)

    async def _report(
        self,
        hub: Cluster,
        cluster: Object,
        condition: tuple[str, str, str],
        member_client: Client | None,
    ) -> None:
        ready = condition[0] == conditions.TRUE
        status = patch.values(cluster.status)
        current = cluster.view(karmada.Cluster).status.conditions
        known = conditions.find(current, karmada.CONDITION_READY)
        # The wording of an error may differ from probe to probe.
        if known is None or (known.status, known.reason) != condition[:2]:
            current = conditions.with_condition(
                current, karmada.CONDITION_READY, *condition, now=self._env.now()
            )
        if ready and member_client is not None:
            # A member that is not ready serves what it did, for all anybody knows.
            enabled = await self._enablements(member_client, status)
            status["apiEnablements"] = enabled.groups
            current = self._with_complete(current, enabled)
            # First the way is cleared, then it is said that the member is ready: whoever
            # waits for the latter finds it open.
            cluster = await self._ensure_taint(hub, cluster, tainted=False)
        status["conditions"] = conditions.to_wire(current)
        cluster = await patch.write_status(hub.client, karmada.CLUSTERS, cluster, status)
        if not ready:
            await self._ensure_taint(hub, cluster, tainted=True)

    async def _enablements(self, member_client: Client, status: dict[str, Any]) -> Enablements:
        known = status.get("apiEnablements", [])
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                return await read_enablements(member_client, self._kinds, known)
        except TimeoutError:
            return Enablements(known, complete=False)

    def _with_complete(
        self, current: conditions.Conditions, enabled: Enablements
    ) -> conditions.Conditions:
        return conditions.with_condition(
            current,
            karmada.CONDITION_COMPLETE_API_ENABLEMENTS,
            conditions.TRUE if enabled.complete else conditions.FALSE,
            karmada.REASON_COMPLETE if enabled.complete else karmada.REASON_PARTIAL,
            "the kinds it serves are known"
            if enabled.complete
            else "some of the kinds it serves could not be listed",
            now=self._env.now(),
        )

    async def _ensure_taint(self, hub: Cluster, cluster: Object, *, tainted: bool) -> Object:
        return await patch.ensure_metadata(
            hub.client, karmada.CLUSTERS, cluster, spec=_taint_change(cluster, tainted=tainted)
        )

    async def _unjoin(self, hub: Cluster, cluster: Object) -> Result:
        name = karmada.execution_namespace(cluster.name)
        try:
            home = await hub.client.get(NAMESPACES, name)
        except errors.NotFound:
            if _is_targeted(hub, cluster.name):
                return after(TARGETED_SECONDS)
            self._health.pop(cluster.name, None)
            await patch.release_finalizer(
                hub.client, karmada.CLUSTERS, cluster, karmada.FINALIZER_CLUSTER
            )
            return DONE
        if not home.metadata.deleting:
            await patch.delete_if_present(hub.client, NAMESPACES, home)
        return DONE  # woken when the namespace is gone


def _is_targeted(hub: Cluster, cluster: str) -> bool:
    return any(
        target.name == cluster
        for binding in hub.cache(karmada.RESOURCE_BINDINGS).list()
        if not binding.metadata.deleting
        for target in binding.view(karmada.ResourceBinding).spec.clusters
    )


def _taint_change(cluster: Object, *, tainted: bool) -> dict[str, Any] | None:
    """The change of the spec that puts the taint of members that are not ready on, or takes
    it off; None where nothing changes."""
    taints = patch.values(cluster.spec).get("taints", [])
    others = [taint for taint in taints if taint["key"] != karmada.TAINT_NOT_READY]
    taint = {"key": karmada.TAINT_NOT_READY, "effect": "NoSchedule"}
    wanted = [*others, taint] if tainted else others
    return {"taints": wanted} if len(wanted) != len(taints) else None


_UNKNOWN_MEMBER = (
    False,
    karmada.REASON_CLUSTER_NOT_REACHABLE,
    "no connection to the cluster is configured",
)


async def _ask(member_client: Client) -> tuple[bool, str, str]:
    for path in ("/readyz", "/healthz"):
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await member_client.raw(path)
        except (errors.NotFound, errors.NotServed):
            continue  # an API server that has only the older endpoint
        except (errors.TransportFailure, TimeoutError) as error:
            return False, karmada.REASON_CLUSTER_NOT_REACHABLE, f"cluster is not reachable: {error}"
        except errors.ClientError as error:
            return False, karmada.REASON_CLUSTER_NOT_READY, f"cluster does not say ok: {error}"
        return True, karmada.REASON_CLUSTER_READY, _HEALTHY
    return False, karmada.REASON_CLUSTER_NOT_READY, "cluster has no health endpoint"
