"""Whether Karmada propagates a hub copy, and the request to look at it again.

Karmada creates the binding of a template when the template changes, and brings its status up when
the status of a Work or the template changes. It does not look again by itself when the binding is
deleted (it empties the cell then), when the binding loses its owner, or when the interpreter is
installed after the cell has reported. In all three cases a change of the template's metadata is
enough. So the federator changes an annotation of the hub copy, at most every few seconds at first
and then more rarely, until the copy is propagated as it should be.

The same is done for a cell that answers and does not report on a change. Karmada counts a write
that the cell's API server did not answer within 32 s as applied, and does not repeat it: it writes
inside RetryOnConflict of client-go, which takes a deadline for the end of its own retries.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from datum_compute.api import conditions, core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import EMPTY, Object
from datum_compute.controllers.management.federation import bindings
from datum_compute.controllers.management.federation.interpreter import has_status_aggregation
from datum_compute.controllers.management.federation.signals import FederationSignals
from datum_compute.decisions.references import ERRORS, decide_data_condition, references_of
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import readable
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes import patch

SETTLE_SECONDS = 5.0
"""How long Karmada may take before it is asked again. A guess: it takes about a second."""
REPORT_SECONDS = 30.0
"""How long a cell that answers may take to report on a change. A guess: Karmada and the
manager of the cell take about a second, and 15 s where that one has just been replaced."""
MAX_INTERVAL_SECONDS = 300.0
"""The longest time between two requests. A guess."""


@dataclass(frozen=True, slots=True)
class Propagation:
    lost: bool = False
    """Whether the hub has had no binding for the copy for some seconds."""
    behind: bool = False
    """Whether the cell answers, and has not reported on the present spec."""
    behind_since: datetime | None = None
    """Since when, where that is longer than usual."""
    delay: float | None = None
    """Seconds until it is to be checked again; None where nothing is wrong."""


class _PropagationFault(Enum):
    UNBOUND = auto()
    """The copy has no binding, or one that is being deleted."""
    UNOWNED = auto()
    """The binding has no owner, so that it would outlive the copy."""
    SILENT = auto()
    """The binding has the cell's report, and the copy another one or none."""
    BEHIND = auto()
    """The cell answers, and its report is on an older spec."""
    SWITCHING = auto()
    """The cell answers, and has not reported that all is stopped or started as asked. That may
    take long, so it is no failure."""
    UNINFORMED = auto()
    """The cell answers, and its report says of the data what the copy's annotations said before."""


_REPORTED = (
    _PropagationFault.BEHIND,
    _PropagationFault.SWITCHING,
    _PropagationFault.UNINFORMED,
)
"""Found by what the cell reports, which takes longer than what Karmada does."""
_Finding = tuple[_PropagationFault, bytes]
"""A fault, and the report it was found in: a cell that has reported anew has its time again."""


@dataclass(slots=True)
class _Record:
    finding: _Finding
    started: datetime
    due: float
    interval: float
    asked: bool = False


