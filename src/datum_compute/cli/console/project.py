"""One project as a user may read it: copies that watches keep current, and reads of the rest.

The functions of the commands read through a :class:`~datum_compute.cli.context.PlainReader` that
blocks. On the event loop nothing may block: what is not copied raises :class:`Unread`, and
:meth:`CopiedProject.read` reads it and calls the function again. That is sound because such
functions only read.
"""

from __future__ import annotations

import asyncio
import io
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from datum_compute.api.meta import Object
from datum_compute.api.planes import PROJECT, plane_prefix
from datum_compute.api.scheme import Resource
from datum_compute.api.selectors import LabelSelector
from datum_compute.cli.console.sessions import ConsoleGrant
from datum_compute.cli.context import Context, Destination, Reach, Streams
from datum_compute.cli.errors import PROGRAM
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import (
    ALLOWANCE_BUCKETS,
    INSTANCES,
    LOCATION_BINDINGS,
    WORKLOAD_DEPLOYMENTS,
    WORKLOADS,
)
from datum_compute.client import errors
from datum_compute.client.call import ClientCall
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.transport import Handler
from datum_compute.env import Environment
from datum_compute.runtime.cache.cache import Cache, CacheState
from datum_compute.runtime.cache.reflector import Reflector
from datum_compute.runtime.tasks import TaskGroup

T = TypeVar("T")
C = TypeVar("C", bound=ApiClient)
Json = dict[str, Any]
ReadKey = tuple[str, ...]

WATCHED = (WORKLOADS, WORKLOAD_DEPLOYMENTS, INSTANCES, LOCATION_BINDINGS, ALLOWANCE_BUCKETS)
MAX_READS = 40
"""Of one function, of what is not watched."""
MAX_LISTED = 2000
"""Objects of one such read: of the Events of thousands of instances some are left out."""


class Unread(Exception):
    """A function asked for what is not copied."""

    def __init__(self, key: ReadKey, fetch: Callable[[ApiClient], Awaitable[Any]]) -> None:
        super().__init__(*key)
        self.key = key
        self.fetch = fetch


class CopyReader:
    """Reads of the copies, and of what was fetched for one function."""

    def __init__(self, copies: Mapping[Resource, Copy], fetched: Mapping[ReadKey, Any]) -> None:
        self._copies = copies
        self._fetched = fetched

    def get(self, resource: Resource, name: str, namespace: str = "") -> Json:
        copy = self._copy(resource)
        if copy is None:
            read: Json = self._find(
                ("get", str(resource), namespace, name),
                lambda client: _get(client, resource, name, namespace),
            )
            return read
        found = copy.objects.get((namespace, name))
        if found is None:
            call = ClientCall("get", resource, namespace, name)
            raise errors.NotFound(404, "NotFound", f'"{name}" not found', call=call)
        return found

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[Json]:
        copy = self._copy(resource)
        if copy is None or field_selector:
            found: list[Json] = self._find(
                ("list", str(resource), namespace, label_selector, field_selector),
                lambda client: _list(client, resource, namespace, label_selector, field_selector),
            )
            return list(found)
        objects = copy.sorted(namespace)
        if not label_selector:
            return objects
        matches = LabelSelector.parse(label_selector).matches
        return [each for each in objects if matches(each["metadata"].get("labels") or {})]

    def raw(self, path: str) -> bytes:
        found: bytes = self._find(("raw", path), lambda client: client.raw(path))
        return found

    def stream(self, path: str) -> Iterator[bytes]:
        """In one part: the page follows logs over its own client."""
        return iter([self.raw(path)])

    def _copy(self, resource: Resource) -> Copy | None:
        """None for what is not copied, or not yet."""
        copy = self._copies.get(resource)
        return copy if copy is not None and copy.cache.state is not CacheState.STARTING else None

    def _find(self, key: ReadKey, fetch: Callable[[ApiClient], Awaitable[Any]]) -> Any:
        if key not in self._fetched:
            raise Unread(key, fetch)
        found = self._fetched[key]
        if isinstance(found, errors.ClientError):
            raise found
        return found


async def _get(client: ApiClient, resource: Resource, name: str, namespace: str) -> Json:
    return to_dict(await client.get(resource, name, namespace))


async def _list(
    client: ApiClient, resource: Resource, namespace: str, labels: str, fields: str
) -> list[Json]:
    page = await client.list(
        resource, namespace, label_selector=labels, field_selector=fields, limit=MAX_LISTED
    )
    return [to_dict(each) for each in page.items]


