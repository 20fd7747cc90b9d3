"""Requests through the router to containers, while these are replaced, cut off and killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.http_load import Outcome, Target, fetch, run_workers
from datum_compute.providers.container import host
from datum_compute.providers.sandbox import LABEL_NAME
from tests.support.cli.container_platform import Person, wait_until

pytestmark = pytest.mark.containers

REQUESTS = 10_000
POST_EVERY = 10
WORKERS = 8
SLEEP_SECONDS = 2
"""After the last connection, which the router keeps for a second more."""
DOZES = 20
DOZE_STEP_SECONDS = 0.1


@pytest.fixture
def person(engine: str, state: Path) -> Iterator[Person]:
    found = Person(engine, state)
    try:
        found.starts()
        yield found
    finally:
        found.types("local", "reset", "--yes")


def deploy(person: Person, *words: str) -> Target:
    """The sample's web server, and where it is served."""
    image = f"--image={host.BUSYBOX_IMAGE}"
    shown = person.succeeds(
        "deploy", "hello", image, "--city=DFW,LHR", "--http-port=80", "--yes", *words
    )
    url = shown.splitlines()[-1]
    assert person.succeeds("open", "hello").strip() == url
    found = urlsplit(url)
    assert found.port is not None
    return Target("127.0.0.1", found.port, found.netloc)


def get(target: Target) -> Outcome:
    return asyncio.run(fetch(target))


def kill_instance(person: Person, name: str) -> None:
    """Its process, as a fault of the program would end it."""
    [found] = [each for each in person.containers() if each["Labels"][LABEL_NAME] == name]
    os.kill(person.process_of(str(found["Id"])), signal.SIGKILL)


def test_the_last_line_of_a_deploy_is_a_url_that_answers(person: Person) -> None:
    target = deploy(person)
    assert get(target).text.strip() == "hello from hello-default-dfw-0"
    lhr = Target(target.address, target.port, f"lhr.{target.host}")
    assert get(lhr).text.strip() == "hello from hello-default-lhr-0"

    person.succeeds("local", "cell", "disconnect", "DFW")
    kill_instance(person, "hello-default-dfw-0")
    found = get(target)
    assert found.status == 200
    assert "hello from hello-default-" in found.text
    person.succeeds("stop", "hello", "--city", "LHR")
    wait_until(lambda: get(lhr).status == 503, "a stopped city is served")
    assert "No instance of hello is available (LHR: 0 of 1)" in get(lhr).text


LAZY = "if test -e /slept; then while :; do sleep 1; done; fi; echo > /slept; exec httpd -f -p 80"
"""Serves at its first start alone."""


