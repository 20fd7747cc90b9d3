"""Engaging what is wanted, one name at a time.

Watch callbacks cannot wait, and disengaging does. So a fleet that follows objects notes
here which names may have changed and lets one loop settle each of them: what is wanted of
it now is asked then, not at the time of the event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from datum_compute.client.protocol import Client
from datum_compute.runtime.fleet import Fleet


class Changes:
    """Names that may have changed, in the order of their first mention."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._event = asyncio.Event()

    def note(self, name: str) -> None:
        self._names[name] = None
        self._event.set()

    def take(self) -> list[str]:
        names = list(self._names)
        self._names.clear()
        self._event.clear()
        return names

    async def wait(self) -> None:
        await self._event.wait()


async def follow(
    fleet: Fleet,
    changes: Changes,
    wanted: Callable[[str, str], str],
    client_for: Callable[[str], Client],
) -> None:
    """Engage and disengage for ever.

    ``wanted`` is given a name and the identity under which it is engaged, and gives the one
    under which it is wanted now; an empty text means not at all. Another identity is another
    cluster, so the old one is let go first.
    """
    engaged: dict[str, str] = {}
    while True:
        for name in changes.take():
            current = engaged.get(name, "")
            identity = wanted(name, current)
            if current == identity:
                continue
            if engaged.pop(name, ""):
                await fleet.disengage(name)
            if identity:
                engaged[name] = identity
                fleet.engage(name, client_for(name))
        if not fleet.discovered:
            fleet.mark_discovered()
        await changes.wait()