class Copy:
    """The objects of one kind as plain JSON values; an object is replaced, never changed."""

    def __init__(self, resource: Resource, on_change: Callable[[], None]) -> None:
        self.cache = Cache(resource)
        self.objects: dict[tuple[str, str], Json] = {}
        self._sorted: dict[str, list[Json]] = {}
        self._on_change = on_change
        self.cache.subscribe(self._take)

    def _take(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.objects[new.namespace, new.name] = to_dict(new)
        elif old is not None:
            self.objects.pop((old.namespace, old.name), None)
        self._sorted.clear()
        self._on_change()

    def sorted(self, namespace: str) -> list[Json]:
        """By namespace and name, as a server lists them; an empty namespace means all."""
        found = self._sorted.get(namespace)
        if found is None:
            keys = sorted(key for key in self.objects if namespace in ("", key[0]))
            found = self._sorted[namespace] = [self.objects[key] for key in keys]
        return list(found)


@dataclass(frozen=True)
class _Here:
    """The project as the target of a command, in the platform's own process."""

    project: str
    plain: CopyReader
    make_client: Callable[[], ApiClient]
    local_directory: str = ""

    def reader(self) -> CopyReader:
        return self.plain

    def root(self) -> None:
        return None

    def client(self) -> ApiClient:
        return self.make_client()

    def root_client(self) -> None:
        return None


class _ReachHere(Reach):
    def __init__(self, here: Destination) -> None:
        self._here = here

    def find(self, env: Environment, args: Namespace) -> Destination:
        return self._here


class CopiedProject:
    """What one session reads."""

    def __init__(self, env: Environment, handler: Handler, grant: ConsoleGrant) -> None:
        self._env = env
        self._handler = handler
        self._grant = grant
        self.name = grant.project
        self._changed = asyncio.Event()
        self._copies = {each: Copy(each, self._changed.set) for each in WATCHED}

    def client(self, kind: type[C] = ApiClient) -> C:  # type: ignore[assignment]  # as the default
        """A client with the identity of the user."""
        return kind(
            InProcessTransport(self._handler),
            cluster=self._grant.project,
            prefix=plane_prefix(PROJECT.plane(self._grant.project)),
            token=self._grant.token,
            user_agent=PROGRAM,
            field_manager=PROGRAM,
            field_validation="Strict",
        )

    async def run(self) -> None:
        """Keep the copies current until cancelled."""
        async with TaskGroup("console") as tasks:
            for resource, copy in self._copies.items():
                reflector = Reflector(self.client(), copy.cache, self._env)
                tasks.start(reflector.run(), name=str(resource))

    @property
    def is_read(self) -> bool:
        """Whether every kind was read once, or is not served or refused."""
        return all(
            each.cache.synced or each.cache.state is not CacheState.STARTING
            for each in self._copies.values()
        )

    @property
    def problems(self) -> dict[str, str]:
        """Kinds that cannot be read now, and why."""
        return {
            resource.kind: copy.cache.message
            for resource, copy in self._copies.items()
            if copy.cache.state not in (CacheState.CURRENT, CacheState.STARTING)
        }

    async def wait_changed(self, seconds: float) -> None:
        """Until something changes, or the time has passed."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass  # what depends on the time has changed
        self._changed.clear()

    async def read(self, function: Callable[[Context], T]) -> T:
        """The result of a function that only reads."""
        fetched: dict[ReadKey, Any] = {}
        client: ApiClient | None = None
        for _ in range(MAX_READS):
            try:
                return function(self.context(Namespace(), fetched))
            except Unread as unread:
                client = client or self.client()
                try:
                    fetched[unread.key] = await unread.fetch(client)
                except errors.ClientError as error:
                    fetched[unread.key] = error
        raise RuntimeError(f"{function} reads without end")

    def context(
        self,
        args: Namespace,
        fetched: Mapping[ReadKey, Any] | None = None,
        *,
        messages: io.StringIO | None = None,
    ) -> Context:
        """What a command runs with. Its messages go to ``messages``."""
        out = io.StringIO()
        streams = Streams(io.StringIO(), out, messages or out)
        reader = CopyReader(self._copies, fetched or {})
        here = _Here(self._grant.project, reader, self.client)
        return Context(self._env, streams, args, self._grant.invocation, _ReachHere(here))
