"""``local up``, ``check``, ``repair``, ``backup`` and ``restore`` on a state directory."""

from __future__ import annotations

import io
import json
import socket
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.assembly.local.state import LocalSettings, RunningPlatform, StateDirectory
from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import run
from tests.support.apiserver.stores import thing
from tests.support.cli.terminal import Terminal

WORKLOADS = "workloads.compute.datumapis.com"
DEPLOYMENTS = "workloaddeployments.compute.datumapis.com"


class TypedInput(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass
class Machine:
    """A state directory in a home directory, and a person who types commands."""

    home: Path
    state: StateDirectory

    def type(self, *words: str, answer: str | None = None) -> tuple[int, str, str]:
        """Exit code, stdout and stderr; with an answer, at a terminal."""
        out = io.StringIO()
        err = io.StringIO() if answer is None else Terminal()
        stdin = io.StringIO() if answer is None else TypedInput(answer)
        env = SimulatedEnvironment(1, variables={"HOME": str(self.home)})
        argv = ["local", *words, "--data-dir", str(self.state.path)]
        code = main(argv, env, Streams(stdin, out, err))
        return code, out.getvalue(), err.getvalue()

    def names(self) -> dict[str, bool]:
        """Each stored Workload, and whether it is of the second size."""
        with closing(LogStore(SimulatedEnvironment(), str(self.state.database))) as store:
            rows = store.planes["project/demo"].table(WORKLOADS).in_order(None)
            return {row.name: b'"size":2' in row.raw for row in rows}

    def damage(self, where: str) -> None:
        with closing(apsw.Connection(str(self.state.database))) as db:
            db.execute(f"UPDATE log SET value = replace(value, 'Thing', 'Thong') WHERE {where}")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """``web`` in two versions and ``api`` in one."""
    state = StateDirectory(tmp_path / "state")
    state.create()
    state.store_settings(LocalSettings())
    run(write_workloads(state))
    return Machine(tmp_path, state)


async def write_workloads(state: StateDirectory) -> None:
    store = LogStore(SimulatedEnvironment(), str(state.database))
    plane = store.open_plane("project/demo")
    first = plane.put(WORKLOADS, thing("web", size=1), None)
    plane.put(WORKLOADS, thing("api", size=1), None)
    await store.wait_durable()
    plane.put(WORKLOADS, thing("web", size=2), first)
    await store.wait_durable()
    store.close()


def test_check_of_sound_state_says_so_and_exits_with_0(machine: Machine) -> None:
    assert machine.type("check") == (0, "", "No damage in ~/state/state.db.\n")
    assert machine.type("check", "-o", "json")[:2] == (0, "[]\n")


def test_check_lists_each_damage_with_what_a_repair_does_and_exits_with_1(
    machine: Machine,
) -> None:
    machine.damage("name = 'api' OR revision = (SELECT max(revision) FROM log)")

    code, shown, said = machine.type("check")

    assert code == 1
    assert shown == (
        "PLANE          RESOURCE    OBJECT   PROBLEM"
        "                                                REPAIR\n"
        "project/demo   workloads   ns/web   revision 176722560000003 does not match its checksum"
        "   goes back to revision 176722560000001\n"
        "project/demo   workloads   ns/api   revision 176722560000002 does not match its checksum"
        "   is dropped\n"
    )
    assert said == (
        "\n2 damages in ~/state/state.db.\n"
        f"\nTry:  datumctl-compute local repair --data-dir {machine.state.path}\n"
    )
    code, shown, _ = machine.type("check", "-o", "json")
    assert (code, [each["resource"] for each in json.loads(shown)]) == (1, [WORKLOADS] * 2)


def test_repair_asks_names_each_object_and_keeps_the_files(machine: Machine) -> None:
    machine.damage("name = 'api' OR revision = (SELECT max(revision) FROM log)")

    declined = machine.type("repair", answer="n\n")
    code, _, said = machine.type("repair", "--yes")

    assert declined[0] == 9
    assert code == 0
    assert "plane project/demo workloads ns/web: revision" in said
    assert "→ goes back to revision 176722560000001" in said
    assert "→ is dropped" in said
    (kept,) = machine.state.path.glob("damaged-*")
    assert f"Repaired. The files as they were: ~/state/{kept.name}" in said
    assert (kept / "state.db").exists()
    assert machine.names() == {"web": False}
    assert machine.type("check")[0] == 0


def test_a_backup_brings_back_what_was_deleted(machine: Machine) -> None:
    backup = str(machine.home / "monday.backup")

    assert machine.type("backup", backup)[0] == 0
    machine.damage("name = 'api'")
    machine.type("repair", "--yes")
    lost = machine.names()
    code, _, said = machine.type("restore", backup, "--yes")

    assert lost == {"web": True}
    assert (code, machine.names()) == (0, {"web": True, "api": False})
    assert f"Restored from {backup}." in said
    assert Path(backup).stat().st_mode & 0o777 == 0o600


def test_a_backup_is_taken_while_the_platform_runs_and_no_restore(machine: Machine) -> None:
    backup = str(machine.home / "monday.backup")
    with machine.state.hold():
        backed_up = machine.type("backup", backup)
        checked = machine.type("check")
        restored = machine.type("restore", backup, "--yes")
        repaired = machine.type("repair", "--yes")

    assert (backed_up[0], checked[0]) == (0, 0)
    assert (restored[0], repaired[0]) == (6, 6)
    assert "Error: the local platform is running; stop it first" in restored[2]
    assert "local down" in restored[2]


def test_a_damaged_backup_is_refused_before_anything_is_asked(machine: Machine) -> None:
    backup = machine.home / "monday.backup"
    machine.type("backup", str(backup))
    content = backup.read_bytes()
    backup.write_bytes(content.replace(b'"Thing"', b'"Thong"'))

    code, _, said = machine.type("restore", str(backup), "--yes")

    assert code == 1
    assert f"Error: {backup} is damaged: plane project/demo workloads ns/" in said
    assert machine.names() == {"web": True, "api": False}


@pytest.mark.parametrize("content", [b"kind: Workload\n", b"", b"SQLite format 3"])
def test_a_file_that_is_no_backup_is_not_called_damaged(machine: Machine, content: bytes) -> None:
    file = machine.home / "a.yaml"
    file.write_bytes(content)

    code, _, said = machine.type("restore", str(file), "--yes")

    assert code == 1
    assert said == f"Error: {file} is not a backup: it is not a SQLite database\n"
    assert machine.names() == {"web": True, "api": False}


def test_a_database_with_nothing_in_it_is_no_backup(machine: Machine) -> None:
    file = machine.home / "empty.db"
    with closing(apsw.Connection(str(file))) as db:
        db.execute("PRAGMA user_version = 0")
        db.execute("VACUUM")

    code, _, said = machine.type("restore", str(file), "--yes")

    assert code == 1
    assert said == f"Error: {file} is not a backup: nothing is stored in it\n"


@pytest.mark.parametrize("detach", [True, False])
def test_a_damaged_platform_does_not_start_and_names_object_and_next_command(
    machine: Machine, detach: bool
) -> None:
    machine.damage("name = 'api'")
    words = ["up", "--detach"] if detach else ["up"]

    code, _, said = machine.type(*words)

    assert code == 1
    assert (
        f"Error: the platform did not start: {machine.state.database} is damaged: plane"
        " project/demo workloads ns/api: revision 176722560000002 does not match its checksum"
    ) in said
    assert f"Try:  datumctl-compute local check --data-dir {machine.state.path}" in said


def test_reset_removes_what_repairs_have_kept(machine: Machine) -> None:
    machine.damage("name = 'api'")
    machine.type("repair", "--yes")

    assert machine.type("reset", "--yes")[0] == 0
    assert [each.name for each in machine.state.path.iterdir()] == ["lock"]


def test_other_settings_than_the_running_ones_are_named_with_both_values(machine: Machine) -> None:
    flags = ("--cities=DFW,LAX", "--port=7001", "--grant=instances=5")
    with machine.state.hold():
        machine.state.store_settings(LocalSettings(port=7443))
        machine.state.announce(RunningPlatform(1, "https://127.0.0.1:7443", "demo", "2026-01-01"))

        code, _, err = machine.type("up", *flags, "--project=demo")

    assert code == 2
    assert err.splitlines()[0] == (
        "Error: a local platform is running with other settings: --cities is DFW,IAD,LHR, asked"
        " for DFW,LAX; --port is 7443, asked for 7001; --grant instances is 100, asked for 5"
    )


async def write_deployment(state: StateDirectory, city: str) -> None:
    store = LogStore(SimulatedEnvironment(), str(state.database))
    spec = {"cityCode": city, "workloadRef": {"name": "web"}}
    store.open_plane("project/demo").put(DEPLOYMENTS, {**thing("web-x"), "spec": spec}, None)
    await store.wait_durable()
    store.close()


@pytest.mark.parametrize(("cities", "warned"), [("DFW,IAD", True), ("DFW,LHR", False)])
def test_a_start_without_a_city_that_workloads_use_names_them(
    machine: Machine, cities: str, warned: bool
) -> None:
    run(write_deployment(machine.state, "LHR"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])  # so that the platform does not start

        _, _, said = machine.type("up", "--cities", cities, "--port", port)

    again = f"datumctl-compute local up --detach --cities {cities},LHR"
    assert ("Warning: LHR is left out, but web runs there.\n" in said) is warned
    assert (again in said) is warned
    assert "IAD is left out" not in said
