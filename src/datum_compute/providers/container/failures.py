"""What an engine's refusal means for the Instance it was about.

The texts are those of podman 4.3 and docker 20.10. A text that no pattern knows is a fault of
the host, not of the Instance: it is retried, and the Instance is not blamed.
"""

from __future__ import annotations

import re

from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers.container.engine import EngineRefused
from datum_compute.providers.errors import InsufficientCapacity, NotReady, ProviderError, Rejected
from datum_compute.providers.sandbox import describe_command

RETRY_SECONDS = 10.0
"""Until a refusal that is the host's fault is tried again."""

_CONFIGURATION = re.compile(
    r"unable to find user .*|.*no matching entries in passwd file.*"
    r"|.*is not a directory.*|invalid environment variable.*"
    r"|unable to set memory limit.*|Minimum memory limit allowed.*"
    r"|.*privileged port.*",
    re.IGNORECASE,
)
_IMAGE = re.compile(r"no such image|invalid reference format|image not known", re.IGNORECASE)
_CAPACITY = re.compile(r"Range of CPUs is from", re.IGNORECASE)
_ADDRESS = re.compile(
    r"address already in use|port is already allocated|ip address .* already allocated"
    r"|Address already in use",
    re.IGNORECASE,
)
_NETWORK_ADDRESS = re.compile(r"ip address .* already allocated", re.IGNORECASE)
_NAME = re.compile(r"already in use by|name .* is already in use|is already in use", re.IGNORECASE)
_STALE_TASK = re.compile(r"task [0-9a-f]{64}: already exists|^id already in use$")
_OVERLAP = re.compile(
    r"overlaps with other one|is already used on the host|subnet .* used by", re.I
)


def is_address_taken(error: EngineRefused) -> bool:
    """Whether another container or process has the address: the next one may be free."""
    return bool(_ADDRESS.search(error.message))


def is_network_address_taken(error: EngineRefused) -> bool:
    """Whether it is the address on the network that is taken. podman keeps that of a container
    whose removal was cut off, though the container is gone."""
    if error.status == 403:
        return is_address_taken(error)
    return bool(_NETWORK_ADDRESS.search(error.message))


def is_name_taken(error: EngineRefused) -> bool:
    """Whether a container of this name exists, made by an earlier call whose answer was lost."""
    return error.status == 409 or bool(_NAME.search(error.message))


def is_never_started(error: EngineRefused) -> bool:
    """Whether the engine will refuse to start this container for ever. docker that was killed in
    the middle of a start leaves a task in containerd, which it neither takes up nor removes."""
    return bool(_STALE_TASK.search(error.message))


def is_range_taken(error: EngineRefused) -> bool:
    return bool(_OVERLAP.search(error.message))


def explain_refusal(error: EngineRefused, container: str) -> ProviderError:
    """The error to raise for a refused create or start."""
    text = one_line(error.message)
    if refused := describe_command(text):
        return Rejected(compute.REASON_CONFIGURATION_ERROR, f"container {container}: {refused}")
    if _CAPACITY.search(text):
        return InsufficientCapacity(f"container {container} does not fit on this machine: {text}")
    if _IMAGE.search(text):
        return Rejected(compute.REASON_IMAGE_UNAVAILABLE, f"container {container}: {text}")
    if _CONFIGURATION.search(text):
        return Rejected(compute.REASON_CONFIGURATION_ERROR, f"container {container}: {text}")
    return NotReady(
        f"the container engine refuses container {container}: {text}", delay=RETRY_SECONDS
    )


def one_line(text: str) -> str:
    return " ".join(text.split())
