"""The lines of real containers in two cities, as one stream."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from datum_compute.providers.container import host
from tests.support.cli.container_platform import Person, wait_until

pytestmark = pytest.mark.containers

SCRIPT = 'i=0; while sleep 1; do i=$((i+1)); echo "$WORD $i"; done'


def deploy(person: Person, word: str) -> None:
    words = ["--command=/bin/sh", "--arg=-c", f"--arg={SCRIPT}", f"--env=WORD={word}"]
    image = f"--image={host.BUSYBOX_IMAGE}"
    person.succeeds("deploy", "count", image, "--city=DFW,LHR", *words, "--window=0s", "--yes")


@pytest.fixture(scope="module")
def person(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    found = Person(engine, tmp_path_factory.mktemp("platform") / "state")
    try:
        found.starts()
        deploy(found, "first")
        yield found
    finally:
        found.types("local", "reset", "--yes")


class Followed:
    """``logs --follow``, written to a file."""

    def __init__(self, person: Person, directory: Path, *words: str) -> None:
        self._out = directory / "out"
        self._err = directory / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            command = person.command("logs", "count", "--follow", *words)
            self._process = subprocess.Popen(
                command, stdout=out, stderr=err, env=person.environment
            )

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def said(self) -> str:
        return self._err.read_text()

    def of(self, city: str, word: str) -> list[int]:
        """The numbers that one city has counted, in the order of the lines."""
        mine = [line.split(" | ")[1] for line in self.lines if f"-{city}-" in line]
        return [int(each.split()[-1]) for each in mine if word in each]

    def counts(self, word: str) -> int:
        """How many lines both cities have."""
        return min(len(self.of(city, word)) for city in ("dfw", "lhr"))

    def stop(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(30)


def are_whole(numbers: list[int]) -> bool:
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_lines_of_two_cities_are_followed_through_a_roll(person: Person, tmp_path: Path) -> None:
    followed = Followed(person, tmp_path, "--tail", "2")
    try:
        wait_until(lambda: followed.counts("first") > 3, "a city has no lines")
        deploy(person, "second")
        wait_until(lambda: followed.counts("second") > 2, "a successor has no lines")
    finally:
        code = followed.stop()
    assert code == 130
    for city in ("dfw", "lhr"):
        assert are_whole(followed.of(city, "first")), followed.lines
        assert are_whole(followed.of(city, "second")), followed.lines
        assert followed.of(city, "second")[0] == 1


def test_lines_of_two_cities_are_merged_by_time_while_one_rolls(person: Person) -> None:
    command = person.command("restart", "count", "--city", "LHR", "--window=0s", "--yes")
    seen: list[list[str]] = []
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=person.environment
    ) as rolling:
        while rolling.poll() is None:
            shown = person.succeeds("logs", "count", "--timestamps", "--tail", "10")
            seen.append(shown.splitlines())
    assert rolling.returncode == 0
    for lines in seen:
        times = [line.split(" | ")[1].split()[0] for line in lines]
        assert times == sorted(times), lines
        for city in ("dfw", "lhr"):
            numbers = [int(line.split()[-1]) for line in lines if f"-{city}-" in line]
            assert not numbers or are_whole(numbers), lines
    for city in ("dfw", "lhr"):
        assert any(f"-{city}-" in line for lines in seen for line in lines)


def test_a_city_that_does_not_answer_is_named_and_its_lines_come_later(
    person: Person, tmp_path: Path
) -> None:
    followed = Followed(person, tmp_path, "--tail", "0")
    try:
        wait_until(lambda: bool(followed.of("lhr", " ")), "no lines")
        person.succeeds("local", "cell", "disconnect", "LHR")
        wait_until(lambda: "cell lhr is disconnected" in followed.said, "the city is not named")
        before = len(followed.of("lhr", " "))
        person.succeeds("local", "cell", "connect", "LHR")
        wait_until(lambda: len(followed.of("lhr", " ")) > before + 2, "no lines after that")
    finally:
        person.types("local", "cell", "connect", "LHR")
        followed.stop()
    assert are_whole(followed.of("lhr", " ")), followed.lines


def test_since_tail_and_timestamps_choose_lines(person: Person) -> None:
    one = person.succeeds("logs", "count", "--tail", "3", "--timestamps").splitlines()
    assert len(one) == 6
    times = [line.split(" | ")[1].split()[0] for line in one]
    assert times == sorted(times)
    recent = person.succeeds("logs", "count", "--since", "2s").splitlines()
    assert 2 <= len(recent) <= 8
    assert {line.split("-")[2] for line in recent} == {"dfw", "lhr"}
