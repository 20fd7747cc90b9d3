"""A local platform with containers: instances answer, fail, heal and leave nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from datum_compute.assembly.local.state import StateDirectory, platform_mark
from datum_compute.env import SystemEnvironment
from datum_compute.providers.container import host, sockets, spec
from datum_compute.providers.container.engine import ContainerEngine

pytestmark = pytest.mark.containers

NAME = "odd-default-dfw-0"


def wait_until(holds: Callable[[], bool], missing: str, seconds: float = 60.0) -> None:
    """Polls a real platform."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, missing
        time.sleep(0.2)


class Person:
    """Types commands against one platform."""

    def __init__(self, engine: str, state: Path) -> None:
        self.engine = engine
        self.state = StateDirectory(state)

    def types(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "datum_compute.cli", *words, "--data-dir", str(self.state.path)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={"HOME": str(self.state.path.parent), "PATH": os.environ["PATH"]},
        )

    def succeeds(self, *words: str, timeout: float = 120) -> str:
        done = self.types(*words, timeout=timeout)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def starts(self) -> None:
        words = ("local", "up", "--detach", "--cities", "DFW,LHR", "--runtime", self.engine)
        self.succeeds(*words)

    def instances(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.succeeds("instances", "-o", "json"))
        return found

    def containers(self) -> list[dict[str, Any]]:
        return asyncio.run(self._ask(lambda engine: engine.containers(self._labels())))

    def networks(self) -> list[str]:
        found = asyncio.run(self._ask(lambda engine: engine.networks()))
        mark = self._labels()[spec.LABEL_PLATFORM]
        return [
            str(each["Name"])
            for each in found
            if (each.get("Labels") or {}).get(spec.LABEL_PLATFORM) == mark
        ]

    def remove_container(self, identifier: str) -> None:
        asyncio.run(self._ask(lambda engine: engine.remove(identifier)))

    def kill_platform(self) -> None:
        pid = self.state.holder()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.state.is_held(), "the killed platform holds its state")

    def _labels(self) -> dict[str, str]:
        return spec.platform_labels(platform_mark(self.state.database))

    async def _ask(self, question: Callable[[ContainerEngine], Any]) -> Any:
        socket = await sockets.find_socket(SystemEnvironment(), self.engine)
        assert socket is not None
        async with ContainerEngine(socket) as engine:
            return await question(engine)


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


def answer(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/", timeout=5) as response:
        return str(response.read().decode())


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
    assert person.networks() == []


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


@pytest.mark.parametrize(
    ("containers", "reason", "words"),
    [
        ({"image": "localhost/no-such-image:1"}, "ImageUnavailable", "cannot be pulled"),
        ({"command": ["/nope"]}, "ConfigurationError", "/nope: stat /nope"),
        ({"command": ["/bin/sh", "-c", "exit 3"]}, "InstanceCrashing", "exit code 3"),
    ],
    ids=["image", "command", "crash"],
)
def test_a_failure_is_reported_with_its_reason_and_the_engines_words(
    person: Person, containers: dict[str, Any], reason: str, words: str, tmp_path: Path
) -> None:
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
