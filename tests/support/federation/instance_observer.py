"""Observes how the Instances of all cells start, through their APIs only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from datum_compute.api.compute import instance_names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client, EventType
from datum_compute.runtime.tasks import TaskGroup
from tests.support.simulation.platform import RunningPlatform, cell_planes


@dataclass
class InstanceObserver:
    broken: list[str] = field(default_factory=list)
    """What was out of order."""
    gated: set[str] = field(default_factory=set)
    """Uids of Instances that were seen waiting at their gates."""
    opened: set[str] = field(default_factory=set)
    """Uids of those that were then let through."""
    _seen: dict[str, dict[str, compute.Instance]] = field(default_factory=dict)

    async def observe(self, plane: str, client: Client, listening: asyncio.Event) -> None:
        found = await client.list(compute.INSTANCES)
        self._seen[plane] = {obj.name: obj.view(compute.Instance) for obj in found.items}
        revision = found.resource_version
        async with client.watch(compute.INSTANCES, resource_version=revision) as events:
            listening.set()
            async for event in events:
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    self._note(plane, event.type, event.object)

    def _note(self, plane: str, kind: EventType, obj: Object) -> None:
        here, instance = self._seen[plane], obj.view(compute.Instance)
        if kind == "DELETED":
            here.pop(obj.name, None)
            return
        if kind == "ADDED":
            self._came(plane, instance)
        here[obj.name] = instance
        if not instance.gates:
            self.opened.add(obj.metadata.uid)
        elif instance.programmed:
            self.broken.append(f"{plane}: {obj.name} runs behind {instance.gates}")
        else:
            self.gated.add(obj.metadata.uid)

    def _came(self, plane: str, instance: compute.Instance) -> None:
        meta = instance.metadata
        deployment = meta.labels[compute.LABEL_WORKLOAD_DEPLOYMENT_NAME]
        if compute.GATE_QUOTA not in instance.gates:
            self.broken.append(f"{plane}: {meta.name} came without its gate")
        for ordinal in range(int(meta.labels[compute.LABEL_INSTANCE_INDEX])):
            before = self._seen[plane].get(instance_names.instance_name(deployment, ordinal))
            if before is None or not before.ready:
                self.broken.append(f"{plane}: {meta.name} came before {ordinal} was Ready")


@asynccontextmanager
async def observe_instances(on: RunningPlatform) -> AsyncIterator[InstanceObserver]:
    found = InstanceObserver()
    async with TaskGroup("onlooker") as tasks:
        looking = []
        for plane in cell_planes(on):
            listening = asyncio.Event()
            work = found.observe(plane, on.client(plane), listening)
            looking.append(tasks.start(work, name=f"onlooker {plane}"))
            await listening.wait()
        yield found
        await tasks.stop(*looking)
