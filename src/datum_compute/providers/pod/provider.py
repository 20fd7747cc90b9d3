"""The calls that keep one Pod for each Instance.

The Pods of the cell, by label, are the truth: they are watched, and nothing is remembered here, so
a restart of this process changes nothing. The kubelet restarts containers, with its own back-off.
A Pod that never runs again (evicted, refused by its node) is deleted, and another one follows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime

import msgspec

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors as client_errors
from datum_compute.client.remote_command import CommandRequest, CommandSession, start_command
from datum_compute.decisions import sleep
from datum_compute.env import Environment
from datum_compute.providers.data import delivered_references
from datum_compute.providers.errors import NotReady, Rejected
from datum_compute.providers.frame import provider_controller
from datum_compute.providers.logs import FollowableLogs
from datum_compute.providers.pod import spec, states
from datum_compute.providers.pod.logs import PodLogs
from datum_compute.providers.pod.services import service_controller
from datum_compute.providers.pod.settings import PodSettings
from datum_compute.providers.protocol import (
    NO_SLEEP,
    ExecRefused,
    InstanceReport,
    InstanceTarget,
    LogLine,
    preparing,
)
from datum_compute.providers.sandbox import LABEL_UID, first_tcp_port, sandbox_of
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_owned

REPLACE_SECONDS = 10.0
"""The least time between two Pods of an Instance: a node that refuses one refuses the next."""
REFUSED_SECONDS = 30.0
"""Until a Pod that the cluster's rules refuse is tried again: they may have changed."""
STOPPING_SECONDS = 60.0
"""Until a Pod that is being stopped is looked at again, if no event comes before."""


