"""User mistakes with the command line and the local platform, in real processes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from datum_compute.assembly.local.state import StateDirectory

pytestmark = [pytest.mark.long, pytest.mark.realtime]

CTRL_C, CTRL_D = b"\x03", b"\x04"
DOCUMENT = """\
apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: NAME}
spec:
  template:
    spec:
      runtime:
        resources: {instanceType: datumcloud/d1-standard-2}
        sandbox: {containers: [{name: app, image: acme/x:1}]}
      networkInterfaces: [{network: {name: default}}]
  placements: [{name: default, cityCodes: [CITY], scaleSettings: {minReplicas: 1}}]
---
"""


class Shell:
    """A state directory, with and without a terminal."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = StateDirectory(directory / "a state")
        self._environment = {
            "HOME": str(directory),
            "PATH": os.defpath,
            "DATUM_RUNTIME": "simulated",
        }

    def command(self, *words: str) -> list[str]:
        program = [sys.executable, "-m", "datum_compute.cli"]
        place = [] if "--server" in words else ["--data-dir", str(self.state.path)]
        return [*program, *words, *place]

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
            env=self._environment,
        )
        assert "Traceback" not in done.stderr
        return done

    def starts(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words), stderr=subprocess.PIPE, text=True, env=self._environment
        )

    def at_a_terminal(self, *words: str, answers: Mapping[str, bytes]) -> tuple[int, str]:
        """Run with a terminal; when one of the texts shows, its answer is typed, in order."""
        pid, terminal = pty.fork()
        if pid == 0:
            command = self.command(*words)
            os.execve(command[0], command, self._environment)
        text, left = "", dict(answers)
        while select.select([terminal], [], [], 60)[0]:
            try:
                text += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # Linux reports it when the last program closes a terminal
                break
            while left and (prompt := next(iter(left))) in text:
                os.write(terminal, left.pop(prompt))
        else:
            os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    user = Shell(tmp_path)
    try:
        yield user
    finally:
        pid = user.state.holder()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)


