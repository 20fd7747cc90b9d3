"""Which calls are retried, how often, and when."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.http.faults import fault_of
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import json_patch, merge
from datum_compute.client.retry import (
    FIRST_DELAY,
    LONGEST_DELAY,
    MAX_RETRY_AFTER,
    RATIO,
    RESERVE,
    TRIES,
    AttemptOutcome,
    RetryBudget,
    RetryPolicy,
    build_retry_policy,
)
from datum_compute.client.retry_transport import RetryingTransport
from datum_compute.client.transport import HttpRequest, HttpResponse, ServerGone, Transport
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.client.scripted_server import (
    REALMS,
    WIDGET,
    WIDGETS,
    ScriptedHttp,
    ScriptedServer,
    ScriptedStream,
    answer,
    ask,
    refusal,
)
from tests.support.client.socket_server import ServedConnection

READ = HttpRequest("GET", "/x")
NOT_SENT, LOST = ServerGone(accepted=False), ServerGone(accepted=True)
GOOD = answer(WIDGET)
THROTTLED = answer(refusal(429, "TooManyRequests"), 429, **{"retry-after": "3"})


class Script:
    """A server that fails in the given ways, one per request, and then responds."""

    def __init__(self, *steps: HttpResponse | Exception) -> None:
        self._steps = list(steps)
        self.times: list[float] = []

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        self.times.append(asyncio.get_running_loop().time())
        step = self._steps.pop(0) if self._steps else GOOD
        if isinstance(step, Exception):
            raise step
        return step

    def transport(self, policy: RetryPolicy | None = None) -> Transport:
        policy = policy or build_retry_policy(SimulatedEnvironment())
        return RetryingTransport(InProcessTransport(self), policy)

    def client(self, **options: Any) -> ApiClient:
        return ApiClient(self.transport(), cluster="toy", **options)


@pytest.mark.parametrize(
    "trouble",
    [NOT_SENT, LOST, *(HttpResponse(code) for code in (429, 500, 502, 503, 504))],
    ids=lambda trouble: str(getattr(trouble, "status", getattr(trouble, "accepted", ""))),
)
async def test_a_read_is_retried(trouble: Any) -> None:
    script = Script(trouble, trouble)

    assert (await script.client().get(REALMS, "one")).name == "one"

    assert len(script.times) == 3


@pytest.mark.parametrize("code", [200, 301, 400, 401, 403, 404, 409, 410, 422])
async def test_other_responses_are_not_retried(code: int) -> None:
    script = Script(HttpResponse(code))

    assert (await script.transport().send(READ, timeout=30)).status == code

    assert len(script.times) == 1


Write = Callable[[ApiClient], Any]

WRITES: dict[str, Write] = {
    "create": lambda client: client.create(REALMS, {"metadata": {"name": "one"}}),
    "update": lambda client: client.update(REALMS, WIDGET),
    "merge": lambda client: client.patch(REALMS, "one", merge({})),
    "json": lambda client: client.patch(REALMS, "one", json_patch([])),
    "delete": lambda client: client.delete(REALMS, "one"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("trouble", [LOST, HttpResponse(500), HttpResponse(503)])
async def test_a_write_that_may_have_happened_is_never_retried(write: Write, trouble: Any) -> None:
    script = Script(trouble)

    with pytest.raises(errors.ClientError):
        await write(script.client())

    assert len(script.times) == 1


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("trouble", [NOT_SENT, THROTTLED])
async def test_a_write_that_had_no_effect_is_retried(write: Write, trouble: Any) -> None:
    script = Script(trouble)

    await write(script.client())

    assert len(script.times) == 2


async def test_the_last_failure_is_raised() -> None:
    script = Script(*[LOST] * 9)

    with pytest.raises(errors.Disconnected):
        await script.client().get(REALMS, "one")

    assert len(script.times) == TRIES


async def test_retry_delays_grow_and_have_jitter() -> None:
    script, other = Script(*[LOST] * 3), Script(*[LOST] * 3)

    await script.client().get(REALMS, "one")
    started = asyncio.get_running_loop().time()
    policy = build_retry_policy(SimulatedEnvironment(seed=1))
    await other.transport(policy).send(READ, timeout=30)

    waits = [b - a for a, b in zip(script.times, script.times[1:], strict=False)]
    for number, wait in enumerate(waits):
        assert FIRST_DELAY * 2**number / 2 <= wait <= FIRST_DELAY * 2**number
    assert other.times[1] - started != waits[0]


async def test_retry_after_is_the_minimum_delay() -> None:
    script = Script(THROTTLED)

    await script.client().get(REALMS, "one")

    assert 3 < script.times[1] - script.times[0] <= 3 + FIRST_DELAY


async def test_a_retry_after_beyond_the_limit_is_not_waited_for() -> None:
    long = answer(refusal(429, "Busy"), 429, **{"retry-after": str(int(MAX_RETRY_AFTER) + 1)})
    script = Script(long)

    with pytest.raises(errors.Throttled) as caught:
        await script.client().get(REALMS, "one")

    assert caught.value.retry_after == MAX_RETRY_AFTER + 1
    assert len(script.times) == 1


async def test_the_deadline_holds_for_all_attempts() -> None:
    loop = asyncio.get_running_loop()
    script = Script(THROTTLED, THROTTLED, THROTTLED)
    started = loop.time()

    with pytest.raises(errors.Throttled):
        await script.client(request_timeout=5).get(REALMS, "one")

    assert len(script.times) == 2
    assert loop.time() - started < 5


@pytest.mark.realtime
async def test_the_reader_does_not_retry_a_timeout() -> None:
    requests = 0

    async def silent(connection: ServedConnection) -> None:
        nonlocal requests
        await connection.request()
        requests += 1
        await connection.client_left()

    with pytest.raises(errors.TimedOut):
        await ask(
            silent,
            lambda reader: reader.get(WIDGETS, "one", "default"),
            timeout=0.1,
            retries=build_retry_policy(SimulatedEnvironment()),
        )

    assert requests == 1


async def test_a_request_without_a_response_is_not_retried() -> None:
    calls = 0

    async def silent(request: HttpRequest) -> HttpResponse:
        nonlocal calls
        calls += 1
        await asyncio.Event().wait()
        raise AssertionError

    policy = build_retry_policy(SimulatedEnvironment())
    with pytest.raises(errors.TimedOut):
        await RetryingTransport(InProcessTransport(silent), policy).send(READ, timeout=7)

    assert calls == 1


async def test_a_refused_stream_is_closed_before_the_next_try() -> None:
    stream = ScriptedStream([b"busy"])
    script = Script(HttpResponse(503, {}, stream=stream))

    await script.transport().send(READ, timeout=30)

    assert stream.closed


async def test_an_open_stream_passes_through_unread() -> None:
    stream = ScriptedStream([b"event"])
    script = Script(HttpResponse(200, {}, stream=stream))

    watch = HttpRequest("GET", "/x", (("watch", "true"),))
    response = await script.transport().send(watch, timeout=30)

    assert response.stream is not None
    assert [chunk async for chunk in response.stream] == [b"event"]


async def test_a_closed_transport_does_not_retry() -> None:
    script = Script()
    transport = script.transport()
    started = asyncio.get_running_loop().time()
    await transport.close()

    with pytest.raises(errors.ConnectFailed):
        await transport.send(READ, timeout=30)

    assert asyncio.get_running_loop().time() == started


async def test_a_cancelled_wait_ends() -> None:
    task = asyncio.ensure_future(Script(THROTTLED).client().get(REALMS, "one"))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()


async def test_without_a_policy_nothing_is_retried() -> None:
    toy = ScriptedServer(HttpResponse(503))

    with pytest.raises(errors.Unavailable):
        await toy.client().get(REALMS, "one")

    assert len(toy.requests) == 1


async def test_during_an_outage_retries_stay_a_tenth_of_the_calls() -> None:
    script = Script(*[LOST] * 10_000)
    transport = script.transport()
    calls = 500

    for _ in range(calls):
        with pytest.raises(errors.Disconnected):
            await transport.send(READ, timeout=30)

    retries = len(script.times) - calls
    assert RESERVE <= retries <= RESERVE + calls * RATIO


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), max_size=400))
def test_the_budget_is_never_overdrawn(steps: list[bool]) -> None:
    """True is a call, False a retry if the budget allows."""
    budget = RetryBudget()
    granted = 0
    for is_call in steps:
        if is_call:
            budget.deposit()
        else:
            granted += budget.withdraw()

    assert granted <= RESERVE + steps.count(True) * RATIO


def test_success_fills_the_budget_only_to_its_reserve() -> None:
    budget = RetryBudget()

    for _ in range(10_000):
        budget.deposit()

    assert sum(budget.withdraw() for _ in range(1000)) == RESERVE


def test_a_retry_delay_has_a_maximum() -> None:
    policy = RetryPolicy(SimulatedEnvironment().random("x"), tries=50)

    for tried in range(1, 10):
        delay = policy.delay(AttemptOutcome(status=503), tried, is_read=True)
        assert delay is not None
        assert delay <= LONGEST_DELAY


@pytest.mark.parametrize("kind", [errors.ConnectFailed, errors.TimedOut])
def test_a_timeout_is_not_retried(kind: type[errors.TransportFailure]) -> None:
    """Nor a connect that times out: the reader would wait four times its timeout."""
    silent = kind("no answer", fault=fault_of(TimeoutError()))

    assert (
        build_retry_policy(SimulatedEnvironment()).delay(AttemptOutcome(silent), 1, is_read=True)
        is None
    )


def test_a_certificate_failure_is_not_retried() -> None:
    cause = OSError()
    cause.__cause__ = ssl.SSLCertVerificationError(1, "unknown authority")
    distrusted = errors.ConnectFailed("no", fault=fault_of(cause))
    policy = build_retry_policy(SimulatedEnvironment())

    assert policy.delay(AttemptOutcome(distrusted), 1, is_read=True) is None
    assert (
        policy.delay(AttemptOutcome(errors.ConnectFailed("refused")), 1, is_read=True) is not None
    )


@pytest.mark.realtime
async def test_the_reader_retries_too() -> None:
    answers = iter(
        [
            (b"busy", "503 Unavailable"),
            (refusal(429, "Busy"), "429 Too Many", "Retry-After: 2"),
            (WIDGET,),
        ]
    )
    waits: list[float] = []

    found = await ask(
        ScriptedHttp(lambda head: next(answers)),
        lambda reader: reader.get(WIDGETS, "one", "default"),
        retries=build_retry_policy(SimulatedEnvironment()),
        pause=waits.append,
    )

    assert found == WIDGET
    assert FIRST_DELAY / 2 <= waits[0] <= FIRST_DELAY
    assert 2 < waits[1] <= 2 + FIRST_DELAY * 2


@pytest.mark.realtime
async def test_the_reader_survives_a_broken_connection() -> None:
    broken = True

    async def script(connection: ServedConnection) -> None:
        nonlocal broken
        toy = ScriptedHttp(lambda head: (WIDGET,))
        if broken:
            broken = False
            await connection.request()
            return
        await toy(connection)

    found = await ask(
        script,
        lambda reader: reader.get(WIDGETS, "one", "default"),
        retries=build_retry_policy(SimulatedEnvironment()),
    )

    assert found == WIDGET


@pytest.mark.realtime
async def test_the_reader_raises_the_last_failure() -> None:
    toy = ScriptedHttp(lambda head: (b"busy", "503 Unavailable"))

    with pytest.raises(errors.Unavailable):
        await ask(
            toy,
            lambda reader: reader.get(WIDGETS, "one", "default"),
            retries=build_retry_policy(SimulatedEnvironment()),
            pause=lambda seconds: None,
        )

    assert len(toy.heads) == TRIES


@pytest.mark.realtime
async def test_without_a_policy_the_reader_tries_once() -> None:
    toy = ScriptedHttp(lambda head: (b"busy", "503 Unavailable"))

    with pytest.raises(errors.Unavailable):
        await ask(toy, lambda reader: reader.get(WIDGETS, "one", "default"))

    assert len(toy.heads) == 1
