"""Whatever a plane does, its caches deliver its changes in order, and end up equal to it.

The plane is the model: what it holds is what a cache has to hold once all is well again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.runtime.cache.cache import Cache, CacheState
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.tasks import TaskGroup, stop_tasks
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import VirtualLoop
from tests.support.runtime.fake_plane import WIDGETS, FakePlane

NAMES = st.sampled_from(["a", "b", "c"])
SPACES = st.sampled_from(["one", "two"])
COLORS = st.sampled_from(["red", "blue", ""])
Key = tuple[str, str]
Content = tuple[str, str, str, str]


def _by_color(obj: Object) -> Iterable[str]:
    color = obj.metadata.labels.get("color")
    return [color] if color else []


def _content(objects: Iterable[Object]) -> list[Content]:
    return [
        (obj.namespace, obj.name, obj.metadata.uid, obj.metadata.resource_version)
        for obj in objects
    ]


def _revision(obj: Object) -> int:
    return int(obj.metadata.resource_version)


def _key(obj: Object) -> Key:
    return obj.namespace, obj.name


class Follower:
    """A subscriber that rebuilds the cache from what is delivered, and checks all of it."""

    def __init__(self, cache: Cache) -> None:
        self.known: dict[Key, Object] = {}
        self.lost: list[str] = []
        cache.subscribe(self.deliver)

    def deliver(self, old: Object | None, new: Object | None) -> None:
        changed = new or old
        assert changed is not None
        key = _key(changed)
        assert self.known.get(key) is old
        assert old is None or new is None or _key(old) == _key(new)
        if new is None:
            del self.known[key]
            self.lost.append(changed.metadata.uid)
        else:
            if old is not None and old.metadata.uid == new.metadata.uid:
                assert _revision(old) < _revision(new)
            self.known[key] = new


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.faults = ExitStack()
        self.plane = FakePlane()
        self.removed: set[str] = set()
        self.work = self.loop.create_task(self._watch())
        self.synced: dict[str, bool] = {}
        self._pass(0.0)

    async def _watch(self) -> None:
        async with TaskGroup("test") as tasks:
            self.cluster = Cluster("plane", self.plane, SimulatedEnvironment(), tasks)
            self.caches = [
                self.cluster.cache(WIDGETS),
                self.cluster.cache(WIDGETS, label_selector="color=red"),
            ]
            self.followers = [Follower(cache) for cache in self.caches]
            for cache in self.caches:
                cache.add_index("color", _by_color)
            await asyncio.get_running_loop().create_future()

    def _pass(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @rule(name=NAMES, space=SPACES, color=COLORS, size=st.integers(0, 9))
    def put(self, name: str, space: str, color: str, size: int) -> None:
        labels = {"color": color} if color else {}
        metadata = {"labels": labels}
        self.plane.put(name, namespace=space, metadata=metadata, spec={"size": size})

    @rule(name=NAMES, space=SPACES)
    def remove(self, name: str, space: str) -> None:
        try:
            uid = self.plane.wire(name, namespace=space)["metadata"]["uid"]
        except KeyError:
            return
        self.removed.add(uid)
        self.plane.remove(name, namespace=space)

    @rule()
    def bookmark(self) -> None:
        self.plane.bookmark()

    @rule()
    def forget_history(self) -> None:
        self.plane.forget_history()

    @rule()
    def lose_the_watches(self) -> None:
        with self.plane.down():
            self._pass(0.0)
            self._pass(0.0)

    @rule()
    def go_down(self) -> None:
        self.faults.enter_context(self.plane.down())

    @rule()
    def lag(self) -> None:
        self.faults.enter_context(self.plane.lagging())

    @rule()
    def withdraw_the_kind(self) -> None:
        self.plane.unserved.add("widgets")
        self.faults.callback(self.plane.unserved.clear)

    @rule(name=NAMES, space=SPACES)
    def read_live(self, name: str, space: str) -> None:
        """As after a write that the watch delivers late."""
        self.loop.run_until_complete(self._read_live(name, space))

    async def _read_live(self, name: str, space: str) -> None:
        for cache in self.caches:
            if not cache.synced:
                continue
            try:
                cache.put_live(await self.plane.get(WIDGETS, name, space))
            except errors.NotFound:
                cache.drop_live(name, space)
            except (errors.ConnectFailed, errors.NotServed):
                pass

    @rule(name=NAMES, space=SPACES, color=COLORS, removed=st.lists(st.booleans(), max_size=3))
    def read_live_before_it_is_delivered(
        self, name: str, space: str, color: str, removed: list[bool]
    ) -> None:
        with self.plane.lagging():
            for gone in removed:
                self.remove(name, space) if gone else self.put(name, space, color, 1)
            self.read_live(name, space)
            self.what_was_delivered_is_what_is_held()
        self._pass(0.01)

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.1, 5.0, 700.0]))
    def pass_time(self, seconds: float) -> None:
        self._pass(seconds)

    @rule()
    def heal(self) -> None:
        self.faults.close()
        self._pass(120.0)
        for cache, matching in zip(self.caches, ({"red", "blue", ""}, {"red"}), strict=True):
            assert cache.state is CacheState.CURRENT
            assert _content(cache.list()) == self._content_of_plane(matching)
            assert cache.revision <= self.plane.revision

    def _content_of_plane(self, colors: set[str]) -> list[Content]:
        found = []
        for space in ("one", "two"):
            for name in ("a", "b", "c"):
                try:
                    wire = self.plane.wire(name, namespace=space)
                except KeyError:
                    continue
                metadata = wire["metadata"]
                color = metadata.get("labels", {}).get("color", "")
                if color in colors:
                    found.append((space, name, metadata["uid"], metadata["resourceVersion"]))
        return found

    @invariant()
    def no_subscriber_objects(self) -> None:
        if self.work.done():
            self.work.result()

    @invariant()
    def what_was_delivered_is_what_is_held(self) -> None:
        for cache, follower in zip(self.caches, self.followers, strict=True):
            assert follower.known == {_key(obj): obj for obj in cache.list()}
            assert len(cache) == len(follower.known)

    @invariant()
    def lists_and_indexes_equal_a_recomputation(self) -> None:
        for cache in self.caches:
            objects = cache.list()
            assert objects == sorted(objects, key=_key)
            for space in ("one", "two"):
                assert cache.list(space) == [obj for obj in objects if obj.namespace == space]
                assert cache.has_any(space) == bool(cache.list(space))
            for color in ("red", "blue"):
                expected = [o for o in objects if o.metadata.labels.get("color") == color]
                assert cache.by_index("color", color) == expected

    @invariant()
    def nothing_known_is_dropped_unless_it_was_deleted(self) -> None:
        everything = self.followers[0]
        assert set(everything.lost) <= self.removed
        assert len(everything.lost) == len(set(everything.lost))

    @invariant()
    def synced_stays(self) -> None:
        for cache in self.caches:
            assert cache.synced >= self.synced.get(cache.label_selector, False)
            self.synced[cache.label_selector] = cache.synced

    def teardown(self) -> None:
        try:
            self.heal()
        finally:
            self.loop.run_until_complete(stop_tasks([self.work]))
            self.loop.close()
        assert self.plane.open_watches == 0


CacheMachine.TestCase.settings = settings(deadline=None, max_examples=30, stateful_step_count=30)
test_every_history_ends_equal_to_the_plane = CacheMachine.TestCase
