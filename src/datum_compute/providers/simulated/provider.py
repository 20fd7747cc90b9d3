"""The simulated provider: states from the clock, addresses from the subnet, no process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.env import Environment
from datum_compute.providers.errors import InsufficientCapacity, NotReady, Rejected
from datum_compute.providers.frame import provider_controller
from datum_compute.providers.protocol import Addresses, InstanceReport, InstanceTarget, LogLine
from datum_compute.providers.simulated.addresses import SubnetAddresses
from datum_compute.providers.simulated.behaviour import Behaviour, decide_report, parse_behaviour
from datum_compute.providers.simulated.logs import InstanceLogs
from datum_compute.providers.simulated.subnets import (
    CLAIMS_BY_CONTEXT,
    SubnetKey,
    context_key_of,
    find_subnet,
    is_bound,
)
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read
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
        self._subnets: dict[SubnetKey, SubnetAddresses] = {}
        self._logs = InstanceLogs(env)

    def controllers(self) -> list[Controller]:
        """See ``RunnableProvider``."""
        reads = []
        if self._networking:
            claims = {CLAIMS_BY_CONTEXT: context_key_of}
            reads = [
                Read(self._cell, networking.NETWORK_BINDINGS),
                Read(self._cell, networking.SUBNET_CLAIMS, indexes=claims),
                Read(self._cell, networking.SUBNETS),
            ]
        return [provider_controller(self._cell, self, self._env, reads=reads)]

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        try:
            report = self._report(target)
        except Rejected as error:
            self._logs.record_refusal(target.uid, error.reason, error.message)
            raise
        except InsufficientCapacity as error:
            self._logs.record_refusal(target.uid, compute.REASON_PROVISIONING, str(error))
            raise
        self._logs.record_report(target.instance, report)
        return report

    def _report(self, target: InstanceTarget) -> InstanceReport:
        behaviour = parse_behaviour(target.instance.metadata.annotations)
        age = asyncio.get_running_loop().time() - self._start(target, behaviour)
        interfaces = self._addresses(target) if age >= 0 and not behaviour.fail else ()
        return decide_report(behaviour, age, interfaces)

    async def remove(self, target: InstanceTarget) -> None:
        self._logs.record_removal(target.uid)
        self._programmed_at.pop(target.uid, None)
        for subnet in self._subnets.values():
            subnet.release(target.uid)

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
            if programmed is not None and programmed.status == conditions.TRUE:
                # Started before this provider was: the condition has the time.
                elapsed = (self._env.now() - programmed.last_transition_time).total_seconds()
                known = asyncio.get_running_loop().time() - max(0.0, elapsed)
                self._logs.record_restart(target.uid)
            self._programmed_at[target.uid] = known
        return known

    def _addresses(self, target: InstanceTarget) -> tuple[Addresses, ...]:
        cell = self._cell.get(target.cluster)
        if cell is None or not self._networking:
            return ()
        found = []
        for interface in range(len(target.instance.spec.network_interfaces)):
            given = _present_address(target.instance, interface)
            if given and not is_bound(cell, target.instance, interface):
                found.append(Addresses(network_ip=given))  # until it is replaced
                continue
            subnet = find_subnet(cell, target.instance, interface)
            if subnet is None:
                return ()
            addresses = self._subnets.get(subnet[0])
            if addresses is None:
                addresses = self._subnets[subnet[0]] = SubnetAddresses(subnet[1])
                _adopt(cell, subnet[0], addresses)
            found.append(Addresses(network_ip=addresses.ensure((target.uid, interface))))
        return tuple(found)


def _present_address(instance: compute.Instance, interface: int) -> str:
    """The present address of an interface; empty when it has none."""
    known = instance.status.network_interfaces
    return (known[interface].assignments.network_ip or "") if interface < len(known) else ""


def _adopt(cell: Cluster, key: SubnetKey, addresses: SubnetAddresses) -> None:
    """Adopt the addresses that Instances of this subnet have from before a restart."""
    for instance in views(cell.cache(compute.INSTANCES).list(), compute.Instance):
        for interface, status in enumerate(instance.status.network_interfaces):
            address = status.assignments.network_ip
            if address and _is_on(cell, instance, interface, key):
                addresses.adopt([((instance.metadata.uid, interface), address)])


def _is_on(cell: Cluster, instance: compute.Instance, interface: int, key: SubnetKey) -> bool:
    try:
        found = find_subnet(cell, instance, interface)
    except NotReady:
        return False
    return found is not None and found[0] == key
