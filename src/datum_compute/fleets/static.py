"""A fleet of a fixed list of clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import TaskGroup


class StaticFleet(Fleet):
    def __init__(self, name: str, clients: Mapping[str, Client], env: Environment) -> None:
        super().__init__(name, env)
        self._clients = dict(clients)

    async def discover(self, tasks: TaskGroup) -> None:
        for name in sorted(self._clients):
            self.engage(name, self._clients[name])
        self.mark_discovered()
        await asyncio.get_running_loop().create_future()
