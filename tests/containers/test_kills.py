"""The platform and the engine are killed at random moments of a rollout, and it ends right."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import struct
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from datum_compute.env import SystemEnvironment
from datum_compute.providers.container import sockets
from tests.support.cli.container_platform import (
    IMAGES,
    Person,
    answer,
    load_images,
    wait_until,
)

pytestmark = [pytest.mark.containers, pytest.mark.campaign]

WANTED = 4
CITIES = 2
LONGEST_WAIT = 5.0
"""A rollout of four Instances takes about this long."""


def serving_process(engine: str) -> int:
    """The process that serves the engine's API on the socket that the platform uses."""
    path = asyncio.run(sockets.find_socket(SystemEnvironment(), engine))
    assert path is not None, f"{engine} does not answer"
    with socket.socket(socket.AF_UNIX) as opened:
        opened.connect(path)
        found = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", found)[0])


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for file in found for each in file.read_text().split()]


def engine_answers(engine: str) -> bool:
    return asyncio.run(sockets.find_socket(SystemEnvironment(), engine)) is not None


def kill_engine(engine: str) -> list[str]:
    """Its arguments. dockerd has ended with its containerd: while one of them is in the list of
    processes, also as a zombie, the next dockerd takes it for running and gives up."""
    pid = serving_process(engine)
    words = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    ending = [pid, *(children(pid) if engine == "docker" else [])]
    os.kill(pid, signal.SIGKILL)
    if engine == "docker":
        wait_until(
            lambda: not any(Path(f"/proc/{each}").exists() for each in ending),
            f"of {words} and its children {ending} some have not ended",
        )
    return words


def start_engine(engine: str, words: list[str], log: Path) -> None:
    """The platform starts podman's service by itself. Nor does dockerd become a child of this
    process, which would have to wait for its end."""
    if engine != "podman":
        with log.open("a") as output:
            subprocess.run(["setsid", "--fork", *words], stdout=output, stderr=output, check=True)


def starts(person: Person) -> bool:
    done = person.types(*person.start_words)
    if done.returncode:
        print(done.stderr)
    return done.returncode == 0


def answers(address: str) -> bool:
    try:
        return answer(address).startswith("hello from")
    except OSError:
        return False


def is_done(person: Person, image: str) -> bool:
    """Each Instance is available and runs the image, once."""
    found = person.instances()
    containers = person.containers()
    return (
        len(found) == len(containers) == WANTED
        and all(each["status"] == "Available" for each in found)
        and {(each["Image"], each["State"]) for each in containers} == {(image, "running")}
        and len({each["Names"][0] for each in containers}) == WANTED
        and all(answers(each["externalIP"]) for each in found)
    )


def test_a_rollout_survives_kills_at_random_moments(
    engine: str, state: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--seed") or random.SystemRandom().randrange(10**6)
    rounds = request.config.getoption("--rounds")
    print(f"--seed={seed}")
    chance = random.Random(seed)
    load_images(engine)
    person = Person(engine, state)
    engine_log = state.parent / "engine.log"
    try:
        person.starts()
        deploy = ("deploy", "hello", "--city=DFW,LHR", "--min=2", "--port=80", "--yes")
        person.succeeds(*deploy, f"--image={IMAGES[0]}")
        for number in range(1, rounds + 1):
            image = IMAGES[number % 2]
            killed = chance.choice((("platform",), ("engine",), ("platform", "engine")))
            moment = f"seed {seed}, round {number}, {' and '.join(killed)}"
            addresses = [each["externalIP"] for each in person.instances()]
            person.succeeds(*deploy, f"--image={image}", "--no-wait")
            time.sleep(chance.uniform(0.0, LONGEST_WAIT))  # the moment is what is tested
            if "platform" in killed:
                person.kill_platform()
            words = kill_engine(engine) if "engine" in killed else []
            if engine == "podman":
                # One in each city may be in the middle of its replacement.
                silent = [address for address in addresses if not answers(address)]
                assert len(silent) <= CITIES, f"{moment}: {silent} do not answer"
            if words:
                start_engine(engine, words, engine_log)
            if "platform" in killed:
                wait_until(partial(starts, person), f"{moment}: the platform does not start")
            wait_until(partial(engine_answers, engine), f"{moment}: the engine does not start")
            try:
                wait_until(partial(is_done, person, image), f"{moment}: it does not end right", 180)
            except AssertionError:
                for asked in (("instances",), ("why", "hello")):
                    print(person.types(*asked).stdout)
                for each in person.containers():
                    print(each["Names"], each["Image"], each["State"], each["Status"])
                for log in state.parent.rglob("*.log"):
                    print(*log.read_text().splitlines()[-100:], sep="\n")
                raise
        person.succeeds("destroy", "hello", "--yes")
        assert person.containers() == []
        wait_until(lambda: person.networks() == [], "a network is left")
    finally:
        person.types("local", "reset", "--yes")


@pytest.mark.parametrize("rest", ["paused", "exited"])
def test_what_sleeps_goes_on_sleeping_over_a_kill_of_everything_and_wakes(
    engine: str, state: Path, rest: str
) -> None:
    load_images(engine)
    person = Person(engine, state)

    def found() -> tuple[set[str], set[str]]:
        statuses = {str(each["status"]) for each in person.instances()}
        return statuses, {str(each["State"]) for each in person.containers()}

    try:
        person.starts()
        words = ("--city=DFW,LHR", "--http-port=80", "--sleep-after=5s", "--yes")
        person.succeeds("deploy", "hello", f"--image={IMAGES[0]}", *words)
        wait_until(lambda: found() == ({"Asleep"}, {rest}), f"no sleep in which it is {rest}", 120)
        before = person.instances()
        person.kill_platform()
        start_engine(engine, kill_engine(engine), state.parent / "engine.log")
        wait_until(partial(engine_answers, engine), "the engine does not start")
        person.starts()

        statuses, states = found()
        assert (statuses, "running" in states) == ({"Asleep"}, False)
        after = person.instances()
        assert [each["externalIP"] for each in after] == [each["externalIP"] for each in before]
        for each in after:
            assert answer(f"{each['externalIP']}:80") == f"hello from {each['name']}\n"
        wait_until(lambda: "Available" in found()[0], "what was woken is not reported awake")
        wait_until(lambda: found()[0] == {"Asleep"}, "it does not sleep again")
    finally:
        person.types("local", "reset", "--yes")
