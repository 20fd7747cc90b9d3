"""The provider that runs each Instance as containers of podman or docker.

What the engine has is the truth: the containers of an Instance are found by name and uid, also
those that an earlier run of the platform made, and events only hurry the next look. The engine
is asked for all containers of the cell every half minute (:mod:`.sweep`).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime
from typing import Any, NoReturn, Self

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.remote_command import CommandRequest, CommandSession
from datum_compute.decisions.references import references_of
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.providers import protocol
from datum_compute.providers.container import exec, failures, sockets, spec, states
from datum_compute.providers.container.activator import WakeFailed
from datum_compute.providers.container.activator.sleepers import Sleepers
from datum_compute.providers.container.attachments import Attachments, loopback_range
from datum_compute.providers.container.capacity import EngineCapacity
from datum_compute.providers.container.engine import EngineRefused, EngineUnreachable
from datum_compute.providers.container.images.pull import Images
from datum_compute.providers.container.logs import EngineLogs
from datum_compute.providers.container.networks import EngineNetworks
from datum_compute.providers.container.run import Run
from datum_compute.providers.container.states import ContainerState, Crashes
from datum_compute.providers.container.sweep import SWEEP_SECONDS, EngineSweep
from datum_compute.providers.container.volumes import EngineVolumes
from datum_compute.providers.data import InstanceData, read_data
from datum_compute.providers.errors import NotReady
from datum_compute.providers.frame import provider_controller
from datum_compute.providers.logs import FollowableLogs
from datum_compute.providers.protocol import (
    ExecRefused,
    InstanceReport,
    InstanceTarget,
    LogLine,
)
from datum_compute.providers.sandbox import (
    GRACE_SECONDS,
    LABEL_UID,
    SETTLE_SECONDS,
    container_size,
    first_tcp_port,
    sandbox_of,
)
from datum_compute.runtime.backoff import RECONNECT
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.runtime.watches.predicates import deleted

logger = get_logger(__name__)

STARTS = 4
"""Containers of a cell that are created, started or removed at once. The engine's throughput does
not grow beyond, while each call takes longer."""
AWAY_SECONDS = 2.0
"""Until an engine that is away is asked again."""
MOVE_SECONDS = 0.1
"""Until an Instance whose address was taken tries the next one."""
MOST_MOVES = 3
"""How often a new Instance whose published address does not answer is given another one."""
STOPPING = "its containers are being stopped"
MOVES = "its address was taken; it moves"
MADE_ANEW = "its containers are made anew: the engine does not start them any more"


class ContainerProvider:
    """One cell's Instances on one engine. Entered before its controllers run."""

    name = "container"

    def __init__(
        self,
        cell_name: str,
        cell: Fleet,
        env: Environment,
        *,
        engine: str,
        platform: str,
        networking: bool = True,
        settle_seconds: float = SETTLE_SECONDS,
        metrics: MetricsRegistry | None = None,
    ) -> None:
        """``platform`` marks the containers as those of one platform. Without a TCP port an
        Instance is available once it has been up for ``settle_seconds``."""
        self._cell_name = cell_name
        self._cell = cell
        self._env = env
        self._engine_name = engine
        self._platform = platform
        self._networking = networking
        self._settle_seconds = settle_seconds
        self._limits = sockets.limits_of_this_host(engine)
        self._runs: dict[str, Run] = {}
        self._slots = asyncio.Semaphore(STARTS)
        self._engine = sockets.EngineConnection(env, engine)
        self._capacity = EngineCapacity(self._engine)
        self._images = Images(self._engine, self._enqueue)
        self._volumes = EngineVolumes(self._engine)
        self._networks = EngineNetworks(self._engine, platform, cell_name)
        self._labels = spec.platform_labels(platform, cell_name)
        networks = self._networks if networking else None
        self._attachments = Attachments(cell, networks, loopback_range(platform, cell_name))
        self._sleepers = Sleepers(
            env, self._engine, self._runs, self._enqueue, metrics or MetricsRegistry()
        )
        self._sweep = EngineSweep(
            cell, self._engine, self._labels, networks, self._volumes, self._runs, self._enqueue
        )
        self._logs = FollowableLogs(EngineLogs(self._engine))
        self._stack = AsyncExitStack()
        self._controller = provider_controller(
            cell,
            self,
            env,
            reads=self._attachments.reads(),
            first_reports=True,
        )

    def controllers(self) -> list[Controller]:
        """See ``RunnableProvider``."""
        if not self._networking:
            return [self._controller]
        removed = Watch.each(self._cell, networking.SUBNETS, predicate=deleted)
        return [
            self._controller,
            Controller(
                f"provider-{self.name}-network", self._cell, self._end_network, watches=[removed]
            ),
        ]

    async def __aenter__(self) -> Self:
        await self._engine.open()
        self._stack.push_async_callback(self._engine.close)
        self._stack.push_async_callback(self._sleepers.close)
        tasks = await self._stack.enter_async_context(TaskGroup(f"containers of {self._cell_name}"))
        self._stack.push_async_callback(self._images.close)
        followed = [
            tasks.start(self._follow_events(), name=f"events of {self._cell_name}"),
            tasks.start(self._sweep.run(), name=f"sweep of {self._cell_name}"),
        ]
        self._stack.push_async_callback(tasks.stop, *followed)
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stack.aclose()

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
        """Holds an Instance awake that sleeps otherwise."""
        run = self._runs.get(uid)
        if run is None or (sleeper := run.sleeper) is None:
            return await exec.start(self._engine, uid, request)
        sleeper.acquire()
        try:
            await sleeper.wait_awake()
            return await exec.start(self._engine, uid, request, sleeper.release)
        except WakeFailed as error:
            sleeper.release()
            raise ExecRefused(f"it does not wake: {error}") from error
        except BaseException:
            sleeper.release()
            raise

    # Running an Instance.

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        run = self._run(target)
        self._logs.record_change(target.uid)
        try:
            self._settle(run)
            with self._engine_answers():
                return await self._ensure(target, run)
        except NotReady as error:
            if run.sleeper is None or not run.sleeper.failure:
                raise
            # It was asleep and is not any more: the last report does not hold.
            return self._sleepers.with_sleep(
                target, run, protocol.starting("", run.addresses, error.delay)
            )

    @contextmanager
    def _engine_answers(self) -> Iterator[None]:
        """An engine that does not is asked again."""
        try:
            yield
        except EngineUnreachable as error:
            raise NotReady(
                f"{self._engine_name} does not answer: {error}", delay=AWAY_SECONDS
            ) from error
        except EngineRefused as error:
            # Such as a container that is removed between two calls.
            raise NotReady(
                f"{self._engine_name} refuses a call: {failures.one_line(error.message)}",
                delay=AWAY_SECONDS,
            ) from error

    async def _ensure(self, target: InstanceTarget, run: Run) -> InstanceReport:
        if asleep := self._sleepers.report_asleep(target, run):
            return asleep
        sandbox = sandbox_of(target)
        found = [await self._inspect(target, each.name) for each in sandbox.containers]
        stopped = not run.started and _was_available(target) and not _all_run(found)
        if stopped and not target.instance.asleep:
            # So the platform left it when it was stopped. It is withdrawn before anything else.
            return protocol.starting("its containers are started", (), 0.0)
        if None in found:
            data = await read_data(self._cell.require(target.cluster).client, target)
            await self._capacity.check(target)
            secrets = list(data.pull_secrets(target))
            for container in sandbox.containers:
                if not await self._images.ensure(container.image, target.uid, secrets):
                    return protocol.preparing(f"pulling image {container.image}")
            await self._create_missing(target, run, found, data)
            found = [await self._inspect(target, each.name) for each in sandbox.containers]
        inspected = [each for each in found if each is not None]
        if len(inspected) < len(found):
            raise NotReady("a container was removed while it was created", delay=AWAY_SECONDS)
        if run.attachment is None:
            run.attachment = self._adopt(target.uid, inspected[0])
        try:
            self._sleepers.activate(target, run, inspected)
        except OSError as error:
            await self._move(target)
            raise NotReady(MOVES, delay=AWAY_SECONDS) from error
        if asleep := self._sleepers.report_asleep(target, run):
            return asleep
        report = await self._drive(target, run, inspected)
        return self._sleepers.with_sleep(target, run, report)

    # Starting it.

    async def _drive(
        self, target: InstanceTarget, run: Run, inspected: list[dict[str, Any]]
    ) -> InstanceReport:
        """Start what does not run and is due, and report."""
        sandbox = sandbox_of(target)
        now = asyncio.get_running_loop().time()
        found = [
            states.parse_state(container.name, each)
            for container, each in zip(sandbox.containers, inspected, strict=True)
        ]
        if all(state.running for state in found):
            run.started, run.restart_at = True, None
            return await self._report_running(target, run, found)
        run.available = False
        for state in found:
            if state.status == "paused":
                await self._engine().unpause(spec.container_name(target.instance, state.name))
        ended = next((state for state in found if state.ended), None)
        if ended is not None and run.started and run.restart_at is None:
            index = found.index(ended)
            cause = states.describe_end(
                ended,
                container_size(target, index)[1],
                reports_memory=self._engine_name != sockets.PODMAN,
            )
            run.crashes = Crashes(run.crashes.count + 1, cause)
            run.restart_at = now + run.crashes.restart_delay()
        if run.restart_at is not None and now < run.restart_at:
            wait = run.restart_at - now
            return states.crashing(run.crashes, run.addresses, wait)
        await self._renew_data(target, run, inspected, found)
        await self._start(target, found)
        run.started, run.restart_at = True, None
        if run.crashes.count > 0:
            return states.crashing(run.crashes, run.addresses, self._settle_seconds)
        return await self._report_running(target, run, [])

    async def _renew_data(
        self,
        target: InstanceTarget,
        run: Run,
        inspected: list[dict[str, Any]],
        found: list[ContainerState],
    ) -> None:
        """Make containers anew that are about to start and were created with other data: as in a
        Pod, a restart takes the present one."""
        if not references_of(target.instance.spec):
            return
        data = await read_data(self._cell.require(target.cluster).client, target)
        stale = [
            state.name
            for state, each in zip(found, inspected, strict=True)
            if not (found[0].running and state.running)
            and _labels(each).get(spec.LABEL_DATA, "") != data.version
        ]
        if not stale:
            return
        for name in reversed(stale):
            await self._engine().remove(spec.container_name(target.instance, name))
        kept = [
            None if state.name in stale else each
            for state, each in zip(found, inspected, strict=True)
        ]
        await self._create_missing(target, run, kept, data)

    async def _start(self, target: InstanceTarget, found: list[ContainerState]) -> None:
        """All of them: the first owns the network of the others, so they restart together."""
        engine = self._engine()
        async with self._slots:
            for state in found[1:] if not found[0].running else ():
                if state.running:
                    await engine.stop(spec.container_name(target.instance, state.name), 0)
            for state in found:
                if found[0].running and state.running:
                    continue
                try:
                    await engine.start(spec.container_name(target.instance, state.name))
                except EngineRefused as error:
                    if failures.is_address_taken(error):
                        await self._move(target, error)
                        raise NotReady(MOVES, delay=MOVE_SECONDS) from error
                    if failures.is_never_started(error):
                        name = target.instance.metadata.name
                        logger.warning("container made anew", instance=name, error=error.message)
                        await self._remove_containers(target)
                        raise NotReady(MADE_ANEW, delay=MOVE_SECONDS) from error
                    raise failures.explain_refusal(error, state.name) from error

    async def _report_running(
        self, target: InstanceTarget, run: Run, found: list[ContainerState]
    ) -> InstanceReport:
        addresses = run.addresses
        up = states.up_seconds(found, self._env.now())
        if run.crashes.count and up < self._settle_seconds:
            return states.crashing(run.crashes, addresses, self._settle_seconds - up)
        port = run.port = first_tcp_port(sandbox_of(target))
        if port is None and up < self._settle_seconds:
            return protocol.starting(
                f"it is available after running for {self._settle_seconds:g}s",
                addresses,
                self._settle_seconds - up,
            )
        if port is not None and not await run.accepts(port):
            run.available = False
            wait = min(2.0, max(0.1, up / 4))
            return protocol.starting(f"port {port} does not accept connections", addresses, wait)
        is_new = not _was_available(target) and run.moves < MOST_MOVES
        if port is not None and is_new and not await run.publishes(port):
            run.moves += 1
            await self._move(target)
            raise NotReady(MOVES, delay=MOVE_SECONDS)
        if run.crashes.count and up >= states.FORGIVEN_SECONDS:
            run.crashes = Crashes()
        run.available = True
        return InstanceReport(protocol.PROGRAMMED, protocol.AVAILABLE, addresses)

    async def suspend(self, target: InstanceTarget) -> None:
        """Its containers stay, and with them its addresses and data."""
        await self._sleepers.deactivate(target.uid)
        run = self._run(target)
        self._logs.record_change(target.uid)
        self._settle(run)
        run.crashes, run.restart_at, run.started, run.available = Crashes(), None, False, False
        with self._engine_answers():
            found = await self._engine().containers({LABEL_UID: target.uid})
            if found and run.attachment is None:
                owner = await self._inspect(target, sandbox_of(target).containers[0].name)
                run.attachment = self._adopt(target.uid, owner) if owner is not None else None
        if any(map(_runs, found)):
            self._start_task(target, run, self._stop(target, found))

    # Creating and removing.

    async def _create_missing(
        self,
        target: InstanceTarget,
        run: Run,
        found: list[dict[str, Any] | None],
        data: InstanceData,
    ) -> None:
        if found[0] is not None:
            run.attachment = self._adopt(target.uid, found[0])
        elif any(each is not None for each in found):
            # The owner of the network was removed; the others cannot join its successor.
            for container, each in zip(sandbox_of(target).containers, found, strict=True):
                if each is not None:
                    await self._engine().remove(
                        spec.container_name(target.instance, container.name)
                    )
            found = [None] * len(found)
        if run.attachment is None or found[0] is None:
            run.attachment = await self._attachments.ensure(target)
        labels = spec.instance_labels(self._platform, self._cell_name, target.instance)
        async with self._slots:
            fill = not any(found)
            directories = await self._volumes.ensure(target, data, labels, fill=fill)
            for index, container in enumerate(sandbox_of(target).containers):
                if found[index] is not None:
                    continue
                body = spec.build_body(
                    target, index, run.attachment, self._limits, labels, data, directories
                )
                name = spec.container_name(target.instance, container.name)
                try:
                    await self._engine().create(name, body)
                except EngineRefused as error:
                    if failures.is_address_taken(error):
                        self._leave_address(target.uid, error)
                        raise NotReady(MOVES, delay=MOVE_SECONDS) from error
                    if failures.is_name_taken(error):
                        await self._engine().free_name(name)
                        continue
                    if run.attachment.network:
                        self._networks.recheck(run.attachment.network)
                    raise failures.explain_refusal(error, container.name) from error

    def _adopt(self, uid: str, inspected: dict[str, Any]) -> spec.Attachment:
        return self._attachments.adopt(uid, _labels(inspected))

    async def _move(self, target: InstanceTarget, error: EngineRefused | None = None) -> None:
        """Make its containers anew with another address."""
        await self._sleepers.deactivate(target.uid)
        await self._remove_containers(target)
        self._leave_address(target.uid, error)

    async def _remove_containers(self, target: InstanceTarget) -> None:
        found = await self._engine().containers({LABEL_UID: target.uid})
        for identifier in spec.removal_order(found):
            await self._engine().remove(identifier)
        self._end_leftovers(target.uid, found)

    def _end_leftovers(self, uid: str, removed: Sequence[dict[str, Any]]) -> None:
        """docker that was killed in the middle of a start leaves a process that it knows nothing
        of. That has the addresses of the container on its network, so that a successor with the
        same ones is not reached."""
        for each in removed:
            if not _runs(each) and not exec.signal_session(None, str(each["Id"]), signal.SIGKILL):
                self._attachments.leave_network(uid)

    def _leave_address(self, uid: str, error: EngineRefused | None) -> None:
        """Leave the address that is taken to whoever else has it."""
        if error is not None and failures.is_network_address_taken(error):
            self._attachments.leave_network(uid)
        else:
            self._attachments.leave_loopback(uid)
        self._runs[uid].attachment = None

    async def remove(self, target: InstanceTarget) -> None:
        run = self._run(target)
        if run.asleep:
            await self._sleepers.deactivate(target.uid)  # so that it is not woken any more
        self._settle(run)
        if not run.removed:
            self._start_task(target, run, self._remove(target, run))
        self._forget(target.uid)

    def _start_task(
        self, target: InstanceTarget, run: Run, work: Coroutine[Any, Any, None]
    ) -> NoReturn:
        """In the background: a stop may take its whole grace period."""
        name = f"stop {target.instance.metadata.name}"
        run.task = asyncio.get_running_loop().create_task(work, name=name)
        raise NotReady(STOPPING, delay=SWEEP_SECONDS)

    def _settle(self, run: Run) -> None:
        """Raises ``NotReady`` while its containers are being stopped, and when that failed."""
        task = run.task
        if task is None:
            return
        if not task.done():
            raise NotReady(STOPPING, delay=SWEEP_SECONDS)
        run.task = None
        try:
            task.result()
        except EngineUnreachable as error:
            raise NotReady(
                f"{self._engine_name} does not answer: {error}", delay=AWAY_SECONDS
            ) from error
        except EngineRefused as error:
            raise NotReady(
                f"its containers cannot be stopped: {failures.one_line(error.message)}",
                delay=failures.RETRY_SECONDS,
            ) from error

    async def _remove(self, target: InstanceTarget, run: Run) -> None:
        engine = self._engine()
        try:
            found = await engine.containers({LABEL_UID: target.uid})
            await self._stop(target, found)
            # Not before: it may serve while it ends, and is tried for as long as it is in a route.
            await self._sleepers.deactivate(target.uid)
            async with self._slots:
                for identifier in spec.removal_order(found):
                    await engine.remove(identifier)
                self._end_leftovers(target.uid, found)
                sandbox = target.instance.spec.runtime.sandbox
                for container in sandbox.containers if sandbox and not found else ():
                    await engine.free_name(spec.container_name(target.instance, container.name))
                await self._volumes.remove(target.uid, target.instance.metadata.name)
            run.removed = True
        finally:
            self._enqueue(target.uid)

    async def _stop(self, target: InstanceTarget, found: Sequence[dict[str, Any]]) -> None:
        engine = self._engine()
        try:
            for container in found:
                if str(container.get("State")) == "paused":
                    await engine.unpause(str(container["Id"]))
            running = [str(each["Id"]) for each in found if _runs(each)]
            await asyncio.gather(*(engine.stop(each, GRACE_SECONDS) for each in running))
        finally:
            self._enqueue(target.uid)

    def _forget(self, uid: str) -> None:
        self._runs.pop(uid, None)
        self._attachments.release(uid)
        self._images.forget(uid)
        self._logs.record_removal(uid)

    # What the engine tells by itself.

    async def _follow_events(self) -> None:
        random = self._env.random(f"containers.{self._cell_name}")
        failed = 0
        while True:
            try:
                async for event in self._engine().events(self._labels):
                    failed = 0
                    attributes = (event.get("Actor") or {}).get("Attributes") or {}
                    self._enqueue(str(attributes.get(LABEL_UID) or ""))
            except (EngineUnreachable, EngineRefused) as error:
                if failed == 0:
                    logger.warning(
                        "container engine away", engine=self._engine_name, error=str(error)
                    )
            await self._engine.open()
            await asyncio.sleep(RECONNECT.delay(failed, random.random()))
            failed += 1
            self._enqueue_all()

    # Networks of Subnets that were deleted.

    async def _end_network(self, request: Request) -> Result:
        if self._sweep.has_subnet(request.namespace, request.name):
            return DONE
        try:
            await self._networks.remove(request.namespace, request.name)
        except (EngineUnreachable, EngineRefused) as error:
            # While a container is on it, for one.
            raise Waiting(f"network not removed: {error}", AWAY_SECONDS) from error
        return DONE

    # Small helpers.

    def _run(self, target: InstanceTarget) -> Run:
        metadata = target.instance.metadata
        run = self._runs.get(target.uid)
        if run is None:
            request = Request(target.cluster, metadata.namespace, metadata.name)
            run = self._runs[target.uid] = Run(request)
        return run

    async def _inspect(self, target: InstanceTarget, container: str) -> dict[str, Any] | None:
        """The container of this Instance; one of the same name and another uid is not it."""
        found = await self._engine().inspect(spec.container_name(target.instance, container))
        if found is None:
            return None
        return found if _labels(found).get(LABEL_UID) == target.uid else None

    def _enqueue(self, uid: str) -> None:
        if run := self._runs.get(uid):
            self._controller.enqueue(run.request)

    def _enqueue_all(self) -> None:
        for run in self._runs.values():
            self._controller.enqueue(run.request)


def _labels(inspected: dict[str, Any]) -> dict[str, str]:
    return (inspected.get("Config") or {}).get("Labels") or {}


def _runs(listed: dict[str, Any]) -> bool:
    return str(listed.get("State")) in ("running", "paused")


def _was_available(target: InstanceTarget) -> bool:
    return conditions.is_true(target.instance.status.conditions, compute.CONDITION_AVAILABLE)


def _all_run(inspected: list[dict[str, Any] | None]) -> bool:
    return all(each is not None and states.parse_state("", each).running for each in inspected)
