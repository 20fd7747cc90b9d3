"""The errors of a provider, by what the frame does next.

::

    ProviderError
    ├── NotReady              not yet: called again after ``delay`` seconds; reported where that
    │                         is long and the Instance was never programmed
    ├── InsufficientCapacity  no room: reported, and called again after ``delay`` seconds
    └── Rejected              this Instance cannot run as it is: reported, and not called
                              again until the Instance changes or ``delay`` seconds are over

Anything else a provider raises is a fault of the provider or of what it talks to: it is
logged, counted and retried with growing delay, and the last report stays as it is.
"""

from __future__ import annotations


class ProviderError(Exception):
    """Anything a provider raises on purpose."""


class BuildFailed(Exception):
    """An image cannot be built; the message says why. Not an error of a running provider."""


class NotReady(ProviderError):
    """Something the provider needs, or a teardown under way, is not done yet.

    The caller calls again after ``delay`` seconds, and the last report stays. Of an Instance that
    was never programmed it reports the message, unless the delay is short.
    """

    def __init__(self, message: str, *, delay: float = 1.0) -> None:
        super().__init__(message)
        self.delay = delay


class InsufficientCapacity(ProviderError):
    """The site has no room for this Instance.

    The caller reports ``Programmed`` and ``Available`` False with reason
    ``InsufficientCapacity`` and this message, and calls again after ``delay`` seconds.
    """

    def __init__(self, message: str, *, delay: float = 30.0) -> None:
        super().__init__(message)
        self.delay = delay


class Rejected(ProviderError):
    """The Instance as written cannot run.

    The caller reports ``Programmed`` and ``Available`` False with this reason and message,
    and does not call again until the Instance changes; with a ``delay``, after that many seconds
    at the latest: an image may be pushed later.
    """

    def __init__(self, reason: str, message: str, *, delay: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.delay = delay
