"""The containers of one Instance, as they are paused, stopped and brought back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from datum_compute.decisions.sleep import Rest
from datum_compute.providers.container import states
from datum_compute.providers.container.engine import ContainerEngine, EngineRefused
from datum_compute.providers.sandbox import GRACE_SECONDS


class InstanceContainers:
    """``names`` are the engine's, the first owns the network of the others. ``slots`` bounds how
    many Instances of a cell are brought back at once."""

    def __init__(
        self,
        engine: Callable[[], ContainerEngine],
        names: Sequence[str],
        slots: asyncio.Semaphore,
    ) -> None:
        self._engine = engine
        self._names = tuple(names)
        self._slots = slots

    async def lower(self, rest: Rest) -> None:
        """Pause or stop what runs. What has ended by itself stays so until a connection comes."""
        engine = self._engine()
        found = await self._states()
        if rest is Rest.PAUSED:
            running = [name for name, state in found if state == "running"]
            await _together(map(engine.pause, running))
            return
        for name, state in found:
            if state == "paused":
                await engine.unpause(name)  # podman does not stop one that is paused
        up = [name for name, state in found if state in ("running", "paused")]
        await _together(engine.stop(name, GRACE_SECONDS) for name in up)

    async def resume(self, rest: Rest) -> None:
        """Bring back what rests so deep. Raises ``EngineRefused`` for containers that are in
        another state, such as one that was removed, or of which only some run."""
        engine = self._engine()
        async with self._slots:
            try:
                if rest is Rest.PAUSED:
                    await _together(map(engine.unpause, self._names))
                else:
                    await self._start(engine)
            except EngineRefused:
                await self._repair(engine)

    async def _start(self, engine: ContainerEngine) -> None:
        for name in self._names:
            await engine.start(name)

    async def _repair(self, engine: ContainerEngine) -> None:
        """The same by what the engine says: one that was paused may have been stopped since, by a
        restart of its host for one."""
        found = await self._states()
        present = {state for _, state in found}
        if not present - {"running", "paused"}:
            for name, state in found:
                if state == "paused":
                    await engine.unpause(name)
        elif not present & {"running", "paused"} and "" not in present:
            await self._start(engine)
        else:
            shown = ", ".join(f"{name} is {state or 'missing'}" for name, state in found)
            raise EngineRefused(409, f"not all of its containers can be woken: {shown}")

    async def _states(self) -> list[tuple[str, str]]:
        """Each name with the state of the container; empty for one that is not there."""
        found = []
        for name in self._names:
            inspected = await self._engine().inspect(name)
            found.append((name, states.parse_state(name, inspected).status if inspected else ""))
        return found


async def _together(calls: Iterable[Awaitable[None]]) -> None:
    """Raises the first failure, when all of them have ended."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
