"""Images on the engine: which are there, and pulls under way, one for each reference.

An image that is there is used. One without a tag, or tagged ``latest``, is looked for again for
each new Instance, and the one that is there is used where no registry answers. A pull tries the
credentials of the Instance's Secrets that match, or none. A failed one is tried again with growing
delay, and at once with other credentials.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from datum_compute.api.compute import v1alpha as compute
from datum_compute.log import get_logger
from datum_compute.providers.container.engine import (
    ContainerEngine,
    EngineRefused,
    EngineUnreachable,
)
from datum_compute.providers.container.failures import one_line
from datum_compute.providers.container.images.registry_credentials import pull_credentials
from datum_compute.providers.errors import Rejected

FIRST_RETRY_SECONDS = 10.0
LONGEST_RETRY_SECONDS = 300.0
"""As the kubelet's ImagePullBackOff."""

logger = get_logger(__name__)

PullSecret = tuple[str, bytes]
"""The description of a Secret, for messages, and what it holds."""
_Key = tuple[str, tuple[str, ...]]
"""A full reference, and the credentials to try: others may have better ones."""


@dataclass(slots=True)
class _Pull:
    task: asyncio.Task[None]
    waiting: dict[str, None]
    """Uids of the Instances to wake at its end."""


@dataclass(slots=True)
class _Failure:
    message: str
    count: int
    retry_at: float


class Images:
    """``wake`` is called with the uid of an Instance whose image may be there."""

    def __init__(self, engine: Callable[[], ContainerEngine], wake: Callable[[str], None]) -> None:
        self._engine = engine
        self._wake = wake
        self._pulls: dict[_Key, _Pull] = {}
        self._failures: dict[_Key, _Failure] = {}
        self._fresh: dict[tuple[str, str], None] = {}
        """Instances for which a moving tag has been looked for, with the reference."""

    async def ensure(self, reference: str, uid: str, secrets: Sequence[PullSecret] = ()) -> bool:
        """Whether the image can be used now; if not, it is being pulled and ``wake`` follows. One
        that is there is used by all, also without the credentials it was pulled with.

        Raises ``Rejected`` after a failed pull, until another has succeeded.
        """
        full = full_reference(reference)
        key = full, pull_credentials(full, secrets)
        # Asked first: nothing is awaited between the look for a pull under way and its start.
        present = await self._engine().image(reference) is not None
        failure = self._failures.get(key)
        if key in self._pulls:
            self._pulls[key].waiting[uid] = None
            return self._not_yet(failure)
        if present and (not is_moving(full) or (uid, full) in self._fresh):
            return True
        now = asyncio.get_running_loop().time()
        if failure is not None and now < failure.retry_at:
            if present:
                return True
            delay = failure.retry_at - now
            if secrets:
                # Nothing tells that a Secret was mended: the cell's Secrets cannot be watched.
                delay = min(delay, FIRST_RETRY_SECONDS)
            raise Rejected(compute.REASON_IMAGE_UNAVAILABLE, failure.message, delay=delay)
        task = asyncio.get_running_loop().create_task(
            self._pull(reference, key, present), name=f"pull {reference}"
        )
        self._pulls[key] = _Pull(task, {uid: None})
        return self._not_yet(failure)

    def _not_yet(self, failure: _Failure | None) -> bool:
        """A pull is under way. One that failed before stays reported until another succeeds."""
        if failure is not None:
            raise Rejected(compute.REASON_IMAGE_UNAVAILABLE, failure.message)
        return False

    def forget(self, uid: str) -> None:
        for key in [key for key in self._fresh if key[0] == uid]:
            del self._fresh[key]

    async def close(self) -> None:
        tasks = [pull.task for pull in self._pulls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pull(self, reference: str, key: _Key, present: bool) -> None:
        full, credentials = key
        cause = ""
        try:
            for each in credentials or ("",):
                try:
                    await self._engine().pull(full, each)
                except EngineRefused as error:
                    cause = one_line(str(error))
                else:
                    for past in [past for past in self._failures if past[0] == full]:
                        del self._failures[past]
                    break
            else:
                self._record_failure(reference, key, cause, present)
        except EngineUnreachable:
            pass  # says nothing about the image; the engine is asked again
        finally:
            for uid in self._pulls.pop(key).waiting:
                self._fresh[(uid, full)] = None
                self._wake(uid)

    def _record_failure(self, reference: str, key: _Key, cause: str, present: bool) -> None:
        count = self._failures[key].count + 1 if key in self._failures else 1
        delay = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(count - 1, 16))
        retry_at = asyncio.get_running_loop().time() + delay
        message = f"image {reference} cannot be pulled: {cause}"
        self._failures[key] = _Failure(message, count, retry_at)
        logger.info("image not pulled", image=reference, error=cause, used_as_it_is=present)


def full_reference(reference: str) -> str:
    """With registry and tag, as the engine's own command line completes it."""
    name, _, digest = reference.partition("@")
    first = name.split("/", 1)[0]
    if "/" not in name:
        name = f"docker.io/library/{name}"
    elif "." not in first and ":" not in first and first != "localhost":
        name = f"docker.io/{name}"
    if digest:
        return f"{name}@{digest}"
    return name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"


def is_moving(full: str) -> bool:
    """Whether a registry may hold something newer under this name."""
    return "@" not in full and full.endswith(":latest") and not full.startswith("localhost/")
