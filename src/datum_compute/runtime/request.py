"""What a reconcile is called with: a key with a cluster name, never an event."""

from __future__ import annotations

import msgspec


class Request(msgspec.Struct, frozen=True, order=True, gc=False):
    """Hashed several times for each change and each run: a struct does that in C."""

    cluster: str
    """The name under which a fleet knows the cluster; an empty one is dropped, never run."""
    namespace: str
    name: str

    def __str__(self) -> str:
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}://{key}"
