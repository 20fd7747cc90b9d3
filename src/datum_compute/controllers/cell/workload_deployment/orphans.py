"""Deployments of the cell that the hub no longer has.

Karmada deletes the cell's deployment with the hub copy, but only one that has Karmada's label. If
a person removed the labels first, the deployment stays and runs on, and the hub does not know it.
So the cell reads the hub copy of each deployment without that label, in the namespaces that the
federator creates. While the hub answers that
there is none, the deployment is ``FoundOnHub=False``, and after ten minutes of the same answer
it is deleted, as Karmada would have done. Any other answer, and none, begins again: absence is
proven only by the hub.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from datum_compute.api import conditions, karmada
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.controllers.planes import HUB
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.writes import patch

CHECK_SECONDS = 30.0
"""How often the hub is asked about a deployment without Karmada's label. A guess."""
ORPHAN_SECONDS = 600.0
"""How long the hub must have answered that there is no copy before the deployment is deleted: as
long as a drain may take."""


@dataclass(slots=True)
class _Orphan:
    uid: str
    since: float
    """The loop's time of the first answer."""
    reported_since: datetime
    checked: float


@dataclass(frozen=True, slots=True)
class OrphanCheck:
    since: datetime | None = None
    """Since when the hub answers that there is no copy; None where it does not."""
    delay: float | None = None
    """Seconds until the next check; None where none is due."""
    deleted: bool = False


MANAGED = OrphanCheck()


class OrphanMonitor:
    """``hub`` is None where nothing is federated: then there are no orphans."""

    def __init__(self, hub: Fleet | None, env: Environment) -> None:
        self._hub = hub
        self._env = env
        self._found: dict[Request, _Orphan] = {}

    @property
    def count(self) -> int:
        return len(self._found)

    def forget(self, request: Request) -> None:
        self._found.pop(request, None)

    async def check(self, cell: Cluster, deployment: Object, request: Request) -> OrphanCheck:
        """Delete the deployment if it has been an orphan for long enough."""
        if self._hub is None or _is_managed(deployment):
            self.forget(request)
            return MANAGED
        now = asyncio.get_running_loop().time()
        known = self._found.get(request)
        if known is not None and known.uid == deployment.metadata.uid:
            if now < known.checked + CHECK_SECONDS and now < known.since + ORPHAN_SECONDS:
                return OrphanCheck(known.reported_since, known.checked + CHECK_SECONDS - now)
        else:
            known = None
        if not await self._is_missing(deployment):
            self.forget(request)
            return OrphanCheck(delay=CHECK_SECONDS)
        if known is None:
            known = _Orphan(deployment.metadata.uid, now, self._env.now(), now)
            self._found[request] = known
        known.checked = now
        if now - known.since < ORPHAN_SECONDS:
            return OrphanCheck(known.reported_since, CHECK_SECONDS)
        await patch.delete_if_present(cell.client, compute.WORKLOAD_DEPLOYMENTS, deployment)
        return OrphanCheck(known.reported_since, deleted=True)

    async def _is_missing(self, deployment: Object) -> bool:
        """Whether the hub answers that it has no copy. No answer is no evidence."""
        hub = self._hub.get(HUB) if self._hub is not None else None
        if hub is None:
            return False
        resource, name = compute.WORKLOAD_DEPLOYMENTS, deployment.name
        try:
            return await find_live(hub.client, resource, name, deployment.namespace) is None
        except errors.ClientError:
            return False


def _is_managed(deployment: Object) -> bool:
    """Whether Karmada manages it, or it is none of Karmada's."""
    if not names.is_federation_namespace(deployment.namespace):
        return True
    return deployment.metadata.labels.get(karmada.LABEL_MANAGED) == "true"


def orphaned_condition(
    deployment: Object, check: OrphanCheck, now: datetime
) -> tuple[conditions.Condition, ...]:
    """The condition ``FoundOnHub`` of the deployment, where it is an orphan."""
    if check.since is None:
        return ()
    message = (
        f"The hub has had no copy of this deployment since {conditions.wire_time(check.since)};"
        f" it is deleted {ORPHAN_SECONDS / 60:.0f} minutes later"
    )
    view = deployment.view(compute.WorkloadDeployment)
    stated = conditions.with_condition(
        view.status.conditions,
        compute.CONDITION_FOUND_ON_HUB,
        conditions.FALSE,
        compute.REASON_HUB_COPY_MISSING,
        message,
        now=now,
        observed_generation=view.source_generation,
    )
    found = conditions.find(stated, compute.CONDITION_FOUND_ON_HUB)
    return (found,) if found is not None else ()
