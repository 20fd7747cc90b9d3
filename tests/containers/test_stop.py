"""How a platform stops while connections, commands and followed logs are open."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from datum_compute.providers.container import host
from tests.support.cli.container_platform import Person, wait_until

pytestmark = pytest.mark.containers

NAME = "hold-default-dfw-0"
STOPPED_WITHIN_SECONDS = 8.0
"""What is in progress at the router has 2 seconds; the rest is a margin for a busy machine."""
IDLE = 50


@pytest.fixture
def person(engine: str, state: Path) -> Iterator[Person]:
    found = Person(engine, state)
    try:
        found.starts()
        yield found
    finally:
        found.types("local", "reset", "--yes")


def half_closed(address: tuple[str, int], sent: bytes) -> socket.socket:
    """A client that has sent everything, and waits for an answer that does not come."""
    found = socket.create_connection(address, 10)
    found.sendall(sent)
    found.shutdown(socket.SHUT_WR)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_platform_stops_in_time_with_everything_open(
    person: Person, number: signal.Signals
) -> None:
    words = ["--command=/bin/busybox", "--arg=nc", "--arg=-ll", "--arg=-p", "--arg=80"]
    words += ["--arg=-e", "--arg=sleep", "--arg=3600", "--sleep-after=1h", "--http-port=80"]
    image = f"--image={host.BUSYBOX_IMAGE}"
    url = person.succeeds("deploy", "hold", image, "--city=DFW", *words, "--yes").splitlines()[-1]
    routed = urlsplit(url)
    router = ("127.0.0.1", routed.port or 80)
    [instance] = person.instances()
    request = f"GET / HTTP/1.1\r\nhost: {routed.netloc}\r\n\r\n".encode()
    pid = person.state.holder()
    assert pid is not None
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(socket.create_connection(router, 10))
            stack.enter_context(socket.create_connection((instance["externalIP"], 80), 10))
        stack.enter_context(half_closed((instance["externalIP"], 80), b"half"))
        stack.enter_context(half_closed(router, request))
        waiting = stack.enter_context(socket.create_connection(router, 10))
        waiting.sendall(request)
        terminal = person.at_a_terminal("exec", "-it", NAME, "--", "/bin/sh")
        terminal.sees("/ # ")
        followed = stack.enter_context(
            subprocess.Popen(
                person.command("logs", "hold", "--follow"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=person.environment,
            )
        )
        stack.callback(followed.kill)
        watched = os.pidfd_open(pid)
        stack.callback(os.close, watched)
        started = time.monotonic()
        os.kill(pid, number)
        ended, _, _ = select.select([watched], [], [], STOPPED_WITHIN_SECONDS)
        assert ended, f"it has not stopped after {time.monotonic() - started:.1f}s"
        assert terminal.ends() != 0
    assert not person.state.is_held()
    person.starts()
    wait_until(
        lambda: [each["status"] for each in person.instances()] == ["Available"],
        "its instance does not start again",
    )
