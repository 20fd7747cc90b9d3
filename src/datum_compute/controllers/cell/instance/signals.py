"""Events and metrics of the Instance controller.

Events on the cell's Instance, each after its status is stored: a Warning for every quota
failure and other blocking reason, ``Available`` when it becomes ready, ``Terminating`` when it is
being deleted, ``QuotaClaimOrphaned`` when its claim is leaked.
"""

from __future__ import annotations

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Conditions, ConditionState
from datum_compute.api.meta import Object
from datum_compute.controllers.hub_writes import hub_write_counter
from datum_compute.controllers.lag import observe_lag
from datum_compute.decisions import status_events
from datum_compute.decisions.status_events import NORMAL, WARNING, EventContent
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.events import EventRecorder
from datum_compute.runtime.metrics.registry import LAG_SECONDS, MetricsRegistry

COMPONENT = "instance-controller"


class InstanceSignals:
    def __init__(self, env: Environment, metrics: MetricsRegistry | None, *, quota: bool) -> None:
        registry = metrics if metrics is not None else MetricsRegistry()
        self.registry = registry
        self._env = env
        self._events = EventRecorder(COMPONENT, env, registry)
        registry.gauge(
            "compute_quota_enforcement_enabled",
            "1 where Instances wait for quota, 0 where quota is not enforced.",
            combine=max,
        ).labels().set(float(quota))
        labels = {
            each.name: each.metric_label for each in reasons.REASONS.values() if each.metric_label
        }
        failures = registry.counter(
            "compute_quota_eval_failures_total",
            f"Reconciles in which quota could not be evaluated: {', '.join(labels.values())}.",
            "reason",
        )
        self._failures = {name: failures.labels(label) for name, label in labels.items()}
        self._orphaned = registry.counter(
            "compute_quota_claim_orphaned_total",
            "Claims left behind because their project could not be determined.",
        ).labels()
        self._hub_writes = hub_write_counter(registry, compute.INSTANCES)
        self._lag = registry.histogram(
            "compute_federation_write_back_lag_seconds",
            "From a change of Ready in a cell to the hub's copy.",
            buckets=LAG_SECONDS,
        ).labels()
        self._hub_failures = registry.counter(
            "compute_federation_write_back_failures_total",
            "Failed writes of reports to the hub; they are retried.",
        ).labels()

    def record_evaluation(self, granted: ConditionState) -> None:
        failure = self._failures.get(granted.reason)
        if failure is not None:
            failure.inc()

    async def record_events(self, cell: Cluster, instance: Object, before: Conditions) -> None:
        """Call after the status is stored; ``before`` are the conditions it replaced."""
        after = instance.view(compute.Instance).status.conditions
        found = status_events.decide_instance_events(before, after)
        await self._events.record(cell.client, instance, *found)

    async def record_no_budget(self, cell: Cluster, instance: Object) -> None:
        """Call in a reconcile without a change of conditions: the Event is due some time later."""
        notice = status_events.decide_no_budget_event(
            instance.view(compute.Instance).status.conditions,
            created=instance.metadata.creation_timestamp,
            now=self._env.now(),
        )
        if notice is not None:
            await self._events.record_once(cell.client, instance, notice)

    async def record_terminating(self, cell: Cluster, instance: Object) -> None:
        notice = EventContent(NORMAL, compute.REASON_TERMINATING, "The Instance is being stopped")
        await self._events.record_once(cell.client, instance, notice)

    async def record_orphaned_claim(self, cell: Cluster, instance: Object) -> None:
        self._orphaned.inc()
        text = "Its project is unknown, so its quota claim is not released"
        notice = EventContent(WARNING, compute.REASON_QUOTA_CLAIM_ORPHANED, text)
        await self._events.record_once(cell.client, instance, notice)

    def record_hub_write(self, before: Object | None, after: Object) -> Object:
        """Call after each step of a write-back, with the copy before and after it: a step that
        found nothing to write is not counted. Returns the copy."""
        if before is None or before.metadata.resource_version != after.metadata.resource_version:
            self._hub_writes.inc()
            stated = conditions.of_status(before.status) if before is not None else ()
            observe_lag(self._lag, stated, conditions.of_status(after.status), self._env.now())
        return after

    def record_hub_deletion(self) -> None:
        self._hub_writes.inc()

    def record_write_back_failure(self) -> None:
        self._hub_failures.inc()
