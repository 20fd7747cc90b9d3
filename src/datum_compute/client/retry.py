"""Whether and when a failed call is retried.

Only the command line retries. Controllers have their own backoff and must not retry twice,
so a client retries only if it was given a policy.

- Reads are retried after a transport failure, 429 and 5xx; not after a timeout, which has
  used up the time of the call.
- Writes are retried only when they surely had no effect: never sent, or refused with 429.
- Retries share a **budget**: each call adds a tenth of a retry, up to a small reserve. While
  a server is down, retries stay a tenth of the load instead of multiplying it.
- ``Retry-After`` is the minimum delay; above a limit the error is raised at once.

Shared with the CLI's plain reader, so it imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from datum_compute.client import errors

if TYPE_CHECKING:
    from datum_compute.env import Environment

RATIO = 0.1
"""Retries per call in the long run, as in Finagle's retry budget (there 20 %)."""
RESERVE = 10.0
"""Retries available before any call was made. A guess: one outage of one command."""
TRIES = 4
"""Attempts of one call, the first included: with the delays below, most of a second."""
FIRST_DELAY = 0.1
LONGEST_DELAY = 2.0
MAX_RETRY_AFTER = 10.0
"""The longest ``Retry-After`` in seconds that is waited for. A guess: a person watches."""


class RetryBudget:
    """How many retries a client may still make."""

    def __init__(self, *, ratio: float = RATIO, reserve: float = RESERVE) -> None:
        self._ratio = ratio
        self._reserve = reserve
        self._balance = reserve

    def deposit(self) -> None:
        """A call was made."""
        self._balance = min(self._reserve, self._balance + self._ratio)

    def withdraw(self) -> bool:
        """Take one retry, if there is one."""
        if self._balance < 1.0:
            return False
        self._balance -= 1.0
        return True


class AttemptOutcome(NamedTuple):
    """How one attempt failed: by a transport failure, or by a status code."""

    failure: errors.TransportFailure | None = None
    status: int = 0
    retry_after: str = ""


class RandomSource(Protocol):
    """A random stream of the ``Environment``."""

    def uniform(self, a: float, b: float) -> float: ...


class RetryPolicy:
    """For one client, or for several that share a budget."""

    def __init__(
        self, random: RandomSource, budget: RetryBudget | None = None, *, tries: int = TRIES
    ) -> None:
        self._random = random
        self._budget = budget or RetryBudget()
        self._tries = tries

    def record_call(self) -> None:
        """A call makes its first attempt."""
        self._budget.deposit()

    def delay(self, outcome: AttemptOutcome, tried: int, *, is_read: bool) -> float | None:
        """Seconds before the next attempt, or None for no more. ``tried`` counts those made."""
        if tried >= self._tries or not _is_retryable(outcome, is_read=is_read):
            return None
        minimum = errors.parse_retry_after(outcome.retry_after)
        if minimum > MAX_RETRY_AFTER or not self._budget.withdraw():
            return None
        longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (tried - 1))
        return minimum + self._random.uniform(longest / 2, longest)


def build_retry_policy(env: Environment) -> RetryPolicy:
    return RetryPolicy(_Stream(env))


class _Stream:
    """The random stream for retries, opened at the first one: ``random`` takes time to import."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def uniform(self, a: float, b: float) -> float:
        return self._env.random("client.retry").uniform(a, b)


def _is_retryable(outcome: AttemptOutcome, *, is_read: bool) -> bool:
    failure = outcome.failure
    if failure is None:
        return outcome.status == 429 or (is_read and 500 <= outcome.status < 600)
    if _is_lasting(failure):
        return False
    return is_read or isinstance(failure, errors.ConnectFailed)


def _is_lasting(failure: errors.TransportFailure) -> bool:
    """Whether a retry would fail alike: an untrusted certificate stays untrusted, and a
    timeout has used up the time of the call."""
    return failure.fault in (errors.Fault.CERTIFICATE_UNTRUSTED, errors.Fault.TIMED_OUT)
