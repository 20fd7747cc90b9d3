"""The simulated provider: states from the clock, addresses from the subnet, no process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions import references, sleep
from datum_compute.env import Environment
from datum_compute.providers.data import read_data
from datum_compute.providers.errors import InsufficientCapacity, Rejected
from datum_compute.providers.frame import provider_controller
from datum_compute.providers.interfaces import InterfaceAddresses
from datum_compute.providers.protocol import Addresses, InstanceReport, InstanceTarget, LogLine
from datum_compute.providers.simulated.behaviour import Behaviour, decide_report, parse_behaviour
from datum_compute.providers.simulated.logs import InstanceLogs
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.fleet import Fleet


class SimulatedProvider:
    """Without networking the cell has no networking kinds, and Instances get no addresses."""

    name = "simulated"

    def __init__(self, cell: Fleet, env: Environment, *, networking_enabled: bool = True) -> None:
        self._cell = cell
        self._env = env
        self._networking = networking_enabled
        self._programmed_at: dict[str, float] = {}
        """By uid, the loop's time at which an Instance was, or will be, programmed."""
        self._interfaces = InterfaceAddresses(cell)
        self._logs = InstanceLogs(env)

    def controllers(self) -> list[Controller]:
        """See ``RunnableProvider``."""
        reads = self._interfaces.reads() if self._networking else []
        return [provider_controller(self._cell, self, self._env, reads=reads)]

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        try:
            instance = target.instance
            runs = instance.programmed and not instance.status.suspended
            if target.uid not in self._programmed_at and not runs:
                await self._check_data(target)
            report = self._report(target)
        except Rejected as error:
            self._logs.record_refusal(target.uid, error.reason, error.message)
            raise
        except InsufficientCapacity as error:
            self._logs.record_refusal(target.uid, compute.REASON_PROVISIONING, str(error))
            raise
        self._logs.record_report(target.instance, report)
        return report

    async def _check_data(self, target: InstanceTarget) -> None:
        """Read what would be mounted, and record what of it is used, without any value. An
        Instance that runs is not checked again."""
        spec = target.instance.spec
        if not references.references_of(spec):
            return
        data = await read_data(self._cell.require(target.cluster).client, target)
        for container in spec.runtime.sandbox.containers if spec.runtime.sandbox else ():
            data.variables(target, container)
        used = [
            f"{each.reference}{f' key {each.key}' if each.key else ''} as {each.use}"
            for each in references.key_references(spec)
            if each.reference.entry in data.objects
        ]
        if used:
            self._logs.record_data(target.uid, ", ".join(used))

    def _report(self, target: InstanceTarget) -> InstanceReport:
        behaviour = parse_behaviour(target.instance.metadata.annotations)
        # First the start: where it is now, it must not be later than the time it is compared with.
        start = self._start(target, behaviour)
        age = asyncio.get_running_loop().time() - start
        interfaces = self._addresses(target) if age >= 0 and not behaviour.fail else ()
        policy = sleep.find_policy(target.instance.metadata.annotations)
        held = sleep.held_seconds(policy, self._env.now()) if policy is not None else 0.0
        if held:
            behaviour = replace(behaviour, sleep_after=max(behaviour.sleep_after, age + held))
        return decide_report(behaviour, age, interfaces)

    async def suspend(self, target: InstanceTarget) -> None:
        self._programmed_at.pop(target.uid, None)
        self._logs.record_stop(target.uid)

    async def remove(self, target: InstanceTarget) -> None:
        self._logs.record_removal(target.uid)
        self._programmed_at.pop(target.uid, None)
        self._interfaces.release(target.uid)

    def lines(
        self,
        uid: str,
        *,
        tail: int | None = None,
        since: datetime | None = None,
        follow: bool = False,
    ) -> AsyncIterator[LogLine]:
        return self._logs.lines(uid, tail=tail, since=since, follow=follow)

    def _start(self, target: InstanceTarget, behaviour: Behaviour) -> float:
        known = self._programmed_at.get(target.uid)
        if known is None:
            known = asyncio.get_running_loop().time() + behaviour.start_seconds
            programmed = conditions.find(
                target.instance.status.conditions, compute.CONDITION_PROGRAMMED
            )
            started = programmed is not None and programmed.status == conditions.TRUE
            if programmed is not None and started and not target.instance.status.suspended:
                # Started before this provider was: the condition has the time.
                elapsed = (self._env.now() - programmed.last_transition_time).total_seconds()
                known = asyncio.get_running_loop().time() - max(0.0, elapsed)
                self._logs.record_restart(target.uid)
            self._programmed_at[target.uid] = known
        return known

    def _addresses(self, target: InstanceTarget) -> tuple[Addresses, ...]:
        if not self._networking:
            return ()
        return tuple(Addresses(each.address) for each in self._interfaces.ensure(target))
