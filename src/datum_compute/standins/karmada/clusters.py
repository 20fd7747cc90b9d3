"""Clusters: each member has an execution namespace on the hub, and is probed for its health.

A new Cluster gets the finalizer and its execution namespace before it can become ready, so
nothing is ever scheduled to a member without one. From then on it is probed every ten seconds;
the condition is written only when it changes (:mod:`.probe`), together with the kinds the
member serves. While it is not ready it carries a taint that keeps new Works off it; existing
ones stay.

A deleted Cluster deletes its execution namespace, and with it its Works, and is released when
that is gone and no binding targets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from datum_compute.api import conditions, karmada
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.watches.predicates import content_changed
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions
from datum_compute.runtime.writes.create import create_if_absent
from datum_compute.standins.karmada import names
from datum_compute.standins.karmada.probe import (
    PROBE_SECONDS,
    Enablements,
    Health,
    decide_health,
    probe_readiness,
    read_enablements,
)

NEW_MEMBER_SECONDS = 1.0
"""The probing interval of a member that was never ready: a user waits for it."""

TARGETED_SECONDS = 1.0
"""How often a Cluster being deleted checks whether a binding still targets it. A guess."""


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
            Watch.each(hub, karmada.CLUSTERS, predicate=content_changed),
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
        namespace = karmada.execution_namespace(cluster.name)
        if hub.cache(NAMESPACES).get(namespace) is None:
            await create_if_absent(hub.client, NAMESPACES, {"metadata": {"name": namespace}})
        return await self._probe(hub, cluster)

    async def _probe(self, hub: Cluster, cluster: Object) -> Result:
        member = self._members.get(cluster.name)
        member_client = member.client if member is not None else None
        condition = await probe_readiness(member_client)
        good = condition.status == conditions.TRUE
        at = asyncio.get_running_loop().time()
        health = decide_health(self._health.get(cluster.name), good=good, at=at)
        self._health[cluster.name] = health
        if health.ready == good:
            await self._report(hub, cluster, condition, member_client)
        return after(PROBE_SECONDS if health.ever_ready else NEW_MEMBER_SECONDS)

    async def _report(
        self,
        hub: Cluster,
        cluster: Object,
        condition: ConditionChange,
        member_client: Client | None,
    ) -> None:
        ready = condition.status == conditions.TRUE
        known = conditions.find(
            cluster.view(karmada.Cluster).status.conditions, karmada.CONDITION_READY
        )
        changes, fields = [], {}
        # The wording of an error may differ from probe to probe.
        if known is None or (known.status, known.reason) != (condition.status, condition.reason):
            changes.append(condition)
        if ready and member_client is not None:
            # While a member is not ready, the kinds it last served stay reported.
            enablements = patch.values(cluster.status).get("apiEnablements", [])
            enabled = await read_enablements(member_client, self._kinds, enablements)
            fields["apiEnablements"] = enabled.groups
            changes.append(_complete(enabled))
            # The taint goes first: a client that sees the member ready can schedule to it.
            cluster = await _ensure_taint(hub, cluster, tainted=False)
        cluster = await write_conditions(
            hub.client,
            karmada.CLUSTERS,
            cluster,
            *changes,
            now=self._env.now(),
            observed=False,
            fields=fields,
        )
        if not ready:
            await _ensure_taint(hub, cluster, tainted=True)

    async def _unjoin(self, hub: Cluster, cluster: Object) -> Result:
        name = karmada.execution_namespace(cluster.name)
        namespace = await find_live(hub.client, NAMESPACES, name)
        if namespace is None:
            if _is_targeted(hub, cluster.name):
                return after(TARGETED_SECONDS)
            self._health.pop(cluster.name, None)
            await patch.release_finalizer(
                hub.client, karmada.CLUSTERS, cluster, karmada.FINALIZER_CLUSTER
            )
            return DONE
        if not namespace.metadata.deleting:
            await patch.delete_if_present(hub.client, NAMESPACES, namespace)
        return DONE  # woken when the namespace is gone


def _complete(enabled: Enablements) -> ConditionChange:
    if enabled.complete:
        status, reason = conditions.TRUE, karmada.REASON_COMPLETE
        message = "the kinds it serves are known"
    else:
        status, reason = conditions.FALSE, karmada.REASON_PARTIAL
        message = "some of the kinds it serves could not be listed"
    return ConditionChange(karmada.CONDITION_COMPLETE_API_ENABLEMENTS, status, reason, message)


def _is_targeted(hub: Cluster, cluster: str) -> bool:
    return any(
        target.name == cluster
        for binding in views(hub.cache(karmada.RESOURCE_BINDINGS).list(), karmada.ResourceBinding)
        if not binding.metadata.deleting
        for target in binding.spec.clusters
    )


async def _ensure_taint(hub: Cluster, cluster: Object, *, tainted: bool) -> Object:
    return await patch.ensure_metadata(
        hub.client, karmada.CLUSTERS, cluster, spec=_taint_change(cluster, tainted=tainted)
    )


def _taint_change(cluster: Object, *, tainted: bool) -> dict[str, Any] | None:
    """The change of the spec that adds or removes the taint of members that are not ready;
    None where nothing changes."""
    taints = patch.values(cluster.spec).get("taints", [])
    others = [taint for taint in taints if taint["key"] != karmada.TAINT_NOT_READY]
    taint = {"key": karmada.TAINT_NOT_READY, "effect": "NoSchedule"}
    wanted = [*others, taint] if tainted else others
    return {"taints": wanted} if len(wanted) != len(taints) else None
