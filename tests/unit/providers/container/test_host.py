"""Images, archives, ranges and addresses of the host that runs containers."""

from __future__ import annotations

import io
import json
import platform
import subprocess
import tarfile
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from datum_compute.providers.container import host, networks
from datum_compute.providers.container.attachments import LOOPBACK, loopback_range
from datum_compute.providers.container.images import pull
from datum_compute.providers.container.images.archive import build_archive
from datum_compute.providers.logs import parse_line

ROUTES = """\
Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 010011AC 0003 0 0 0 00000000 0 0 0
eth0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0
cni0 0000800A 00000000 0001 0 0 0 00F0FFFF 0 0 0
"""


def test_the_program_of_the_trial_ends_with_code_0(tmp_path: Path) -> None:
    program = host.exit_program(platform.machine())
    assert program is not None
    path = tmp_path / "exit"
    path.write_bytes(program)
    path.chmod(0o755)

    assert subprocess.run([path], check=False).returncode == 0


def test_an_unknown_machine_has_no_trial() -> None:
    assert host.exit_program("pdp11") is None


def test_an_archive_names_its_image_layer_and_command() -> None:
    archive = build_archive("localhost/x:1", {"bin/x": b"#!"}, {"bin/y": "x"}, ["/bin/x"])

    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        manifest = json.load(files.extractfile("manifest.json"))  # type: ignore[arg-type]
        [image] = manifest
        configuration = json.load(files.extractfile(image["Config"]))  # type: ignore[arg-type]
        [layer] = image["Layers"]
        with tarfile.open(fileobj=files.extractfile(layer)) as inner:
            names = inner.getnames()
    assert image["RepoTags"] == ["localhost/x:1"]
    assert configuration["config"]["Cmd"] == ["/bin/x"]
    assert names == ["bin/x", "bin/y"]


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("acme/web", "docker.io/acme/web:latest"),
        ("localhost/web:1", "localhost/web:1"),
        ("registry.example:5000/web", "registry.example:5000/web:latest"),
        ("nginx@sha256:abc", "docker.io/library/nginx@sha256:abc"),
    ],
)
def test_a_short_name_is_completed_as_docker_does(given: str, full: str) -> None:
    assert pull.full_reference(given) == full


def test_only_a_moving_tag_is_looked_for_again() -> None:
    assert pull.is_moving("docker.io/library/nginx:latest")
    assert not pull.is_moving("docker.io/library/nginx:1.27")
    assert not pull.is_moving("docker.io/library/nginx@sha256:abc")
    assert not pull.is_moving("localhost/web:latest")


def test_ranges_of_the_hosts_routes_are_occupied() -> None:
    assert networks.parse_routes(ROUTES) == [
        IPv4Network("172.17.0.0/16"),
        IPv4Network("10.128.0.0/20"),
    ]
    assert networks.parse_routes("") == []


def test_each_cell_of_each_platform_has_its_own_range_of_loopback_addresses() -> None:
    found = {loopback_range(name, cell) for name in ("a", "b") for cell in ("dfw", "iad", "lhr")}

    assert len(found) == 6
    assert all(each.subnet_of(LOOPBACK) for each in found)


def test_a_line_of_a_log_begins_with_its_time() -> None:
    docker = parse_line(b"2026-11-17T01:02:03.123456789Z hello world\r")
    podman = parse_line(b"2026-11-17T01:02:03Z ")

    assert docker is not None
    assert (docker.text, docker.at.microsecond) == ("hello world", 123456)
    assert podman is not None
    assert podman.text == ""
    assert parse_line(b"no time here") is None
