"""Whether Karmada propagates a hub copy, and the request to look at it again.

Karmada creates the binding of a template when the template changes, and brings its status up when
the status of a Work or the template changes. It does not look again by itself when the binding is
deleted (it empties the cell then), when the binding loses its owner, or when the interpreter is
installed after the cell has reported. In all three cases a change of the template's metadata is
enough. So the federator changes an annotation of the hub copy, at most every few seconds at first
and then more rarely, until the copy is propagated as it should be.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto

from datum_compute.api import conditions, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.management.federation import bindings
from datum_compute.controllers.management.federation.interpreter import has_status_aggregation
from datum_compute.controllers.management.federation.signals import FederationSignals
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes import patch

SETTLE_SECONDS = 5.0
"""How long Karmada may take before it is asked again. A guess: it takes about a second."""
MAX_INTERVAL_SECONDS = 300.0
"""The longest time between two requests. A guess."""


@dataclass(frozen=True, slots=True)
class Propagation:
    lost: bool = False
    """Whether the hub has had no binding for the copy for some seconds."""
    delay: float | None = None
    """Seconds until it is to be checked again; None where nothing is wrong."""


class _PropagationFault(Enum):
    UNBOUND = auto()
    """The copy has no binding, or one that is being deleted."""
    UNOWNED = auto()
    """The binding has no owner, so that it would outlive the copy."""
    SILENT = auto()
    """The binding has the cell's report, and the copy another one or none."""


@dataclass(slots=True)
class _Record:
    fault: _PropagationFault
    report: bytes
    since: float
    due: float
    interval: float = SETTLE_SECONDS


class PropagationCheck:
    def __init__(self, env: Environment, signals: FederationSignals) -> None:
        self._env = env
        self._signals = signals
        self._records: dict[str, _Record] = {}
        """What is wrong with a copy, by its uid. Times are the loop's."""

    def forget(self, uid: str) -> None:
        self._records.pop(uid, None)

    async def check(
        self, hub: Cluster, hub_deployment: Object, binding: Object | None
    ) -> Propagation:
        uid = hub_deployment.metadata.uid
        fault = _find_fault(hub, hub_deployment, binding)
        if fault is None:
            self.forget(uid)
            return Propagation()
        now = asyncio.get_running_loop().time()
        report = _report_in(binding)
        record = self._records.get(uid)
        if record is None or (record.fault, record.report) != (fault, report):
            # A report that has just changed may still be on its way to the copy.
            record = _Record(fault, report, now, now + SETTLE_SECONDS)
            self._records[uid] = record
        if now < record.since + SETTLE_SECONDS:
            return Propagation(delay=record.since + SETTLE_SECONDS - now)
        if binding is None:
            # Absence from the cache is not evidence.
            name = hub_deployment.name
            if await bindings.find_binding(hub, hub_deployment.namespace, name) is not None:
                return Propagation(delay=SETTLE_SECONDS)
        if now >= record.due and (binding is None or not binding.metadata.deleting):
            await self._request(hub, hub_deployment)
            record.interval = min(2 * record.interval, MAX_INTERVAL_SECONDS)
            record.due = now + record.interval
        return Propagation(fault is _PropagationFault.UNBOUND, max(1.0, record.due - now))

    async def _request(self, hub: Cluster, hub_deployment: Object) -> None:
        stamp = conditions.wire_time(self._env.now())
        requested = await patch.ensure_metadata(
            hub.client,
            compute.WORKLOAD_DEPLOYMENTS,
            hub_deployment,
            annotations={compute.ANNOTATION_PROPAGATION_REQUESTED: stamp},
        )
        self._signals.record_hub_write(hub_deployment, requested)


def _find_fault(
    hub: Cluster, hub_deployment: Object, binding: Object | None
) -> _PropagationFault | None:
    if binding is None or binding.metadata.deleting:
        return _PropagationFault.UNBOUND
    if bindings.is_orphaned(binding):
        return _PropagationFault.UNOWNED
    report = _report_in(binding)
    if not report or report == bytes(hub_deployment.status) or not has_status_aggregation(hub):
        return None
    aggregated = binding.view(karmada.ResourceBinding).status.aggregated_status[0].status
    is_equal = patch.values(aggregated) == patch.values(hub_deployment.status)
    return None if is_equal else _PropagationFault.SILENT


def _report_in(binding: Object | None) -> bytes:
    """The report of the first cell, as the binding has it."""
    if binding is None:
        return b""
    items = binding.view(karmada.ResourceBinding).status.aggregated_status
    return bytes(items[0].status) if items else b""