def ended(pid: int) -> bool:
    """Wait until a process that is not our child is gone."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 10)[0])
    finally:
        os.close(watched)


def test_ctrl_c_detaches_after_a_write_and_interrupts_before_one(shell: Shell) -> None:
    shell.types("local", "up", "--detach", "--cities", "DFW")
    waits = ("deploy", "big", "--image=a", "--city=DFW", "--min=300")

    code, text = shell.at_a_terminal(*waits, answers={"PLACEMENT": CTRL_C})
    assert (code, "Detached; the rollout of" in text) == (130, True), text
    code, text = shell.at_a_terminal(*waits, answers={"PLACEMENT": CTRL_C})
    assert (code, "Detached" in text) == (130, False), "nothing was written this time"

    for answer, expected in ((CTRL_C, 130), (CTRL_D, 9), (b"\n", 9)):
        code, text = shell.at_a_terminal("destroy", "big", answers={"[y/N]": answer})
        assert code == expected, text
    assert shell.types("destroy", "big").returncode == 2
    code, text = shell.at_a_terminal(
        "destroy", "big", answers={"[y/N]": b"y\n", "Removing": CTRL_C}
    )
    assert (code, "Detached; the deletion of" in text) == (130, True), text
    assert shell.types("destroy", "big", "--yes").returncode in (0, 5)


def test_a_file_with_one_invalid_document_deploys_nothing(shell: Shell) -> None:
    shell.types("local", "up", "--detach", "--cities", "DFW")
    file = shell.directory / "two.yaml"
    good = DOCUMENT.replace("NAME", "good").replace("CITY", "DFW")
    bad_city = DOCUMENT.replace("NAME", "bad").replace("CITY", "ZZZ")
    bad_field = DOCUMENT.replace("NAME", "bad").replace("CITY", "DFW").replace("image:", "imge:")

    for bad, code in ((bad_city, 7), (bad_field, 2)):
        file.write_text(good + bad)
        done = shell.types("deploy", "-f", str(file), "--no-wait")
        assert done.returncode == code
        assert "datumapis.com" not in done.stderr
        assert shell.types("status", "good").returncode == 5

    file.write_text(good + DOCUMENT.replace("NAME", "also").replace("CITY", "DFW"))
    done = shell.types("deploy", "-f", str(file), "-o", "json", "--window=0s")
    assert [(v["name"], v["action"]) for v in json.loads(done.stdout)] == [
        ("good", "created"),
        ("also", "created"),
    ]
    done = shell.types("scale", "good", "--min=2", "-o", "json", "--window=0s")
    scaled = json.loads(done.stdout)
    assert (scaled["action"], len(scaled["instances"])) == ("scaled", 2)
    assert shell.types("destroy", "also", "--yes", "-o", "name").stdout == "workload/also\n"


def test_a_wait_survives_a_short_outage_and_fails_after_a_long_one(shell: Shell) -> None:
    shell.types("local", "up", "--detach", "--cities", "DFW", "--grant", "instances=5")
    waiting = shell.starts("deploy", "big", "--image=a", "--city=DFW", "--min=6", "--window=0s")
    assert waiting.stderr is not None
    line = next(line for line in waiting.stderr if "PLACEMENT" in line)

    pid = shell.state.holder()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert ended(pid)
    assert shell.types("local", "up", "--detach").returncode == 0
    line = next(line for line in waiting.stderr if "Blocked" in line)
    assert "requested 1, available 0" in line

    assert shell.types("local", "down").returncode == 0
    rest = waiting.stderr.read()
    assert waiting.wait(60) == 1
    assert 'lost contact with the platform while waiting for "big"' in rest
    assert "Traceback" not in rest
    waiting.stderr.close()


def test_simultaneous_starts_share_one_platform(shell: Shell) -> None:
    both = [shell.starts("local", "up", "--detach", "--cities", "DFW") for _ in range(3)]

    outputs = [each.communicate(timeout=60)[1] for each in both]

    assert [each.returncode for each in both] == [0, 0, 0], outputs
    assert sum("Ready in" in text for text in outputs) == 1
    assert sum("already running" in text for text in outputs) == 2
    assert shell.types("local", "up", "--detach", "--cities", "LHR").returncode == 2
    assert shell.types("local", "down").returncode == 0


def test_a_start_that_is_interrupted_leaves_nothing_behind(shell: Shell) -> None:
    code, text = shell.at_a_terminal("local", "up", "--detach", answers={"project": CTRL_C})

    assert (code, "Interrupted." in text) == (130, True), text
    assert not shell.state.is_held()


def test_ctrl_c_stops_a_foreground_platform_with_few_lines_of_output(shell: Shell) -> None:
    code, text = shell.at_a_terminal(
        "local", "up", "--cities", "DFW", answers={"get instances": CTRL_C}
    )

    assert code == 0
    assert text.partition("get instances")[2].split() in (["^C", "Stopped."], ["^CStopped."])
    assert not shell.state.is_held()


def test_a_second_ctrl_c_does_no_harm(shell: Shell) -> None:
    code, _ = shell.at_a_terminal(
        *("local", "up", "--cities", "DFW"), answers={"get instances": CTRL_C, "^C": CTRL_C}
    )

    assert code in (0, 130), "it was either quick enough by itself, or made to be"
    assert not shell.state.is_held()
    assert shell.types("local", "up", "--detach").returncode == 0


def test_a_starting_platform_can_be_stopped(shell: Shell) -> None:
    starting = shell.starts("local", "up", "--cities", "DFW")
    assert starting.stderr is not None
    while shell.state.token() is None:  # written once signals are handled
        assert starting.poll() is None, starting.stderr.read()
        select.select([], [], [], 0.05)

    assert "was stopped" in shell.types("local", "down").stderr
    assert "Stopped." in starting.stderr.read()
    assert starting.wait(10) == 0
    starting.stderr.close()


def test_open_watches_do_not_delay_a_shutdown(shell: Shell) -> None:
    shell.types("local", "up", "--detach", "--cities", "DFW")
    kubeconfig = shell.types("local", "kubeconfig").stdout
    running = shell.state.running()
    assert running is not None
    watch = "/api/v1/namespaces?watch=true"
    program = (
        "import ssl, sys, urllib.request as u\n"
        "r = u.Request(sys.argv[1], headers={'Authorization': 'Bearer ' + sys.argv[2]})\n"
        "a = u.urlopen(r, context=ssl.create_default_context(cafile=sys.argv[3]))\n"
        "[print('event', flush=True) for _ in a]\n"
    )
    assert "datum-project-demo" in kubeconfig
    watcher = subprocess.Popen(
        [
            *(sys.executable, "-c", program, running.address + watch),
            *(shell.state.token() or "", str(shell.state.certificate_authority)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert watcher.stdout is not None
    assert watcher.stdout.readline() == "event\n"

    assert shell.types("local", "down").returncode == 0

    watcher.stdout.read()
    watcher.wait(10)
    watcher.stdout.close()
    assert ended(running.pid)


def test_a_taken_port_is_named_with_a_remedy_that_keeps_the_state(shell: Shell) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])

        for flag, whose in (("--port", ""), ("--router-port", " of the router")):
            for how in (("--detach",), ()):
                done = shell.types("local", "up", "--cities", "DFW", flag, port, *how)
                assert done.returncode == 1
                assert f"port {port}{whose} is taken by another process" in done.stderr
                assert f"local up {flag} N" in done.stderr
                assert "local reset" not in done.stderr
    assert not shell.state.is_held()


def test_a_start_that_failed_is_repeated_with_its_settings(shell: Shell) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        failed = shell.types("local", "up", "--cities", "DFW", "--port", port, "--detach")

    up = shell.types("local", "up", "--detach")

    assert "its state is kept" in failed.stderr
    assert up.returncode == 0, up.stderr
    assert json.loads(shell.types("local", "status", "-o", "json").stdout)["cities"] == ["DFW"]
    assert f"--kubeconfig {shlex.quote(str(shell.state.kubeconfig))} get" in up.stderr
    assert shell.state.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_a_platform_in_the_foreground_prints_few_lines(shell: Shell) -> None:
    _, text = shell.at_a_terminal(
        "local", "up", "--cities", "DFW,LHR", answers={"get instances": CTRL_C}
    )

    assert len(text.splitlines()) < 20, text


def test_a_platform_whose_directory_is_removed_ends_and_another_can_start(shell: Shell) -> None:
    assert shell.types("local", "up", "--detach", "--cities", "DFW").returncode == 0
    pid = shell.state.holder()
    assert pid is not None
    ended = os.pidfd_open(pid)
    try:
        shutil.rmtree(shell.state.path)
        status = shell.types("local", "status")
        readable, _, _ = select.select([ended], [], [], 30)
    finally:
        os.close(ended)

    assert readable, f"process {pid} still runs"
    assert (status.returncode, "no local platform is running" in status.stderr) == (5, True)
    assert shell.types("local", "up", "--detach", "--cities", "DFW").returncode == 0
    assert shell.types("local", "down").returncode == 0


def test_a_directory_that_cannot_be_used_is_named(shell: Shell) -> None:
    shell.state.path.write_text("a file")
    for words in (("local", "up"), ("local", "up", "--detach"), ("local", "down"), ("instances",)):
        done = shell.types(*words)
        assert done.returncode in (1, 2)
        assert "Not a directory" in done.stderr

    shell.state.path.unlink()
    shell.state.create()
    (shell.state.path / "settings.json").write_text('{"cities": 5}')
    done = shell.types("local", "up", "--detach")
    assert (done.returncode, "settings.json is damaged" in done.stderr) == (1, True)
    assert "cities is 5, expected a list of city codes" in done.stderr
    assert " local reset --data-dir " in done.stderr
    done = shell.types("local", "down")
    assert (done.returncode, "settings.json is damaged" in done.stderr) == (0, True)

    (shell.state.path / "settings.json").unlink()
    shell.state.database.write_text("no database at all")
    done = shell.types("local", "up", "--detach")
    assert (done.returncode, "not a database" in done.stderr) == (1, True)


def test_suggested_commands_work_as_printed(shell: Shell) -> None:
    up = shell.types("local", "up", "--detach", "--cities", "AMS")
    suggested = up.stderr.partition("Try:")[2].splitlines()[0].strip()

    assert "--city=AMS" in suggested
    done = subprocess.run(
        ["bash", "-c", suggested],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            "HOME": str(shell.directory),
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "DATUM_RUNTIME": "simulated",
        },
    )
    assert done.returncode == 0, done.stderr
    lock = os.open(shell.state.path / "lock", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)


def test_common_mistakes_are_answered_with_the_right_command(shell: Shell) -> None:
    up = shell.types("local", "up", "--detach", "--cities", "DFW", "--grant", "instances=2")
    assert up.returncode == 0, up.stderr
    address = json.loads(shell.types("local", "status", "-o", "json").stdout)["address"]
    authority = str(shell.state.certificate_authority)
    there = ("--server", address, "--project", "demo", "--certificate-authority", authority)
    deploy = ("deploy", "web", "--image=acme/web:1")
    for words, code, expected in (
        ((*deploy, "--city=DWF"), 7, "choose from DFW"),
        ((*deploy, "--cty=DFW"), 2, 'unknown flag "--cty"; did you mean --city?'),
        ((*deploy, "--city=DFW", "--project", "dmeo"), 5, 'project "dmeo" not found'),
        (("workloads", *there, "--token", "expired"), 1, "the credential was refused"),
        ((*deploy, "--city=DFW", "--min=3", "--timeout=2s"), 4, "quota exceeded"),
        (("status", "wbe"), 5, 'workload "wbe" not found in project demo'),
    ):
        done = shell.types(*words)
        assert (done.returncode, expected in done.stderr) == (code, True), (words, done.stderr)
        assert "Try:  " in done.stderr, words


def test_a_killed_platform_restarts_with_its_settings_and_workloads(shell: Shell) -> None:
    shell.types("local", "up", "--detach", "--cities", "DFW")
    shell.types("deploy", "web", "--image=acme/web:1", "--city=DFW", "--window=0s")
    before = json.loads(shell.types("local", "status", "-o", "json").stdout)
    watched = os.pidfd_open(before["pid"])
    os.kill(before["pid"], signal.SIGKILL)
    assert select.select([watched], [], [], 30)[0], "it is gone"
    os.close(watched)

    lost = shell.types("workloads")
    assert (lost.returncode, "local up --detach" in lost.stderr) == (1, True), lost.stderr
    again = shell.types("local", "up", "--detach")

    assert again.returncode == 0, again.stderr
    after = json.loads(shell.types("local", "status", "-o", "json").stdout)
    assert (after["address"], after["cities"]) == (before["address"], ["DFW"])
    assert json.loads(shell.types("status", "web", "-o", "json").stdout)["health"] == "Available"