class PodProvider:
    """One cell's Instances as Pods of its cluster."""

    name = "pod"

    def __init__(self, cell: Fleet, env: Environment, settings: PodSettings) -> None:
        self._cell = cell
        self._env = env
        self._settings = settings
        self._logs = FollowableLogs(PodLogs(cell))

    def controllers(self) -> list[Controller]:
        """See ``RunnableProvider``."""
        pods = Watch.owned(
            self._cell,
            core.PODS,
            by=compute.INSTANCES,
            label_selector=spec.SELECTOR,
            indexes={spec.PODS_BY_UID: spec.instance_uid_of},
            own_writes=False,
        )
        return [
            provider_controller(self._cell, self, self._env, watches=[pods]),
            service_controller(self._cell),
        ]

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        """No Pod sleeps: traffic to it does not pass us, so whether it is idle is not known."""
        report = await self._ensure(target)
        asks = sleep.find_policy(target.instance.metadata.annotations) is not None
        return replace(report, asleep=NO_SLEEP) if asks else report

    async def _ensure(self, target: InstanceTarget) -> InstanceReport:
        self._logs.record_change(target.uid)
        port = first_tcp_port(sandbox_of(target))
        cluster = self._cluster(target)
        metadata = target.instance.metadata
        name = spec.pod_name(target.instance)
        pods = cluster.cache(core.PODS, label_selector=spec.SELECTOR)
        found = pods.get(name, metadata.namespace)
        if found is None:
            return await self._create(cluster, target)
        if found.metadata.labels.get(LABEL_UID) != target.uid:
            raise NotReady(f"Pod {name} belongs to another Instance", delay=REPLACE_SECONDS)
        if found.metadata.deleting:
            return preparing("its Pod is being deleted; another one follows")
        # Services select by it; Pods of earlier versions have none.
        own = spec.deployment_labels(target.instance)
        found = await patch.ensure_metadata(cluster.client, core.PODS, found, labels=own)
        pod = found.view(core.Pod)
        if states.is_over(pod):
            return await self._replace(cluster, found, states.describe_over(pod))
        report = states.decide_report(pod, port, self._env.now())
        if target.instance.spec.volumes and states.is_being_created(pod):
            return await self._look_for_mount_failure(cluster, found, report)
        return report

    async def _look_for_mount_failure(
        self, cluster: Cluster, pod: Object, report: InstanceReport
    ) -> InstanceReport:
        """A volume that cannot be mounted is in no status of a Pod, only in its Events."""
        selector = f"involvedObject.uid={pod.metadata.uid},reason={states.FAILED_MOUNT}"
        events = await cluster.client.list(core.EVENTS, pod.namespace, field_selector=selector)
        found = [msgspec.json.decode(each.to_wire(), type=core.Event) for each in events.items]
        return states.decide_mount_report(found, report)

    async def suspend(self, target: InstanceTarget) -> None:
        """Without its Pod: a Pod cannot be stopped. The next one gets another address, and the
        content of volumes is made anew."""
        self._logs.record_change(target.uid)
        await self._stop(target)

    async def remove(self, target: InstanceTarget) -> None:
        await self._stop(target)
        self._logs.record_removal(target.uid)

    async def _stop(self, target: InstanceTarget) -> None:
        cluster = self._cluster(target)
        name, namespace = spec.pod_name(target.instance), target.instance.metadata.namespace
        # Not from the cache: what is missing there may still run.
        found = await find_live(cluster.client, core.PODS, name, namespace)
        if found is None or found.metadata.labels.get(LABEL_UID) != target.uid:
            return
        if not found.metadata.deleting:
            await _delete(cluster, found)
        raise NotReady("its Pod is being stopped", delay=STOPPING_SECONDS)

    def lines(
        self,
        uid: str,
        *,
        tail: int | None = None,
        since: datetime | None = None,
        follow: bool = False,
    ) -> AsyncIterator[LogLine]:
        return self._logs.lines(uid, tail=tail, since=since, follow=follow)

    async def exec(self, uid: str, request: CommandRequest) -> CommandSession:
        """Needs the right to ``pods/exec``, which no role of ours grants."""
        for cluster in self._cell.clusters():
            pods = cluster.cache(core.PODS, label_selector=spec.SELECTOR)
            for pod in pods.by_index(spec.PODS_BY_UID, uid):
                try:
                    return await start_command(
                        cluster.client, core.PODS, pod.name, pod.namespace, request, self._env
                    )
                except client_errors.ClientError as error:
                    raise ExecRefused(error.detail) from error
        raise ExecRefused("it has no Pod yet")

    async def _create(self, cluster: Cluster, target: InstanceTarget) -> InstanceReport:
        delivered = await delivered_references(cluster.client, target)
        body = spec.build_pod(target, self._settings, delivered)
        metadata = target.instance.metadata
        owner = cluster.cache(compute.INSTANCES).get(metadata.name, metadata.namespace)
        if owner is None or owner.metadata.uid != target.uid:
            raise NotReady("the Instance has been deleted")
        try:
            created = await create_owned(cluster.client, core.PODS, body, compute.INSTANCES, owner)
        except client_errors.Invalid as error:
            raise Rejected(
                compute.REASON_CONFIGURATION_ERROR, f"the cell refuses its Pod: {error.detail}"
            ) from error
        except client_errors.NamespaceTerminating:
            raise
        except client_errors.Forbidden as error:
            # The rights of this process, a quota or pod security: the Instance is not blamed.
            return preparing(
                f"the cell refuses its Pod: {error.detail}", requeue_after=REFUSED_SECONDS
            )
        if created is None:
            raise NotReady("the Instance is being deleted")
        return preparing("its Pod waits for the scheduler")

    async def _replace(
        self, cluster: Cluster, pod: Object, report: InstanceReport
    ) -> InstanceReport:
        created = pod.metadata.creation_timestamp
        age = (self._env.now() - created).total_seconds() if created else REPLACE_SECONDS
        if age < REPLACE_SECONDS:
            left = REPLACE_SECONDS - age
            return InstanceReport(report.programmed, report.available, requeue_after=left)
        await _delete(cluster, pod)
        return report

    def _cluster(self, target: InstanceTarget) -> Cluster:
        cluster = self._cell.get(target.cluster)
        if cluster is None:
            raise NotReady(f"cluster {target.cluster} is not engaged")
        return cluster


async def _delete(cluster: Cluster, pod: Object) -> None:
    """This very Pod."""
    try:
        await cluster.client.delete(core.PODS, pod.name, pod.namespace, uid=pod.metadata.uid)
    except client_errors.NotFound:
        pass
