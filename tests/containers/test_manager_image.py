"""The image of the manager starts without root, shell and a writable file system. It is built with
buildah and run with podman, whichever engine the other tests use."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import datum_compute
from datum_compute.providers.container.sockets import CONFIGURATION
from scripts import build_image

pytestmark = [pytest.mark.containers, pytest.mark.campaign, pytest.mark.realtime]

BUILD_SECONDS = 1200

LOOK = """
import json, os, ssl
programs = [
    name
    for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")
    if os.path.isdir(folder)
    for name in os.listdir(folder)
]
authorities = len(ssl.create_default_context().get_ca_certs())
print(json.dumps({"programs": sorted(programs), "user": os.getuid(), "trusted": authorities > 50}))
"""


BYTECODE = """
import importlib.util, json, sys
import datum_compute.assembly.manager.main
compiled = [getattr(module, "__cached__", None) for module in list(sys.modules.values())]
heads = {path: open(path, "rb").read(8) for path in compiled if path}
unchecked = importlib.util.MAGIC_NUMBER + bytes([1, 0, 0, 0])
print(json.dumps([len(heads), [path for path, head in heads.items() if head != unchecked]]))
"""
"""The modules of a manager, and those whose bytecode Python would not take as it is."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("dist")
    build_image.build(output)
    return output


def podman(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    configuration = directory / "containers.conf"
    configuration.write_text(CONFIGURATION)
    limits = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")  # any host allows these
    confined = ("--rm", "--read-only", "--cap-drop=all", "--network=none", *limits)
    return subprocess.run(
        ["podman", "run", *confined, *words],
        env={**os.environ, "CONTAINERS_CONF": str(configuration)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.timeout(BUILD_SECONDS)
def test_the_image_runs_as_no_root_and_has_no_program_but_its_own(
    built: Path, tmp_path: Path
) -> None:
    python = f"/usr/bin/python{build_image.PYTHON}"
    looked = podman(tmp_path, f"--entrypoint={python}", build_image.IMAGE, "-c", LOOK)
    shell = podman(tmp_path, "--entrypoint=/bin/sh", build_image.IMAGE, "-c", "true")

    assert looked.returncode == 0, looked.stderr
    assert json.loads(looked.stdout) == {
        "programs": ["compute-manager", f"python{build_image.PYTHON}"],
        "user": 65532,
        "trusted": True,
    }
    assert shell.returncode != 0


@pytest.mark.timeout(BUILD_SECONDS)
def test_the_image_starts_the_manager(built: Path, tmp_path: Path) -> None:
    helped = podman(tmp_path, build_image.IMAGE, "--help")
    outside = podman(tmp_path, build_image.IMAGE, "--enable-cell-controllers")

    assert helped.stdout.startswith("usage: compute-manager")
    assert outside.returncode == 1
    assert outside.stderr.startswith("Error: not in a cluster")


@pytest.mark.timeout(BUILD_SECONDS)
def test_a_start_compiles_no_module(built: Path, tmp_path: Path) -> None:
    python = f"/usr/bin/python{build_image.PYTHON}"
    looked = podman(tmp_path, f"--entrypoint={python}", build_image.IMAGE, "-c", BYTECODE)

    assert looked.returncode == 0, looked.stderr
    count, stale = json.loads(looked.stdout)
    assert count > 200
    assert stale == []


@pytest.mark.timeout(BUILD_SECONDS)
def test_the_sbom_names_our_version_python_and_the_libraries(built: Path) -> None:
    listed = json.loads((built / "sbom.cdx.json").read_text())["components"]
    found = {each["name"]: each["version"] for each in listed}

    assert found["datum-compute"] == datum_compute.__version__
    assert {*build_image.PACKAGES, "msgspec", "cryptography"} <= set(found)
    assert (built / "image/index.json").exists()
