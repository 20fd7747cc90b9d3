"""A server killed in the middle of writes has kept every write it acknowledged."""

from __future__ import annotations

import http.client
import json
import os
import random
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.apiserver.widgets import WIDGETS_PATH, widget
from tests.support.paths import ROOT

pytestmark = [pytest.mark.long, pytest.mark.realtime]

TOKEN = "token-of-a-test"
PATH = f"/clusters/dfw{WIDGETS_PATH}"
ROUNDS = 5
WRITERS = 4


@contextmanager
def running(directory: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.apiserver.killable_server", str(directory), TOKEN],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


class Connection:
    def __init__(self, directory: Path, port: int) -> None:
        tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        self._http = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=tls)

    def call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self._http.request(method, path, json.dumps(body) if body else None, headers)
        response = self._http.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        self._http.close()


class Acknowledged:
    """The acknowledged writes: names and revisions, by several writers."""

    def __init__(self) -> None:
        self.revisions: dict[str, int] = {}
        self._changed = threading.Condition()

    def add(self, name: str, revision: int) -> None:
        with self._changed:
            self.revisions[name] = revision
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.revisions) >= count, timeout=30)


def write(directory: Path, port: int, prefix: str, acknowledged: Acknowledged) -> None:
    """Create one after another until the server is gone."""
    connection = Connection(directory, port)
    try:
        for number in range(100_000):
            name = f"{prefix}-{number}"
            code, made = connection.call("POST", PATH, widget(name, {"size": number}))
            assert code == 201
            metadata = made["metadata"]
            assert isinstance(metadata, dict)
            acknowledged.add(name, int(metadata["resourceVersion"]))
    except (OSError, http.client.HTTPException, ValueError):
        pass  # killed, perhaps in the middle of a response
    finally:
        connection.close()


def found(directory: Path, port: int) -> tuple[dict[str, int], int]:
    """Every object's revision, and the server's own."""
    connection = Connection(directory, port)
    try:
        code, page = connection.call("GET", PATH)
    finally:
        connection.close()
    assert code == 200
    items, metadata = page["items"], page["metadata"]
    assert isinstance(items, list)
    assert isinstance(metadata, dict)
    listed = {one["metadata"]["name"]: int(one["metadata"]["resourceVersion"]) for one in items}
    return listed, int(metadata["resourceVersion"])


def test_acknowledged_writes_survive_kills(tmp_path: Path) -> None:
    chance = random.Random(7)
    acknowledged = Acknowledged()
    reached = 0

    for number in range(ROUNDS):
        with running(tmp_path) as (process, port):
            before, revision = found(tmp_path, port)
            assert before.items() >= acknowledged.revisions.items()
            assert revision >= max([reached, *acknowledged.revisions.values()])
            reached = revision

            more = len(acknowledged.revisions) + chance.randrange(20, 400)
            writers = [
                threading.Thread(
                    target=write, args=(tmp_path, port, f"w{number}-{writer}", acknowledged)
                )
                for writer in range(WRITERS)
            ]
            for thread in writers:
                thread.start()
            acknowledged.wait_for(more)
            process.kill()
            for thread in writers:
                thread.join(20)

    with running(tmp_path) as (_, port):
        kept, revision = found(tmp_path, port)
    assert kept.items() >= acknowledged.revisions.items()
    assert revision >= max(kept.values())
    # At most one write of each writer and round was done but not answered.
    assert len(kept) <= len(acknowledged.revisions) + ROUNDS * WRITERS