class PropagationCheck:
    def __init__(self, env: Environment, signals: FederationSignals) -> None:
        self._env = env
        self._random = env.random("controllers.federator")
        self._signals = signals
        self._records: dict[str, _Record] = {}
        """What is wrong with a copy, by its uid. When it is due is the loop's time."""

    def forget(self, uid: str) -> None:
        self._records.pop(uid, None)

    async def check(
        self, hub: Cluster, hub_deployment: Object, binding: Object | None, *, answers: bool = False
    ) -> Propagation:
        """``answers``: whether the deployment has exactly one cell, which answers."""
        uid = hub_deployment.metadata.uid
        finding = _find_fault(hub, hub_deployment, binding, answers=answers)
        if finding is None:
            self.forget(uid)
            return Propagation()
        now = asyncio.get_running_loop().time()
        record = self._records.get(uid)
        behind = finding[0] is _PropagationFault.BEHIND
        if record is None or record.finding != finding:
            # A report that has just changed may still be on its way to the copy.
            wait = REPORT_SECONDS if finding[0] in _REPORTED else SETTLE_SECONDS
            record = _Record(finding, self._env.now(), now + self._spread(wait), wait)
            self._records[uid] = record
        if now < record.due and not record.asked:
            return Propagation(behind=behind, delay=record.due - now)
        if binding is None:
            # Absence from the cache is not evidence.
            name = hub_deployment.name
            if await bindings.find_binding(hub, hub_deployment.namespace, name) is not None:
                return Propagation(delay=SETTLE_SECONDS)
        if now >= record.due and (binding is None or not binding.metadata.deleting):
            await self._request(hub, hub_deployment, behind=behind)
            record.asked = True
            record.interval = min(2 * record.interval, MAX_INTERVAL_SECONDS)
            record.due = now + self._spread(record.interval)
        return Propagation(
            lost=finding[0] is _PropagationFault.UNBOUND,
            behind=behind,
            behind_since=record.started if behind else None,
            delay=max(1.0, record.due - now),
        )

    def _spread(self, seconds: float) -> float:
        """A little longer, so that the copies of a cell are not all sent at once, or always while
        a connection that fails regularly fails."""
        return seconds * self._random.uniform(1.0, 1.25)

    async def _request(self, hub: Cluster, hub_deployment: Object, *, behind: bool) -> None:
        stamp = conditions.wire_time(self._env.now())
        asking = {compute.ANNOTATION_PROPAGATION_REQUESTED: stamp}
        namespace = hub.cache(core.NAMESPACES).get(hub_deployment.namespace)
        if behind and namespace is not None and not hub_deployment.status:
            # The cell may lack the namespace.
            await patch.ensure_metadata(hub.client, core.NAMESPACES, namespace, annotations=asking)
        requested = await patch.ensure_metadata(
            hub.client, compute.WORKLOAD_DEPLOYMENTS, hub_deployment, annotations=asking
        )
        self._signals.record_hub_write(hub_deployment, requested)


def _find_fault(
    hub: Cluster, hub_deployment: Object, binding: Object | None, *, answers: bool
) -> _Finding | None:
    if binding is None or binding.metadata.deleting:
        return _PropagationFault.UNBOUND, b""
    if bindings.is_orphaned(binding):
        return _PropagationFault.UNOWNED, b""
    finding = _find_in_report(hub_deployment, binding, answers=answers)
    return finding if finding and has_status_aggregation(hub) else None


def _find_in_report(hub_deployment: Object, binding: Object, *, answers: bool) -> _Finding | None:
    items = binding.view(karmada.ResourceBinding).status.aggregated_status
    report = items[0].status if items else EMPTY
    differs = report and bytes(report) != bytes(hub_deployment.status)
    if differs and patch.values(report) != patch.values(hub_deployment.status):
        return _PropagationFault.SILENT, bytes(report)
    if not answers or not readable((hub_deployment,), compute.WorkloadDeployment):
        return None
    view = hub_deployment.view(compute.WorkloadDeployment)
    observed = view.status.observed_generation
    if observed < view.source_generation:
        return _PropagationFault.BEHIND, b"%d" % observed
    stopped = bool(view.suspended_by)
    if stopped != view.status.suspended:
        return _PropagationFault.SWITCHING, b"%d" % stopped
    if old := _old_data_reason(view):
        return _PropagationFault.UNINFORMED, old.encode()
    return None


def _old_data_reason(deployment: compute.WorkloadDeployment) -> str:
    """What the cell reports of the data, where it is not what follows from the annotations; else
    empty. That data is on its way does not follow from them."""
    found = deployment.status.conditions
    reported = conditions.find(found, compute.CONDITION_REFERENCED_DATA_READY)
    if reported is None or reported.reason not in (*ERRORS, compute.REASON_RESOLVING):
        return ""
    template = deployment.spec.template
    references = references_of(template.spec)
    entries = {each.entry for each in references}
    notes = deployment.metadata.annotations
    decided = decide_data_condition(references, notes, entries, template.metadata.annotations)
    return "" if decided is not None and decided.reason == reported.reason else reported.reason
