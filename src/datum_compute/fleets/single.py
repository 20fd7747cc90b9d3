"""A fleet of one cluster: a hub, or a cell's own cluster."""

from __future__ import annotations

from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.fleets.static import StaticFleet


class SingleFleet(StaticFleet):
    """Not a special mode: reconciles get the same requests, all with one cluster name."""

    def __init__(self, name: str, cluster_name: str, client: Client, env: Environment) -> None:
        super().__init__(name, {cluster_name: client}, env)
