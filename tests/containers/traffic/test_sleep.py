"""Instances that sleep while their platform is stopped, killed and started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from datum_compute.providers.container import host
from tests.support.cli.container_platform import Person, answer, wait_until

pytestmark = pytest.mark.containers


@pytest.fixture
def person(engine: str, state: Path) -> Iterator[Person]:
    found = Person(engine, state)
    try:
        found.starts()
        yield found
    finally:
        found.types("local", "reset", "--yes")


def statuses(person: Person) -> list[str]:
    return [each["status"] for each in person.instances()]


def states(person: Person) -> list[str]:
    return sorted(str(each["State"]) for each in person.containers())


def test_what_sleeps_goes_on_sleeping_over_a_restart_of_everything_and_wakes(
    person: Person,
) -> None:
    image = f"--image={host.BUSYBOX_IMAGE}"
    words = ("--city=DFW,LHR", "--http-port=80", "--sleep-after=5s", "--yes")
    person.succeeds("deploy", "hello", image, *words)
    wait_until(lambda: statuses(person) == ["Asleep"] * 2, "an instance does not sleep")
    before = person.instances()

    person.kill_platform()
    person.starts()
    assert statuses(person) == ["Asleep"] * 2
    person.succeeds("local", "down")
    person.starts()
    # What it finds stopped is neither started nor reported as anything but asleep.
    wait_until(lambda: "running" not in states(person), "an instance that sleeps was started")
    assert statuses(person) == ["Asleep"] * 2
    after = person.instances()
    assert [each["externalIP"] for each in after] == [each["externalIP"] for each in before]

    for each in after:
        assert answer(f"{each['externalIP']}:80") == f"hello from {each['name']}\n"
    wait_until(lambda: "Available" in statuses(person), "what was woken is not reported awake")
    wait_until(lambda: statuses(person) == ["Asleep"] * 2, "it does not sleep again")
