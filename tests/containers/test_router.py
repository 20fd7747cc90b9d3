"""Requests through the router to containers, while these are replaced, cut off and killed."""

from __future__ import annotations

import asyncio
import os
import signal
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


@pytest.mark.campaign
def test_requests_during_a_roll_a_partition_and_a_kill_fail_only_as_the_design_says(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    target = deploy(person, "--min=2")
    acts: list[tuple[str, Callable[[], object]]] = [
        ("roll", lambda: person.succeeds("restart", "hello", "--window=0s")),
        ("disconnect", lambda: person.succeeds("local", "cell", "disconnect", "DFW")),
        ("kill", lambda: kill_instance(person, "hello-default-dfw-0")),
        ("kill again", lambda: kill_instance(person, "hello-default-dfw-1")),
        ("connect", lambda: person.succeeds("local", "cell", "connect", "DFW")),
    ]
    outcomes = asyncio.run(_run(target, acts))

    failed = {
        key: number
        for key, number in Counter(_key(*each) for each in outcomes).items()
        if key[2] not in (200, 501)  # the web server does not take a POST
    }
    with capsys.disabled():
        print(f"\n{len(outcomes)} requests, failed: {failed or 'none'}")
    assert len(outcomes) >= REQUESTS
    for _, method, status, text in failed:
        if status == 0:
            # The answer had begun when the process was killed.
            assert text in ("ConnectionResetError", "IncompleteReadError")
        else:
            assert (method, status) == ("POST", 502)
            assert "closed the connection before it answered" in text


def _key(act: str, method: str, outcome: Outcome) -> tuple[str, str, int, str]:
    return act, method, outcome.status, "" if outcome.status in (200, 501) else outcome.text


async def _run(
    target: Target, acts: list[tuple[str, Callable[[], object]]]
) -> list[tuple[str, str, Outcome]]:
    """Each outcome with what was done at its end."""
    loop = asyncio.get_running_loop()
    numbers = count()
    answered = asyncio.Event()
    present = "before"
    done = False
    found: list[tuple[str, str, Outcome]] = []

    async def send(number: int) -> Outcome:
        method = "POST" if number % POST_EVERY == 0 else "GET"
        outcome = await fetch(target, method, b"x" if method == "POST" else b"")
        found.append((present, method, outcome))
        answered.set()
        return outcome

    async def act() -> None:
        nonlocal present, done
        for position, (name, perform) in enumerate(acts):
            while len(found) < REQUESTS * (position + 1) // (len(acts) + 2):
                answered.clear()
                await answered.wait()
            present = name
            await asyncio.to_thread(perform)
        done = True

    acting = loop.create_task(act())
    await run_workers(
        WORKERS,
        lambda: not (done and len(found) >= REQUESTS) and not (acting.done() and not done),
        lambda: loop.create_task(send(next(numbers))),
    )
    await acting
    return found
