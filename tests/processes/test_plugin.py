"""The single-file plugin, alone in a directory with nothing but a Python beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from datum_compute import __version__
from tests.support.paths import ROOT

pytestmark = [pytest.mark.long, pytest.mark.realtime, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Installed:
    """A copy of the plugin, and an environment without any other part of this product."""

    plugin: Path
    home: Path
    environment: dict[str, str]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.plugin, *arguments],
            cwd=self.plugin.parent,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answer(self, *arguments: str) -> str:
        process = self.start(*arguments)
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
        return stdout

    def unpacked(self) -> list[str]:
        cache = self.home / ".cache" / "datum-compute" / "plugin"
        return sorted(os.listdir(cache)) if cache.exists() else []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("built") / "datumctl-compute"
    command = [sys.executable, str(ROOT / "scripts" / "build_plugin.py"), "--output", str(output)]
    subprocess.run(command, check=True, timeout=500)
    return output


@pytest.fixture
def installed(built: Path, tmp_path: Path) -> Installed:
    home, programs, temporary = tmp_path / "home", tmp_path / "bin", tmp_path / "tmp"
    for directory in (home, programs, temporary):
        directory.mkdir()
    # The interpreter under the virtual environment: it has none of the dependencies.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = Path(sys.base_prefix, "bin", version)
    (programs / "python3").symlink_to(interpreter)
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "DATUM_RUNTIME": "simulated",
    }
    plugin = tmp_path / "plugin" / "datumctl-compute"
    plugin.parent.mkdir()
    shutil.copy(built, plugin)
    return Installed(plugin, home, environment)


def test_the_interpreter_beside_the_plugin_has_no_copy_of_the_product(installed: Installed) -> None:
    """Otherwise the other tests could not fail."""
    command = ["python3", "-c", "import datum_compute"]
    done = subprocess.run(command, env=installed.environment, capture_output=True, check=False)

    assert done.returncode != 0


@pytest.mark.parametrize("arguments", [["--plugin-manifest"], ["deploy", "--plugin-manifest"]])
def test_the_manifest_is_printed_without_unpacking(
    installed: Installed, arguments: list[str]
) -> None:
    for _ in range(2):
        assert json.loads(installed.answer(*arguments)) == {
            "name": "compute",
            "version": __version__,
            "description": "Run workloads in many cities",
            "api_version": 1,
            "min_api_version": 1,
        }
    assert os.listdir(installed.home) == []


def test_help_is_printed_without_unpacking(installed: Installed) -> None:
    for _ in range(2):
        assert f"usage: {installed.plugin}" in installed.answer("--help")
    assert os.listdir(installed.home) == []


def test_every_file_of_the_product_is_in_the_plugin(built: Path) -> None:
    source = ROOT / "src"
    files = {each.relative_to(source).as_posix() for each in source.rglob("*.*") if each.is_file()}
    with zipfile.ZipFile(built) as plugin:
        assert {each for each in files if "__pycache__" not in each} <= set(plugin.namelist())


def test_commands_run_from_one_unpacked_copy(installed: Installed) -> None:
    for _ in range(2):
        assert installed.answer("version") == f"datumctl-compute {__version__}\n"
        assert len(installed.unpacked()) == 1


def test_first_uses_at_the_same_moment_share_one_copy(installed: Installed) -> None:
    processes = [installed.start("version") for _ in range(3)]
    answers = [process.communicate(timeout=60) for process in processes]

    assert answers == [(f"datumctl-compute {__version__}\n", "")] * 3
    assert len(installed.unpacked()) == 1


def test_an_unpacked_copy_can_load_compiled_extensions(installed: Installed) -> None:
    installed.answer("version")
    (directory,) = (installed.home / ".cache" / "datum-compute" / "plugin").iterdir()
    load = "import sys; sys.path.insert(0, sys.argv[1]); import apsw, httptools, msgspec, uvloop"
    command = ["python3", "-W", "error", "-c", load, str(directory)]

    subprocess.run(command, env=installed.environment, check=True)


def test_a_local_platform_runs_from_the_unpacked_copy(installed: Installed) -> None:
    """Its process is started by the plugin's, and must find the same modules."""
    try:
        installed.answer("local", "up", "--detach", "--cities", "DFW")
        assert "project/demo" in installed.answer("local", "status")
    finally:
        installed.answer("local", "down")


def test_cache_directory_is_taken_from_the_environment(
    installed: Installed, tmp_path: Path
) -> None:
    installed.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    installed.answer("version")

    assert os.listdir(installed.home) == []
    assert len(os.listdir(tmp_path / "cache" / "datum-compute" / "plugin")) == 1


def test_a_missing_python_is_reported_with_the_required_version(installed: Installed) -> None:
    change_facts(installed.plugin, python="3.99")
    process = installed.start("version")
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == 13
    assert "python3.99 is needed and not on PATH" in stderr


def change_facts(plugin: Path, **changed: str) -> None:
    """Change what the file was built for."""
    with zipfile.ZipFile(plugin) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    facts = json.loads(entries["plugin.json"])
    entries["plugin.json"] = json.dumps({**facts, **changed}).encode()
    plugin.write_bytes(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(plugin, "a") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