def test_a_waking_that_fails_is_answered_and_reported(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "hello.yaml"
    words = ["--command=/bin/sh", "--arg=-c", f"--arg={LAZY}", "--sleep-after=1s", f"--save={file}"]
    image = f"--image={host.BUSYBOX_IMAGE}"
    person.succeeds("deploy", "hello", image, "--city=DFW", "--http-port=80", *words, "--yes")
    slept = "compute.datumapis.com/sleep-after: 1s"
    deadline = "compute.datumapis.com/wake-deadline: 3s"
    text = file.read_text()
    indent = " " * (text.index(slept) - text.rindex("\n", 0, text.index(slept)) - 1)
    file.write_text(text.replace(slept, f"{slept}\n{indent}{deadline}"))
    url = urlsplit(person.succeeds("deploy", "-f", str(file), "--yes").splitlines()[-1])
    assert url.port is not None

    def stopped() -> bool:
        return {each["State"] for each in person.containers()} == {"exited"}

    wait_until(stopped, "it is not stopped after ten times its idle time")
    answer = asyncio.run(_answer(Target("127.0.0.1", url.port, url.netloc)))

    assert answer.startswith("HTTP/1.1 503 ")
    assert "retry-after: 1" in answer.lower()
    assert "closed the connection before it answered" in answer
    reported = "WakeFailed: a connection has waited for 3s: port 80 does not accept connections"
    wait_until(lambda: any(reported in each for each in warnings(person)), "no Event tells")
    [instance] = person.instances()
    assert instance["status"] == "Failed (does not wake)"


async def _answer(target: Target) -> str:
    reader, writer = await asyncio.open_connection(target.address, target.port)
    writer.write(f"GET / HTTP/1.1\r\nhost: {target.host}\r\nconnection: close\r\n\r\n".encode())
    try:
        async with asyncio.timeout(20):
            return (await reader.read()).decode()
    finally:
        writer.close()


class Traffic:
    """Requests by some workers, which can be held back."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._flows = asyncio.Event()
        self._flows.set()
        self._numbers = count()
        self._answered = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.act = "before"
        self.outcomes: list[tuple[str, str, Outcome]] = []
        """Each with what was done at its end, and its method."""

    def hold(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.clear)

    def resume(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.set)

    async def send(self) -> Outcome:
        await self._flows.wait()
        method = "POST" if next(self._numbers) % POST_EVERY == 0 else "GET"
        outcome = await fetch(self._target, method, b"x" if method == "POST" else b"")
        self.outcomes.append((self.act, method, outcome))
        self._answered.set()
        return outcome

    async def wait_for(self, number: int) -> None:
        while len(self.outcomes) < number:
            self._answered.clear()
            await self._answered.wait()


def let_sleep(person: Person, traffic: Traffic) -> None:
    """Until all of them do; the requests that come then find none awake."""
    traffic.hold()
    try:
        wait_until(
            lambda: {each["status"] for each in person.instances()} == {"Asleep"},
            "an instance without requests does not sleep",
        )
    finally:
        traffic.resume()


def let_doze(traffic: Traffic) -> None:
    """Requests that come in the moment in which instances are paused."""
    for number in range(DOZES):
        traffic.hold()
        time.sleep(SLEEP_SECONDS + number * DOZE_STEP_SECONDS)
        traffic.resume()
        time.sleep(0.1)


def warnings(person: Person) -> list[str]:
    """What Events of the instances warn of, such as a waking that failed."""
    found = []
    for instance in person.instances():
        shown = person.succeeds("instances", "describe", instance["name"], "-o", "json")
        for event in json.loads(shown)["events"]:
            if event["type"] == "Warning":
                found.append(f"{instance['name']}: {event['reason']}: {event['message']}")
    return found


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_requests_while_everything_changes_fail_only_as_the_design_says(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    """A roll, sleep and waking, a partition and kills, of instances that may sleep."""
    target = deploy(person, "--min=2", f"--sleep-after={SLEEP_SECONDS}s")
    acts: list[tuple[str, Callable[[Traffic], object]]] = [
        ("roll", lambda _: person.succeeds("restart", "hello", "--window=0s")),
        ("sleep and wake", lambda traffic: let_sleep(person, traffic)),
        ("doze", let_doze),
        ("disconnect", lambda _: person.succeeds("local", "cell", "disconnect", "DFW")),
        ("kill", lambda _: kill_instance(person, "hello-default-dfw-0")),
        ("kill again", lambda _: kill_instance(person, "hello-default-dfw-1")),
        ("connect", lambda _: person.succeeds("local", "cell", "connect", "DFW")),
    ]
    outcomes = asyncio.run(_run(target, acts))

    failed = {
        key: number
        for key, number in Counter(_key(*each) for each in outcomes).items()
        if key[2] not in (200, 501)  # the web server does not take a POST
    }
    slowest = {
        name: max(each[2].seconds for each in outcomes if each[0] == name) for name, _ in acts
    }
    with capsys.disabled():
        print(f"\n{len(outcomes)} requests; the slowest of each act, in seconds:")
        print(", ".join(f"{name} {seconds:.2f}" for name, seconds in slowest.items()))
        print("failed:", "none" if not failed else "")
        for (act, method, status, text), number in failed.items():
            print(f"  {number} {method} during {act}: {status} {text.strip()}")
        print("warnings:", warnings(person) or "none")
    assert len(outcomes) >= REQUESTS
    for act, method, status, text in failed:
        assert act not in ("before", "sleep and wake", "doze", "disconnect"), "a request is lost"
        if status == 0:
            # The answer had begun when the process was killed.
            assert text in ("ConnectionResetError", "IncompleteReadError")
        else:
            assert (method, status) == ("POST", 502)
            assert "closed the connection before it answered" in text


def _key(act: str, method: str, outcome: Outcome) -> tuple[str, str, int, str]:
    return act, method, outcome.status, "" if outcome.status in (200, 501) else outcome.text


async def _run(
    target: Target, acts: list[tuple[str, Callable[[Traffic], object]]]
) -> list[tuple[str, str, Outcome]]:
    loop = asyncio.get_running_loop()
    traffic = Traffic(target)
    done = False

    async def act() -> None:
        nonlocal done
        for position, (name, perform) in enumerate(acts):
            await traffic.wait_for(REQUESTS * (position + 1) // (len(acts) + 2))
            traffic.act = name
            await asyncio.to_thread(perform, traffic)
        done = True

    acting = loop.create_task(act())
    await run_workers(
        WORKERS,
        lambda: (
            not (done and len(traffic.outcomes) >= REQUESTS) and not (acting.done() and not done)
        ),
        lambda: loop.create_task(traffic.send()),
    )
    await acting
    return traffic.outcomes
