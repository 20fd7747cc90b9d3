"""What the engine's machine has, and whether an Instance can have its size there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from datum_compute.providers.container.engine import ContainerEngine
from datum_compute.providers.errors import InsufficientCapacity
from datum_compute.providers.protocol import InstanceTarget
from datum_compute.providers.sandbox import container_size, sandbox_of


class EngineCapacity:
    """podman accepts more than the machine has, and docker refuses it. The engine is asked once:
    podman takes a quarter of a second of CPU for it (measured)."""

    def __init__(self, engine: Callable[[], ContainerEngine]) -> None:
        self._engine = engine
        self._known: tuple[int, int] | None = None
        self._question = asyncio.Lock()

    async def check(self, target: InstanceTarget) -> None:
        """Raises ``InsufficientCapacity`` where the machine is too small for one of its
        containers."""
        cores, memory = await self._cores_and_memory()
        for index, container in enumerate(sandbox_of(target).containers):
            millicores, wanted = container_size(target, index)
            if cores and millicores > cores * 1000:
                raise InsufficientCapacity(
                    f"container {container.name} asks for {millicores / 1000:g} CPUs,"
                    f" and this machine has {cores}"
                )
            if memory and wanted > memory:
                raise InsufficientCapacity(
                    f"container {container.name} asks for {wanted / 2**20:g} MiB of memory,"
                    f" and this machine has {memory / 2**20:.0f}"
                )

    async def _cores_and_memory(self) -> tuple[int, int]:
        async with self._question:  # others wait for the answer to the first
            if self._known is None:
                info = await self._engine().info()
                self._known = int(info.get("NCPU") or 0), int(info.get("MemTotal") or 0)
            return self._known
