"""Runs the controller on the cluster that a kubeconfig file names, until it is interrupted."""

from __future__ import annotations

import asyncio
import sys

from controller import greeter

from datum_compute.client import connect, kubeconfig
from datum_compute.env import SystemEnvironment
from datum_compute.fleets.single import SingleFleet
from datum_compute.runtime.manager import Manager


async def main(path: str) -> None:
    env = SystemEnvironment()
    client = connect.client_for(kubeconfig.load(path), cluster="example")
    manager = Manager("greetings", env)
    manager.add(greeter(SingleFleet("clusters", "example", client, env)))
    try:
        await manager.run()
    finally:
        await client.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except KeyboardInterrupt:
        pass
