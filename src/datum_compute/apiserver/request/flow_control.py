"""What one user may hold of the server at once, in sum over all connections.

A request beyond a limit gets 429 with ``Retry-After`` and a Status that names the limit; it has
had no effect. A watch that exceeds a limit on buffers ends with 410, and its client lists again.

Exempt are health, so that a probe sees a busy server as alive, and unauthenticated requests,
which reach nothing else. No request waits for a limit, so none can wait for itself: the server's
own admission asks on behalf of another user.
"""

from __future__ import annotations

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.request.access import CONTROLLERS, MASTERS, RequestUser

SLICE_BYTES = 128 * 1024
"""Bytes of objects that are rendered before other requests go on: about 0.2 ms of plain JSON and
2 ms of a table, measured. Larger responses are counted until the client has taken them."""
RETRY_SECONDS = 1
"""After which a refused client may ask again: as kube-apiserver."""
TOTAL_BUFFER_BYTES = 256 * 2**20
"""Of all users' watches. Beyond it watches end of users who hold more than an even share. A guess:
a quarter of what a platform with 10,000 Instances uses."""


class Limits(msgspec.Struct, frozen=True):
    """What one user may hold."""

    requests: int
    """In flight: begun, and their response not ready."""
    watches: int
    """Open watches and followed logs."""
    response_bytes: int
    """Of responses that clients have not taken yet. Large ones count, with all their bytes or, of
    a list, with the slice that is being sent."""
    buffer_bytes: int
    """Of events that wait for slow watches. A change that several watches wait for has one buffer
    and is counted for each."""


ORDINARY = Limits(requests=600, watches=300, response_bytes=32 * 2**20, buffer_bytes=64 * 2**20)
"""Of every user. In flight: what kube-apiserver gives to all its clients (400 that read and 200
that write). The others are guesses: ten informers on thirty planes, and ten responses of the
largest size."""
PRIVILEGED = Limits(
    requests=6000, watches=10_000, response_bytes=128 * 2**20, buffer_bytes=192 * 2**20
)
"""Of ``system:masters`` and of the platform's controllers: one process watches every plane.
Guesses: ten times as many as ordinary users have, and less than ten times the memory."""


class Usage:
    """What one user holds now."""

    __slots__ = ("_flow", "buffer_bytes", "limits", "name", "requests", "response_bytes", "watches")

    def __init__(self, flow: FlowControl, user: RequestUser) -> None:
        self._flow = flow
        self.name = user.name
        privileged = MASTERS in user.groups or CONTROLLERS in user.groups
        self.limits = PRIVILEGED if privileged else ORDINARY
        self.requests = self.watches = self.response_bytes = self.buffer_bytes = 0

    def check_request(self) -> None:
        """Raises 429."""
        limits = self.limits
        if self.requests >= limits.requests:
            raise self._refusal(f"{limits.requests} requests in flight")
        if self.response_bytes >= limits.response_bytes:
            raise self._refusal(f"{limits.response_bytes} bytes of responses that are not read")

    def begin_request(self) -> None:
        """Raises 429."""
        self.check_request()
        self.requests += 1

    def end_request(self) -> None:
        self.requests -= 1

    def open_watch(self) -> None:
        """Raises 429."""
        if self.watches >= self.limits.watches:
            raise self._refusal(f"{self.limits.watches} open watches")
        self.watches += 1

    def close_watch(self) -> None:
        self.watches -= 1

    def buffer(self, count: int) -> bool:
        """Count bytes of a watch's buffer, negative to give them back. False when there are now
        too many: the watch must end, and give its own back."""
        flow = self._flow
        self.buffer_bytes += count
        flow.buffer_bytes += count
        if self.buffer_bytes > self.limits.buffer_bytes:
            return False
        return flow.buffer_bytes <= TOTAL_BUFFER_BYTES or not flow.is_above_share(self)

    def _refusal(self, what: str) -> errors.ApiError:
        return errors.too_many_requests(f'user "{self.name}" has {what}', RETRY_SECONDS)


class FlowControl:
    """The usage of every user."""

    def __init__(self) -> None:
        self.buffer_bytes = 0
        self._users: dict[str, Usage] = {}

    def of(self, user: RequestUser) -> Usage:
        found = self._users.get(user.name)
        if found is None:
            found = self._users[user.name] = Usage(self, user)
        return found

    def is_above_share(self, usage: Usage) -> bool:
        holders = sum(1 for each in self._users.values() if each.buffer_bytes)
        return usage.buffer_bytes * holders > TOTAL_BUFFER_BYTES
