"""The project planes of a platform, found through its Project objects.

A project is engaged when it first reports Ready, under its bare name, and stays engaged
until the object is deleted: there is work to do in a plane that is not Ready for a moment or is
being deleted. A project that was deleted and created again is another plane, and is engaged
again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.api.planes import ROOT
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.fleets.engagement import ChangedNames, sync_engagements
from datum_compute.log import get_logger
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import TaskGroup

logger = get_logger(__name__)


class ProjectFleet(Fleet):
    def __init__(
        self,
        name: str,
        root_client: Client,
        client_for: Callable[[str], Client],
        env: Environment,
    ) -> None:
        super().__init__(name, env)
        self._root_client = root_client
        self._client_for = client_for

    async def discover(self, tasks: TaskGroup) -> None:
        root = Cluster(ROOT.name, self._root_client, self.env, tasks)
        projects = root.cache(resourcemanager.PROJECTS)
        await projects.wait_synced()
        changes = ChangedNames()

        def changed(old: Object | None, new: Object | None) -> None:
            project = new or old
            if project is not None:
                changes.note(project.name)

        def wanted(name: str, engaged_uid: str) -> str:
            project = projects.get(name)
            if project is None:
                return ""
            uid = project.metadata.uid
            return uid if uid == engaged_uid or _is_ready(project) else ""

        projects.subscribe(changed)
        await sync_engagements(self, changes, wanted, self._client_for)


def _is_ready(project: Object) -> bool:
    try:
        status = project.view(resourcemanager.Project).status
    except msgspec.ValidationError as error:
        logger.warning("cannot decode a Project", project=project.name, reason=str(error))
        return False
    return conditions.is_true(status.conditions, resourcemanager.CONDITION_READY)
