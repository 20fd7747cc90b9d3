"""Whether a call that failed is worth another try, and when.

Retrying is for whoever has nothing better to do: the command line. Controllers have their
own backoff and must not retry twice, so nothing here happens by itself; whoever assembles a
client gives it a policy or does not.

- What changes nothing is tried again after a failure of the transport, 429 and 5xx; but not
  after silence, which has already used up the time.
- A write is tried again only when it surely was not done: never sent, or refused with 429.
- Retries share a **budget**: each call adds a tenth of a retry, up to a small reserve. When
  a server is down for everybody, retries stay a tenth of the load instead of multiplying it.
- The server's own ``Retry-After`` is the least we wait; if it asks for more patience than a
  person has, the error is raised at once.

Shared with the CLI's plain reader, so it imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from datum_compute.client import errors

if TYPE_CHECKING:
    from datum_compute.env import Environment

RATIO = 0.1
"""Retries per call in the long run, as Finagle's budget has it (there 20 %)."""
RESERVE = 10.0
"""Retries a client may make before it has made any calls. A guess: one outage of one command."""
TRIES = 4
"""Of one call, the first included: with the delays below, most of a second in all."""
FIRST_DELAY = 0.1
LONGEST_DELAY = 2.0
MAX_RETRY_AFTER = 10.0
"""Seconds of ``Retry-After`` that are waited for. A guess: a person watches."""


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
    """How one try of a call went wrong: by a failure, or by an answer's code."""

    failure: errors.TransportFailure | None = None
    status: int = 0
    retry_after: str = ""


class RandomSource(Protocol):
    """A random stream of the ``Environment``."""

    def uniform(self, a: float, b: float) -> float: ...


class RetryPolicy:
    """One for each client, or for several that share a budget."""

    def __init__(
        self, random: RandomSource, budget: RetryBudget | None = None, *, tries: int = TRIES
    ) -> None:
        self._random = random
        self._budget = budget or RetryBudget()
        self._tries = tries

    def record_call(self) -> None:
        """A call is made for the first time."""
        self._budget.deposit()

    def delay(self, outcome: AttemptOutcome, tried: int, *, is_read: bool) -> float | None:
        """Seconds until another try is worth it, or None. ``tried`` counts those made."""
        if tried >= self._tries or not _may_help(outcome, is_read=is_read):
            return None
        asked = errors.parse_retry_after(outcome.retry_after)
        if asked > MAX_RETRY_AFTER or not self._budget.withdraw():
            return None
        longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (tried - 1))
        return asked + self._random.uniform(longest / 2, longest)


def build_retry_policy(env: Environment) -> RetryPolicy:
    return RetryPolicy(_Stream(env))


class _Stream:
    """The stream for retries, asked for when there is one to make: chance takes time to load."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def uniform(self, a: float, b: float) -> float:
        return self._env.random("client.retry").uniform(a, b)


def _may_help(outcome: AttemptOutcome, *, is_read: bool) -> bool:
    failure = outcome.failure
    if failure is None:
        return outcome.status == 429 or (is_read and 500 <= outcome.status < 600)
    if _is_lasting(failure):
        return False
    return is_read or isinstance(failure, errors.ConnectFailed)


def _is_lasting(failure: errors.TransportFailure) -> bool:
    """Whether another try would fail alike: an untrusted certificate stays untrusted, and a
    timeout has used up the time of the call."""
    return failure.fault in (errors.Fault.CERTIFICATE_UNTRUSTED, errors.Fault.TIMED_OUT)
