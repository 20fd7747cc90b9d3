"""What the provider knows of one Instance beyond what the engine does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from datum_compute.providers.container.activator import Sleeper
from datum_compute.providers.container.activator.connections import dial
from datum_compute.providers.container.spec import Attachment
from datum_compute.providers.container.states import Crashes
from datum_compute.providers.protocol import Addresses
from datum_compute.runtime.request import Request

DIAL_SECONDS = 1.0


@dataclass(slots=True)
class Run:
    request: Request
    attachment: Attachment | None = None
    crashes: Crashes = field(default_factory=Crashes)
    restart_at: float | None = None
    """The loop's time at which it is started again; None while it runs."""
    started: bool = False
    """Whether this provider has started it or seen it run: an end before that is no crash."""
    available: bool = False
    port: int | None = None
    """The port that shows that it is ready to serve."""
    task: asyncio.Task[None] | None = None
    """What pauses, stops or removes its containers."""
    removed: bool = False
    moves: int = 0
    """How often it was given another address because the published one did not answer."""
    sleeper: Sleeper | None = None
    """Of one whose address the activator has."""

    @property
    def asleep(self) -> bool:
        return self.sleeper is not None and self.sleeper.asleep

    @property
    def addresses(self) -> tuple[Addresses, ...]:
        found = self.attachment
        if found is None or not (found.network_ip or found.external_ip):
            return ()
        return (Addresses(found.network_ip, found.external_ip),)

    async def accepts(self, port: int) -> bool:
        """Whether the port accepts connections. Asked on the network's address: the published
        one is accepted by the engine itself."""
        found = self.attachment
        address = found and (found.network_ip or found.external_ip)
        # Without an address there is nothing to ask.
        return not address or await _accepts(address, port)

    async def publishes(self, port: int) -> bool:
        """Whether the published address leads to the port that accepts connections. It does not
        where podman left a rule of a container that is gone, whose removal was cut off."""
        found = self.attachment
        if found is None or not found.external_ip or found.activated:
            return True
        return await _accepts(found.external_ip, port)


async def _accepts(address: str, port: int) -> bool:
    try:
        sock = await dial(address, port, DIAL_SECONDS)
    except OSError:
        return False
    sock.close()
    return True
