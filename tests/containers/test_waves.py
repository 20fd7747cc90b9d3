"""A rollout over cities as a client of them sees it, with real containers."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from datum_compute.providers.sandbox import LABEL_NAME
from tests.support.cli.container_platform import IMAGES, Person, answer, load_images

pytestmark = [pytest.mark.containers, pytest.mark.realtime, pytest.mark.timeout(900)]

CITIES = ("DFW", "LHR")
SOAK_SECONDS = 5
INTERVAL_SECONDS = 0.05


@pytest.fixture
def person(engine: str, state: Path) -> Iterator[Person]:
    found = Person(engine, state)
    try:
        found.starts()
        yield found
    finally:
        found.types("local", "reset", "--yes")


class CityClient(threading.Thread):
    """Asks one city twenty times a second: any of its addresses may answer."""

    def __init__(self, addresses: list[str]) -> None:
        super().__init__(daemon=True)
        self.addresses = addresses
        self.asked = 0
        self.failed: list[float] = []
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(INTERVAL_SECONDS):
            self.asked += 1
            if not any(map(_answers, self.addresses)):
                self.failed.append(time.time())

    def end(self) -> None:
        self._ended.set()
        self.join()


def _answers(address: str) -> bool:
    try:
        return bool(answer(address))
    except (OSError, http.client.HTTPException):  # the latter where the answer is cut off
        return False


def started(person: Person, city: str) -> float:
    """When the one container of a city began, by the clock of its engine."""
    [found] = [
        str(each["Id"]) for each in person.containers() if f"-{city.lower()}-" in _instance(each)
    ]
    return datetime.fromisoformat(person.inspect(found)["State"]["StartedAt"]).timestamp()


def _instance(container: dict[str, Any]) -> str:
    return str(container["Labels"][LABEL_NAME])


def roll_under_clients(person: Person, per_city: int) -> dict[str, CityClient]:
    """Roll a new image out in waves while every city is asked."""
    load_images(person.engine)
    words = ["deploy", "hello", f"--city={','.join(CITIES)}", f"--min={per_city}", "--port=80"]
    words += ["--waves=each", f"--soak={SOAK_SECONDS}s", "--yes"]
    person.succeeds(*words, f"--image={IMAGES[0]}", timeout=600)
    found = person.instances()
    clients = {
        city: CityClient([each["externalIP"] for each in found if each["city"] == city])
        for city in CITIES
    }
    for each in clients.values():
        each.start()
    try:
        person.succeeds(*words, f"--image={IMAGES[1]}", timeout=600)
    finally:
        for each in clients.values():
            each.end()
    assert {each["Image"] for each in person.containers()} == {IMAGES[1]}
    assert all(each.asked > 10 * SOAK_SECONDS for each in clients.values())
    return clients


def test_a_city_fails_to_answer_in_its_own_wave_only(person: Person) -> None:
    clients = roll_under_clients(person, 1)

    # One instance is replaced where it is: its city is away meanwhile. A quick replacement may fall
    # between two requests, so neither city needs to show it.
    first, second = (started(person, city) for city in CITIES)
    middle = (first + second) / 2
    assert second - first > SOAK_SECONDS, "both cities rolled in one wave"
    assert [each for each in clients[CITIES[0]].failed if each > middle] == []
    assert [each for each in clients[CITIES[1]].failed if each < middle] == []


def test_no_city_fails_to_answer_with_two_instances_in_each(person: Person) -> None:
    clients = roll_under_clients(person, 2)

    assert {city: len(each.failed) for city, each in clients.items()} == dict.fromkeys(CITIES, 0)
