"""Commands and shells in the containers of a local platform."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from datum_compute.api import planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.remote_command import CommandRequest, RemoteCommand, start_command
from datum_compute.env import SystemEnvironment
from datum_compute.providers.container import host
from datum_compute.providers.sandbox import LABEL_NAME
from tests.support.cli.container_platform import Person, wait_until
from tests.support.cli.pseudo_terminal import CTRL_C, Terminal

pytestmark = pytest.mark.containers

NAME = "hello-default-dfw-0"


@pytest.fixture(scope="module")
def person(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    found = Person(engine, tmp_path_factory.mktemp("platform") / "state")
    try:
        found.starts()
        found.succeeds(
            "deploy", "hello", f"--image={host.BUSYBOX_IMAGE}", "--city=DFW,LHR", "--port=80"
        )
        yield found
    finally:
        found.types("local", "reset", "--yes")


def test_a_command_has_its_streams_and_its_exit_code(person: Person) -> None:
    done = person.types("exec", NAME, "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)
    words = person.types("exec", NAME, "--", "echo", "a", "--", "-b", "c d")
    assert (words.stdout, words.returncode) == ("a -- -b c d\n", 0)


@pytest.mark.parametrize("size", [0, 10, 3_000_000])
def test_a_pipe_goes_through_a_command_and_comes_back(person: Person, size: int) -> None:
    typed = "0123456789" * (size // 10)
    done = person.types("exec", "-i", NAME, "--", "cat", typed=typed)
    assert (done.stdout, done.stderr, done.returncode) == (typed, "", 0)


def test_a_command_that_does_not_read_its_input_has_its_exit_code(person: Person) -> None:
    typed = "0123456789" * 1_000_000
    done = person.types("exec", "-i", NAME, "--", "/bin/sh", "-c", "exit 5", typed=typed)
    assert done.returncode == 5
    assert "Broken pipe" not in done.stderr


def test_a_file_can_be_the_input(person: Person) -> None:
    source = person.state.path.parent / "input"
    source.write_text("from a file\n")
    with source.open() as opened:
        done = subprocess.run(
            person.command("exec", "-i", NAME, "--", "cat"),
            stdin=opened,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=person.environment,
        )
    assert (done.stdout, done.returncode) == ("from a file\n", 0)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["exec", NAME, "--", "/nope"], 1, "its command cannot be run: /nope: stat /nope"),
        (["exec", "hello-default-dfw-9", "--", "ls"], 5, "not found in project demo"),
        (["exec", NAME, "--container", "web", "--", "ls"], 1, 'no container "web": found app'),
        (["exec", "-t", NAME, "--", "ls"], 2, "-t needs a terminal"),
        (["exec", NAME], 2, "missing argument: COMMAND, after --"),
        (["ssh", "nosuch"], 5, 'workload "nosuch" not found'),
        (["ssh", "hello", "--city", "XYZ"], 5, 'city "XYZ" not found'),
    ],
)
def test_what_cannot_be_run_is_said_in_words(
    person: Person, words: list[str], code: int, message: str
) -> None:
    done = person.types(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr


def test_a_shell_has_this_terminal_and_its_size(person: Person) -> None:
    terminal = person.at_a_terminal("ssh", "hello", "--city", "lhr")
    terminal.sees("/bin/sh in hello-default-lhr-0; Ctrl-D ends it.")
    terminal.sees("/ # ")
    terminal.types("hostname; cat")
    terminal.sees("hello-default-lhr-0\r\n")
    assert not terminal.shows_typing
    terminal.types("again")
    terminal.sees("again\r\nagain\r\n")  # of the terminal and of cat, which the next key ends
    terminal.types(CTRL_C)
    terminal.sees("/ # ")
    terminal.resize(99, 33)
    terminal.types("sleep 1; busybox stty size; exit 5")
    terminal.sees("33 99")
    assert terminal.ends() == 5
    assert terminal.was_restored


def shell(person: Person) -> Terminal:
    terminal = person.at_a_terminal("exec", "-it", NAME, "--", "/bin/sh")
    terminal.sees("/ # ")
    assert not terminal.shows_typing
    return terminal


def test_the_terminal_is_put_back_when_the_program_is_ended(person: Person) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        terminal = shell(person)
        os.kill(terminal.pid, number)
        assert terminal.ends() == 128 + number
        assert terminal.was_restored


def test_sessions_are_limited_recorded_and_freed(person: Person) -> None:
    terminals = [shell(person) for _ in range(3)]
    refused = person.types("exec", NAME, "--", "ls")
    assert refused.returncode == 1
    assert f'instance "{NAME}" has 3 sessions, which is the most at once' in refused.stderr
    for terminal in terminals:
        terminal.types("exit")
        assert terminal.ends() == 0
    person.succeeds("exec", NAME, "--", "ls")

    described = json.loads(person.succeeds("instances", "describe", NAME, "-o", "json"))
    events = [each for each in described["events"] if each["reason"] == "CommandRun"]
    assert "local-admin runs /bin/sh in container app" in {each["message"] for each in events}
    log = (person.state.path / "platform.log").read_text()
    assert "command started" in log
    assert "command ended" in log


def test_output_without_a_reader_does_not_fill_the_platforms_memory(person: Person) -> None:
    pid = person.state.holder()
    before = resident(pid)
    flood = "busybox dd if=/dev/zero bs=65536 count=16384 2>/dev/null"  # a gigabyte
    reader = subprocess.Popen(
        person.command("exec", NAME, "--", "/bin/sh", "-c", flood),
        stdout=subprocess.PIPE,
        env=person.environment,
    )
    assert reader.stdout is not None
    assert len(reader.stdout.read(100_000)) == 100_000
    os.kill(reader.pid, signal.SIGSTOP)
    try:
        # Some commands, while the platform could go on reading.
        most = max(resident(pid) for _ in range(5) if person.succeeds("instances"))
    finally:
        reader.kill()
        reader.communicate()
    assert most - before < 32 * 2**20
    wait_until(
        lambda: person.types("exec", NAME, "--", "ls").returncode == 0, "the session is not freed"
    )


def running(person: Person, marker: str) -> list[str]:
    """The processes of the first instance whose command has this word."""
    [found] = [each for each in person.containers() if each["Labels"][LABEL_NAME] == NAME]
    inside = os.readlink(f"/proc/{person.process_of(str(found['Id']))}/ns/pid")
    shown = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if marker in words and os.readlink(entry / "ns/pid") == inside:
                shown.append(words)
        except OSError:
            continue  # it has ended meanwhile
    return shown


@pytest.mark.parametrize(
    ("script", "number"),
    [
        ("sleep 4321; echo done", signal.SIGKILL),
        ("sleep 4321; echo done", signal.SIGINT),
        ("trap '' HUP TERM; sleep 4321 & sleep 4321; sleep 4321", signal.SIGTERM),
        ("busybox yes 4321", signal.SIGKILL),
    ],
)
def test_nothing_is_left_of_a_command_whose_client_is_killed(
    person: Person, script: str, number: signal.Signals
) -> None:
    client = subprocess.Popen(
        person.command("exec", NAME, "--", "/bin/sh", "-c", script),
        stdout=subprocess.PIPE,
        env=person.environment,
    )
    try:
        wait_until(lambda: bool(running(person, "4321")), "the command does not run")
        client.send_signal(number)
        wait_until(lambda: not running(person, "4321"), "the command runs on", seconds=20)
    finally:
        client.kill()
        client.communicate()
    assert running(person, "httpd")
    person.succeeds("exec", NAME, "--", "ls")


def test_of_two_hundred_sessions_at_once_three_run_and_nothing_is_left(person: Person) -> None:
    pid = person.state.holder()
    before = resident(pid)
    running_now, refused = asyncio.run(_open_sessions(person, 200))

    assert (running_now, refused) == (3, 197)
    wait_until(lambda: not running(person, "4321"), "a command runs on", seconds=20)
    assert resident(pid) - before < 32 * 2**20
    person.succeeds("exec", NAME, "--", "ls")


async def _open_sessions(person: Person, number: int) -> tuple[int, int]:
    """How many of so many at once run, and how many were refused for being too many."""
    env = SystemEnvironment()
    server = person.state.running()
    assert server is not None
    client = ApiClient(
        HttpTransport(server.address, ca_pem=person.state.ca_pem(), max_connections=number),
        cluster="demo",
        prefix=planes.plane_prefix(planes.PROJECT.plane("demo")),
        token=person.state.token() or "",
    )
    request = CommandRequest(("/bin/sh", "-c", "sleep 4321"))
    try:
        found = await asyncio.gather(
            *(
                start_command(client, compute.INSTANCES, NAME, "default", request, env)
                for _ in range(number)
            ),
            return_exceptions=True,
        )
        others = [each for each in found if not isinstance(each, RemoteCommand | errors.Throttled)]
        assert not others, others[0]
        sessions = [each for each in found if isinstance(each, RemoteCommand)]
        for each in sessions:
            await each.aclose()
        return len(sessions), number - len(sessions)
    finally:
        await client.close()


def test_a_gigabyte_of_output_arrives_whole(person: Person) -> None:
    pid = person.state.holder()
    before = most = resident(pid)
    flood = "busybox dd if=/dev/zero bs=65536 count=16384 2>/dev/null; exit 3"
    command = person.command("exec", NAME, "--", "/bin/sh", "-c", flood)
    size = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=person.environment) as reader:
        assert reader.stdout is not None
        while part := reader.stdout.read(2**20):
            size += len(part)
            most = max(most, resident(pid))
    assert (size, reader.returncode) == (2**30, 3)
    assert most - before < 32 * 2**20


def resident(pid: int | None) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_session_ends_with_its_instance_and_with_the_platform(person: Person) -> None:
    terminal = shell(person)
    person.succeeds("restart", "hello", "--city", "DFW", "--window=0s")
    assert terminal.ends() != 0
    assert terminal.was_restored

    terminal = shell(person)
    person.succeeds("local", "down")
    assert terminal.ends() != 0
    assert terminal.was_restored
    log = (person.state.path / "platform.log").read_text()
    assert log.count("command started") == log.count("command ended")
    person.starts()
    wait_until(
        lambda: all(each["status"] == "Available" for each in person.instances()),
        "its instances do not start again",
    )
