"""Instances as containers of podman or docker, through the engine's API on a unix socket.

:mod:`.sockets` finds the engine, :mod:`.engine` speaks to it, :mod:`.spec` writes what it runs,
:mod:`.states` and :mod:`.failures` read what it says, :mod:`.images`, :mod:`.networks`,
:mod:`.volumes` and :mod:`.logs` are about one thing each, :mod:`.sweep` finds what no event
reported, and :mod:`.provider` holds them together.
"""

from datum_compute.providers.container.provider import ContainerProvider

__all__ = ["ContainerProvider"]
