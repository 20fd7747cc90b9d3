"""An API server in a separate process, for a test to kill: ``killable DIRECTORY TOKEN``.

It prints its port when it serves, and serves until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from datum_compute.apiserver.http.listener import serve
from datum_compute.apiserver.request import access
from datum_compute.env import SystemEnvironment
from datum_compute.testing.server import embedded_server


async def main(directory: Path, token: str) -> None:
    env = SystemEnvironment()
    path = directory / "state.db"
    async with embedded_server(
        env, path, crds_for=lambda _: [], cells=("dfw",), projects=()
    ) as embedded:
        server = embedded.server
        server.add_user("writer", (access.MASTERS,), token)
        async with serve(server, env, directory=directory) as port:
            print(port, flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
