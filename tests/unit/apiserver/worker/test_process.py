"""The worker process: its limits, and what happens when it ends."""

from __future__ import annotations

import asyncio
import os
import signal

import msgspec
import pytest

from datum_compute.apiserver import codec
from datum_compute.apiserver.worker.process import WAITING_PER_USER, WorkerProcess
from datum_compute.client.transport import HttpRequest
from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, widget, widget_server
from tests.support.apiserver.workers import CountingWorker, worker_pid

pytestmark = pytest.mark.realtime


def large(name: str) -> bytes:
    return msgspec.json.encode(widget(name)) + b" " * (codec.BYTES_PER_VALUE * codec.MAX_VALUES)


def wait_ended(pid: int) -> None:
    """It stays a zombie: the server notices by itself."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def create(caller: Caller, name: str) -> int:
    return (await caller.send("POST", WIDGETS_PATH, large(name))).status


async def test_the_process_is_started_again_after_it_was_killed() -> None:
    async with widget_server(worker=WorkerProcess()) as caller:
        assert await create(caller, "one") == 201
        first = worker_pid()

        os.kill(first, signal.SIGKILL)
        wait_ended(first)

        assert await create(caller, "two") == 201
        assert worker_pid() != first


async def test_a_request_whose_process_is_killed_changes_nothing() -> None:
    async with widget_server(worker=WorkerProcess()) as caller:
        assert await create(caller, "one") == 201
        os.kill(worker_pid(), signal.SIGSTOP)
        request = asyncio.ensure_future(caller.call("POST", WIDGETS_PATH, large("two")))
        for _ in range(100):  # until it has gone to the process, which cannot answer
            await asyncio.sleep(0)

        os.kill(worker_pid(), signal.SIGKILL)
        code, answer = await request

        assert (code, answer["reason"]) == (500, "InternalError")
        assert answer["message"].endswith("large requests failed; nothing was changed")
        assert not await caller.exists("two")
        assert await create(caller, "two") == 201


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"deadline_seconds": 0.0}, "more than 0 s to process"),
        ({"cpu_seconds": 1e-6}, "more than 1e-06 s of CPU time"),
    ],
)
async def test_a_request_that_takes_too_long_is_ended_and_others_go_on(
    limits: dict[str, float], found: str
) -> None:
    async with widget_server(worker=WorkerProcess(**limits)) as caller:
        long = widget("one", {"tags": ["x"] * 400_000})
        code, answer = await caller.call("POST", WIDGETS_PATH, long)

        assert (code, answer["reason"]) == (504, "Timeout")
        assert answer["message"] == f"the request takes {found}; nothing was changed"
        assert not await caller.exists("one")
        assert (await caller.create("one"))["metadata"]["name"] == "one"


async def test_a_user_with_too_many_large_requests_is_refused_and_others_take_turns() -> None:
    worker = CountingWorker()
    async with widget_server(worker=worker) as caller:
        other = Caller(caller.embedded, "cell/dfw", "other")
        finished: list[str] = []

        async def create_as(sender: Caller, name: str) -> int:
            code = await create(sender, name)
            finished.append(name)
            return code

        many = [
            asyncio.ensure_future(create_as(caller, f"w{index}"))
            for index in range(WAITING_PER_USER + 2)
        ]
        single = asyncio.ensure_future(create_as(other, "single"))
        codes = await asyncio.gather(*many)
        refused = await caller.send("POST", WIDGETS_PATH, large("again"))

        assert await single == 201
        assert codes.count(429) == 2
        assert codes.count(201) == WAITING_PER_USER
        served = [name for name in finished if name == "single" or codes[int(name[1:])] == 201]
        assert served.index("single") <= 2
        assert refused.status == 201


async def test_a_refused_user_gets_a_time_to_come_back() -> None:
    async with widget_server(worker=WorkerProcess()) as caller:
        sent = [
            asyncio.ensure_future(caller.send("POST", WIDGETS_PATH, large(f"w{index}")))
            for index in range(WAITING_PER_USER + 1)
        ]
        responses = await asyncio.gather(*sent)

        (refused,) = [each for each in responses if each.status == 429]
        assert refused.headers["retry-after"] == "1"
        assert b"16 large requests waiting" in refused.body


async def test_the_work_for_a_client_that_has_gone_is_not_begun() -> None:
    worker = CountingWorker()
    async with widget_server(worker=worker) as caller:
        headers = {"authorization": f"Bearer {caller.embedded.token()}"}
        path = f"/clusters/dfw{WIDGETS_PATH}"
        request = HttpRequest("POST", path, (), headers, large("one"), is_wanted=lambda: False)

        with pytest.raises(asyncio.CancelledError):
            await caller.embedded.server.handle(request)

        assert worker.completed == 0
        assert not await caller.exists("one")


async def test_the_process_ends_with_the_server() -> None:
    async with widget_server(worker=WorkerProcess()) as caller:
        await create(caller, "one")
        pid = worker_pid()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
