"""Images built from a directory, and run by the local platform without a registry."""

from __future__ import annotations

import re
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from datum_compute.providers.container import host
from tests.support.cli.container_platform import Person

pytestmark = pytest.mark.containers

DOCKERFILE = f"""\
FROM {host.BUSYBOX_IMAGE}
COPY index.html /www/index.html
CMD ["httpd", "-f", "-p", "80", "-h", "/www"]
"""

BUILT: set[str] = set()
"""Images to remove in the end."""


@pytest.fixture(scope="module")
def person(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    found = Person(engine, tmp_path_factory.mktemp("platform") / "state")
    try:
        found.starts()
        yield found
    finally:
        found.types("local", "reset", "--yes")
        for image in BUILT:
            subprocess.run([engine, "rmi", image], check=False, capture_output=True)


def page(person: Person) -> str:
    [instance] = person.instances()
    with urllib.request.urlopen(f"http://{instance['externalIP']}/", timeout=5) as response:
        return str(response.read().decode())


def deploy(person: Person, site: Path, *words: str) -> str:
    flags = ["--city=DFW", "--port=80", "--window=0s", "--yes"]
    done = person.types("deploy", "site", "--build", str(site), *flags, *words)
    assert done.returncode == 0, done.stderr
    BUILT.update(re.findall(r"^Built (\S+)", done.stderr, re.MULTILINE))
    return done.stderr


def test_a_rebuild_rolls_and_an_unchanged_directory_does_not(
    person: Person, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    one, two = (f"{uuid.uuid4()}\n" for _ in range(2))  # files that no run has built before
    (tmp_path / "index.html").write_text(one)
    (tmp_path / ".dockerignore").write_text("secret\n")
    (tmp_path / "secret").write_text("not for the builder\n")

    first = deploy(person, tmp_path)
    assert "COPY index.html" in first
    assert page(person) == one
    again = deploy(person, tmp_path)
    assert "is there already: no file has changed" in again
    assert "nothing to change" in again

    (tmp_path / "index.html").write_text(two)
    deploy(person, tmp_path)
    assert page(person) == two
    (tmp_path / "web.dockerfile").write_text(DOCKERFILE.replace("index.html /", "secret /"))
    refused = person.types(
        "deploy", "site", "--build", str(tmp_path), "--dockerfile", "web.dockerfile", "--yes"
    )
    assert refused.returncode == 1
    assert "the build failed at COPY secret" in refused.stderr
    assert page(person) == two


def test_a_directory_that_cannot_be_built_is_named(person: Person, tmp_path: Path) -> None:
    done = person.types("deploy", "site", "--build", str(tmp_path), "--city=DFW", "--yes")
    assert done.returncode == 1
    assert f"{tmp_path} has no Dockerfile or Containerfile" in done.stderr
