"""Instances that sleep: what owns their addresses, and what wakes them.

The activator listens on the loopback address of an Instance for as long as that exists, and the
container has only its address on the engine's network. :mod:`.listeners` accepts connections and
holds those of a sleeping Instance, :mod:`.sleeper` is the state of one Instance, which pauses,
stops and wakes it through :mod:`.containers`, and :mod:`.connections` copies bytes. The provider
uses :mod:`.sleepers`.
"""

from datum_compute.providers.container.activator.containers import InstanceContainers
from datum_compute.providers.container.activator.listeners import Activator
from datum_compute.providers.container.activator.sleeper import Sleeper, WakeFailed, WakeMetrics

__all__ = ["Activator", "InstanceContainers", "Sleeper", "WakeFailed", "WakeMetrics"]
