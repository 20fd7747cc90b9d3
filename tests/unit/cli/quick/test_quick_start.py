"""A short command loads little and skips teardown."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest

from scripts.build_plugin import MAIN, RUN_FROM_THE_ZIP
from tests.support.client.socket_server import RequestHead, ServedConnection, serve_script

HEAVY = frozenset(
    {
        *("apsw", "asyncio", "cryptography", "httptools", "msgspec", "rich", "uvicorn", "yaml"),
        *(
            "concurrent",
            "dataclasses",
            "email",
            "hashlib",
            "http",
            "inspect",
            "ipaddress",
        ),
        *("logging", "pathlib", "random", "secrets", "shlex", "shutil", "subprocess"),
        *("tempfile", "threading", "tokenize", "urllib", "uuid", "zipfile"),
    }
)
"""What a plain read loads nothing of. Each takes milliseconds that a person waits."""

HELP = HEAVY | {"datetime", "json", "socket", "ssl"}
"""And help not even that."""

WORKLOAD: dict[str, Any] = {
    "kind": "Workload",
    "metadata": {"name": "api", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"template": {"spec": {}}, "placements": []},
}
REVISION = {"rev": 1, "timestamp": "2026-01-01T00:00:00Z", "spec": WORKLOAD["spec"]}
HISTORY = {
    "kind": "ConfigMap",
    "metadata": {
        "name": "history",
        "annotations": {"compute.datumapis.com/current-revision": "1"},
        "ownerReferences": [{"uid": "1"}],
    },
    "data": {"1": json.dumps(REVISION)},
}
READS = (
    ["instances"],
    ["instances", "-o", "json"],
    ["instances", "-o", "name"],
    ["workloads"],
    ["status", "api"],
    ["cities"],
    ["quota"],
    ["config"],
    ["secrets", "list"],
    ["instance-types"],
    ["rollout", "history", "api"],
    ["rollout", "status", "api", "--no-wait"],
)


def answer_to(head: RequestHead) -> dict[str, Any]:
    """An empty project that may use compute."""
    path = urlsplit(head.target).path
    if path.endswith("/serviceentitlements/compute"):
        ready = {"type": "Ready", "status": "True"}
        return {
            "kind": "ServiceEntitlement",
            "metadata": {"name": "compute"},
            "status": {"phase": "Active", "conditions": [ready]},
        }
    if path.endswith("/workloads/api"):
        return WORKLOAD
    if "/configmaps/" in path:
        return HISTORY
    kind = path.rpartition("/")[2].capitalize() + "List"
    return {"kind": kind, "apiVersion": "v1", "metadata": {}, "items": []}


async def platform(connection: ServedConnection) -> None:
    while head := await connection.request():
        await connection.answer(json.dumps(answer_to(head)).encode())


def loaded_by(argv: list[str]) -> set[str]:
    """The packages that a process of its own has loaded when the command is done."""
    program = (
        "import sys; from datum_compute.cli import main\n"
        f"sys.argv = ['datumctl-compute', *{argv!r}]\n"
        "try:\n    code = main.run()\nexcept SystemExit as ended:\n    code = ended.code\n"
        "names = sorted({name.partition('.')[0] for name in sys.modules})\n"
        "sys.exit(code) if code else print('\\n', *names)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.realtime
@pytest.mark.parametrize("argv", READS, ids=" ".join)
async def test_a_plain_read_loads_nothing_heavy(argv: list[str]) -> None:
    async with serve_script(platform) as port:
        flags = ["--server", f"http://127.0.0.1:{port}", "--project", "demo", "--token", "x"]
        loaded = await asyncio.to_thread(loaded_by, [*argv, *flags])

    assert loaded & HEAVY == set()


@pytest.mark.parametrize("argv", [["--help"], ["instances", "--help"], ["--version"]])
def test_help_loads_few_modules(argv: list[str]) -> None:
    assert loaded_by(argv) & (HELP if argv == ["--help"] else HEAVY) == set()


def test_the_plugin_file_holds_the_modules_that_help_loads() -> None:
    """They are loaded from the zip, which holds no others in that form."""
    program = (
        "import sys; sys.argv = ['datumctl-compute', '--help']\n"
        "from datum_compute.cli.quick.start import run; from datum_compute.cli import main\n"
        "try:\n    main.run()\nexcept SystemExit:\n    pass\n"
        "print('\\n', *(m.__file__ for n, m in sys.modules.items() if n.startswith('datum_')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )

    files = done.stdout.splitlines()[-1].split()
    loaded = {f"datum_compute{each.rpartition('datum_compute')[2]}" for each in files}
    assert loaded == {*RUN_FROM_THE_ZIP} - {MAIN}


def started(*argv: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """The program as a process, with an exit handler that prints when it runs."""
    program = (
        "import atexit, sys; atexit.register(lambda: print('taken apart'))\n"
        f"sys.argv = ['datumctl-compute', *{argv!r}]\n{before}\n"
        "from datum_compute.cli.quick.start import run\nsys.exit(run())\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30
    )


@pytest.mark.parametrize(
    ("argv", "code"), [(["--help"], 0), (["version"], 0), (["nonsense"], 2), ([], 2)]
)
def test_a_short_command_skips_teardown_and_prints_everything(argv: list[str], code: int) -> None:
    done = started(*argv)

    assert done.returncode == code
    assert (done.stdout if code == 0 else done.stderr).endswith("\n")
    assert "taken apart" not in done.stdout


def test_a_process_with_threads_is_torn_down_normally() -> None:
    done = started("version", before="import threading")

    assert done.returncode == 0
    assert done.stdout.endswith("taken apart\n")


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_closed_streams_do_not_fail_a_command(closed: str) -> None:
    done = started(
        "version", before=f"import os; os.close(sys.{closed}.fileno()); sys.{closed} = None"
    )

    assert done.returncode == 0


def test_output_that_cannot_be_written_fails_the_command() -> None:
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "datum_compute.cli", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=variables,
            timeout=30,
        )

    assert done.returncode != 0
