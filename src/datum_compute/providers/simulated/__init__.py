"""Instances that nothing runs: the provider for demonstrations, tests and benchmarks.

An Instance is programmed and available at once, with the next free address of its subnet.
Annotations on the template make it start late, fail, crash or sleep (:mod:`.behaviour`).
"""

from datum_compute.providers.simulated.provider import SimulatedProvider

__all__ = ["SimulatedProvider"]
