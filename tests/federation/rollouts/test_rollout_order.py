"""A new image replaces Instances one by one, from the highest ordinal down."""

from __future__ import annotations

from pathlib import Path

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import EventType
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.expectations import eventually
from tests.support.simulation.platform import PlatformRun, apply, missing_for_image, workload


class InstanceWatcher:
    """Watches the Instances of one cell and records their changes."""

    def __init__(self) -> None:
        self.present: set[str] = set()
        self.fewest = 99
        self.replaced: list[str] = []
        self.created: list[str] = []

    async def watch(self, platform: PlatformRun, plane: str) -> None:
        while True:
            async with platform.client(plane).watch(compute.INSTANCES) as events:
                async for event in events:
                    self._note(event.type, event.object.name)

    def _note(self, kind: EventType, name: str) -> None:
        if kind is EventType.ADDED and name not in self.present:
            self.present.add(name)
            self.created.append(name)
        elif kind is EventType.DELETED:
            self.present.discard(name)
            self.replaced.append(name)
            self.fewest = min(self.fewest, len(self.present))


async def roll(platform: PlatformRun) -> None:
    watcher = InstanceWatcher()
    async with TaskGroup("instance watcher") as tasks:
        watching = tasks.start(watcher.watch(platform, "cell/dfw"), name="instance watcher")
        await apply(platform, workload("acme/web:1", 3))
        await eventually("deployed", lambda: missing_for_image(platform, "acme/web:1", 6))
        assert watcher.created == [f"web-default-dfw-{i}" for i in (0, 1, 2)]
        watcher.created.clear()

        await apply(platform, workload("acme/web:2", 3))
        await eventually("updated", lambda: missing_for_image(platform, "acme/web:2", 6))
        await tasks.stop(watching)

    assert watcher.replaced == [f"web-default-dfw-{i}" for i in (2, 1, 0)]
    assert watcher.created == watcher.replaced, "each is back before the next one goes"
    assert watcher.fewest == 2


def test_a_roll_replaces_instances_one_by_one_from_the_highest_ordinal(tmp_path: Path) -> None:
    assert PlatformRun(3, tmp_path / "state.db").run(roll)
