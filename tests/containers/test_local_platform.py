"""A local platform with containers: instances answer, fail, heal and leave nothing."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from datum_compute.providers.container import host
from tests.support.cli.container_platform import (
    IMAGES,
    UNKNOWN_USER,
    Person,
    answer,
    load_images,
    wait_until,
)

pytestmark = pytest.mark.containers

NAME = "odd-default-dfw-0"


@pytest.fixture
def person(engine: str, state: Path) -> Iterator[Person]:
    found = Person(engine, state)
    try:
        found.starts()
        yield found
    finally:
        found.types("local", "reset", "--yes")


def deploy(person: Person, *words: str) -> subprocess.CompletedProcess[str]:
    image = f"--image={host.BUSYBOX_IMAGE}"
    return person.types("deploy", "hello", image, "--city=DFW,LHR", "--port=80", "--yes", *words)


def are_available(person: Person, count: int) -> bool:
    found = person.instances()
    return len(found) == count and all(each["status"] == "Available" for each in found)


def test_an_image_answers_in_two_cities_and_leaves_nothing_behind(person: Person) -> None:
    done = deploy(person, "--min=2")
    assert done.returncode == 0, done.stderr

    found = person.instances()
    assert len(found) == 4
    for each in found:
        assert answer(each["externalIP"]) == f"hello from {each['name']}\n"
        assert answer(each["internalIP"]) == f"hello from {each['name']}\n"
    assert "serving on port 80" in person.succeeds("logs", "hello")

    person.succeeds("destroy", "hello", "--yes")
    assert person.containers() == []
    wait_until(lambda: person.networks() == [], "a network is left")


def test_a_removed_container_is_made_again_at_the_same_address(person: Person) -> None:
    assert deploy(person).returncode == 0
    before = {each["name"]: each["externalIP"] for each in person.instances()}

    person.remove_container(str(person.containers()[0]["Id"]))
    wait_until(lambda: len(person.containers()) == 2, "the container is not made again")
    wait_until(lambda: are_available(person, 2), "not available again")

    assert {each["name"]: each["externalIP"] for each in person.instances()} == before


def test_a_killed_platform_finds_its_containers_again(person: Person) -> None:
    assert deploy(person).returncode == 0
    before = {str(each["Id"]) for each in person.containers()}
    address = person.instances()[0]["externalIP"]

    person.kill_platform()
    assert answer(address).startswith("hello from")
    person.starts()
    wait_until(lambda: are_available(person, 2), "not available after the restart")

    assert {str(each["Id"]) for each in person.containers()} == before


def test_a_stopped_platform_stops_its_containers_and_starts_them_again(person: Person) -> None:
    assert deploy(person).returncode == 0
    person.succeeds("local", "down")
    assert {each["State"] for each in person.containers()} == {"exited"}

    person.starts()
    # What is said to be available is so: it is not what was found before the stop.
    available = [each for each in person.instances() if each["status"] == "Available"]
    assert all(answer(each["externalIP"]) for each in available)
    wait_until(
        lambda: {each["State"] for each in person.containers()} == {"running"},
        "the containers are not started again",
    )
    wait_until(lambda: are_available(person, 2), "not available after the restart")


def test_two_projects_networks_do_not_collide(person: Person, engine: str, tmp_path: Path) -> None:
    """Two platforms on one machine are two tenants of its addresses."""
    assert deploy(person).returncode == 0
    other = Person(engine, tmp_path / "other")
    try:
        other.starts()
        assert deploy(other).returncode == 0
        addresses = [each["internalIP"] for each in (*person.instances(), *other.instances())]
        assert len(set(addresses)) == 4
        assert all(answer(address).startswith("hello from") for address in addresses)
    finally:
        other.types("local", "reset", "--yes")


@pytest.mark.campaign
def test_two_platforms_that_deploy_at_once_share_no_range(
    person: Person, engine: str, tmp_path: Path
) -> None:
    other = Person(engine, tmp_path / "other")
    try:
        other.starts()
        with ThreadPoolExecutor() as both:
            done = list(both.map(deploy, (person, other)))
        assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]

        found = [*person.instances(), *other.instances()]
        assert len({each["internalIP"] for each in found}) == 4
        assert all(answer(each["internalIP"]) for each in found)
    finally:
        other.types("local", "reset", "--yes")


@pytest.mark.parametrize(
    ("containers", "reason", "words"),
    [
        ({"image": "localhost/no-such-image:1"}, "ImageUnavailable", "cannot be pulled"),
        ({"command": ["/nope"]}, "ConfigurationError", "/nope: stat /nope"),
        pytest.param(
            {"image": UNKNOWN_USER},
            "ConfigurationError",
            "no matching entries in passwd file",
            marks=pytest.mark.campaign,
        ),
        ({"command": ["/bin/sh", "-c", "exit 3"]}, "InstanceCrashing", "exit code 3"),
    ],
    ids=["image", "command", "user", "crash"],
)
def test_a_failure_is_reported_with_its_reason_and_the_engines_words(
    person: Person, containers: dict[str, Any], reason: str, words: str, tmp_path: Path
) -> None:
    load_images(person.engine)
    container = {"name": "app", "image": host.BUSYBOX_IMAGE, **containers}
    workload = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "odd"},
        "spec": {
            "template": {
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": "datumcloud/d1-standard-2"},
                        "sandbox": {"containers": [container]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                }
            },
            "placements": [
                {"name": "default", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
            ],
        },
    }
    manifest = tmp_path / "odd.json"
    manifest.write_text(json.dumps(workload))
    person.succeeds("deploy", "-f", str(manifest), "--yes", "--no-wait")

    def condition() -> dict[str, Any]:
        found = json.loads(person.succeeds("instances", "describe", NAME, "-o", "json"))
        [available] = [
            each for each in found["object"]["status"]["conditions"] if each["type"] == "Available"
        ]
        return dict(available)

    wait_until(lambda: NAME in person.succeeds("instances"), "no instance")
    wait_until(lambda: condition()["reason"] == reason, f"{reason} is not reported")
    assert words in condition()["message"]
    assert words in person.succeeds("why", "odd")


class Asker(threading.Thread):
    """Asks one address fifty times a second, and keeps when it did not answer."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.asked = 0
        self.failed: list[float] = []
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.02):
            self.asked += 1
            try:
                answer(self.address)
            except OSError:
                self.failed.append(time.monotonic())

    def end(self) -> None:
        self._ended.set()
        self.join()


@pytest.mark.campaign
def test_a_new_image_rolls_one_by_one_and_only_the_replaced_one_fails(person: Person) -> None:
    load_images(person.engine)
    words = ("deploy", "hello", "--city=DFW", "--min=3", "--port=80", "--yes")
    person.succeeds(*words, f"--image={IMAGES[0]}")
    askers = [Asker(each["externalIP"]) for each in person.instances()]
    for asker in askers:
        asker.start()
    try:
        person.succeeds(*words, f"--image={IMAGES[1]}")
    finally:
        for asker in askers:
            asker.end()

    assert {each["Image"] for each in person.containers()} == {IMAGES[1]}
    outages = sorted((each.failed[0], each.failed[-1]) for each in askers if each.failed)
    assert all(each.asked > 50 for each in askers)
    for (_, end), (begin, _) in pairwise(outages):
        assert end < begin, "two instances did not answer at the same time"
    assert all(answer(each.address) for each in askers)
