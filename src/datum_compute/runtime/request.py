"""What a reconcile is asked to look at: a key with a cluster name, never an event."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Request:
    cluster: str
    """The name under which a fleet knows the cluster; an empty one is dropped, never run."""
    namespace: str
    name: str

    def __str__(self) -> str:
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}://{key}"
