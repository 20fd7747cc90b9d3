"""Engages and disengages the clusters a fleet wants, one name at a time.

Watch callbacks cannot wait, and disengaging does. So a fleet that follows objects notes here
which names may have changed, and one loop settles each of them by the state at that time, not
at the time of the event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from datum_compute.client.protocol import Client
from datum_compute.log import get_logger
from datum_compute.runtime.backoff import RECONNECT
from datum_compute.runtime.fleet import Fleet

logger = get_logger(__name__)


class ChangedNames:
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

    async def wait(self, seconds: float | None = None) -> None:
        """Until there is a change, or for this long."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            pass


async def sync_engagements(
    fleet: Fleet,
    changes: ChangedNames,
    wanted: Callable[[str, str], str],
    client_for: Callable[[str], Client],
) -> None:
    """Engage and disengage until cancelled.

    ``wanted`` is given a name and the identity under which it is engaged, and returns the one
    under which it is wanted now, empty for none. Another identity is another cluster, so the
    old one is disengaged first. A name without a client is reported and tried again later; it
    does not delay others.
    """
    engaged: dict[str, str] = {}
    refused: dict[str, str] = {}
    chance = fleet.env.random(f"fleets.{fleet.name}").random
    tries = 0
    while True:
        for name in changes.take():
            current = engaged.get(name, "")
            identity = wanted(name, current)
            if current == identity:
                refused.pop(name, None)
                continue
            if engaged.pop(name, ""):
                await fleet.disengage(name)
            if identity and _engage(fleet, name, client_for, refused):
                engaged[name] = identity
        if not fleet.discovered:
            fleet.mark_discovered()
        tries = tries + 1 if refused else 0
        await changes.wait(RECONNECT.delay(tries, chance()) if refused else None)
        for name in refused:
            changes.note(name)


def _engage(
    fleet: Fleet, name: str, client_for: Callable[[str], Client], refused: dict[str, str]
) -> bool:
    try:
        client = client_for(name)
    except Exception as error:  # a credential may be bad in any way
        reason = str(error)[:300]
        if refused.get(name) != reason:
            logger.error(
                "cannot create a client for a cluster",
                exc_info=error,
                fleet=fleet.name,
                cluster=name,
                reason=reason,
            )
        refused[name] = reason
        return False
    refused.pop(name, None)
    fleet.engage(name, client)
    return True
