"""A server killed in the middle of writes has kept every write it acknowledged.

The writes are creates, applies, patches and deletes of a kind with a rule in CEL, each reviewed by
a webhook. A watch goes on after each restart from the revision it has seen last.
"""

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
from typing import Any

import pytest

from tests.support.apiserver.gallery import webhooks
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, widget
from tests.support.paths import ROOT

pytestmark = [pytest.mark.long, pytest.mark.realtime, pytest.mark.timeout(900)]

TOKEN = "token-of-a-test"
PLANE = "/clusters/dfw"
PATH = f"{PLANE}{WIDGETS_PATH}"
DEFINITIONS = f"{PLANE}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
ROUNDS = 50
WRITERS = 4
GONE = (OSError, http.client.HTTPException, ValueError)
"""What a client meets when the server is killed, perhaps in the middle of a response."""


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

    def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        response = self.open(method, path, body, content_type)
        return response.status, json.loads(response.read())

    def open(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": content_type}
        self._http.request(method, path, json.dumps(body) if body else None, headers)
        return self._http.getresponse()

    def close(self) -> None:
        self._http.close()


class Acknowledged:
    """The revision of each object as its writer was told it; None once it is deleted."""

    def __init__(self) -> None:
        self.revisions: dict[str, int | None] = {}
        self.all: set[int] = set()
        self.unanswered: dict[str, str] = {}
        """Objects whose last write was not answered, and its method."""
        self.count = 0
        self._changed = threading.Condition()

    def begin(self, name: str, method: str) -> None:
        with self._changed:
            self.unanswered[name] = method

    def end(self, name: str, code: int, answer: dict[str, Any], method: str) -> None:
        with self._changed:
            del self.unanswered[name]
            if code not in (200, 201):
                return
            if method == "DELETE":
                self.revisions[name] = None
            else:
                revision = self.revisions[name] = int(answer["metadata"]["resourceVersion"])
                self.all.add(revision)
            self.count += 1
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, timeout=60)

    def check(self, found: dict[str, int]) -> None:
        """What is stored is what was acknowledged, or what was asked for and not answered."""
        for name, method in self.unanswered.items():
            before, after = self.revisions.get(name), found.get(name)
            is_done = method == "DELETE" if after is None else after > (before or 0)
            assert after == before or is_done, name
            self.revisions[name] = after
        self.unanswered.clear()
        kept = {name: revision for name, revision in self.revisions.items() if revision}
        assert found == kept


class Watcher:
    """Follows the objects over all restarts of the server."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.seen: list[int] = []
        self.state: dict[str, int] = {}

    def follow(self, directory: Path, port: int) -> None:
        """Until the server is gone."""
        connection = Connection(directory, port)
        try:
            response = connection.open("GET", f"{PATH}?watch=true&resourceVersion={self.revision}")
            assert response.status == 200
            while line := response.readline():
                self._take(json.loads(line))
        except GONE:
            pass
        finally:
            connection.close()

    def _take(self, event: dict[str, Any]) -> None:
        assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
        metadata = event["object"]["metadata"]
        name, self.revision = metadata["name"], int(metadata["resourceVersion"])
        # ADDED exactly where the watch did not know it: nothing was left out or shown twice.
        assert (event["type"] == "ADDED") is (name not in self.state), event
        self.seen.append(self.revision)
        if event["type"] == "DELETED":
            del self.state[name]
        else:
            self.state[name] = self.revision


def write(directory: Path, port: int, prefix: str, seed: int, acknowledged: Acknowledged) -> None:
    """One write after another until the server is gone."""
    chance = random.Random(seed)
    connection = Connection(directory, port)
    try:
        while True:
            name = f"{prefix}-{chance.randrange(8)}"
            method, path, body, form = request(name, chance)
            acknowledged.begin(name, method)
            code, answer = connection.call(method, path, body, form)
            assert code in (200, 201, 404, 409), answer
            acknowledged.end(name, code, answer, method)
    except GONE:
        pass
    finally:
        connection.close()


def request(name: str, chance: random.Random) -> tuple[str, str, object, str]:
    spec = {"size": chance.randrange(100)}
    match chance.randrange(5):
        case 0:
            return "POST", PATH, widget(name, spec), "application/json"
        case 1 | 2:
            query = f"fieldManager={chance.choice(('ana', 'ben'))}&force=true"
            return "PATCH", f"{PATH}/{name}?{query}", widget(name, spec), APPLY
        case 3:
            return "PATCH", f"{PATH}/{name}", {"spec": spec}, MERGE
        case _:
            return "DELETE", f"{PATH}/{name}", None, "application/json"


def listed(directory: Path, port: int) -> tuple[dict[str, int], int]:
    """Every object's revision, and the server's own."""
    connection = Connection(directory, port)
    try:
        code, page = connection.call("GET", PATH)
    finally:
        connection.close()
    assert code == 200, page
    found = {
        each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in page["items"]
    }
    return found, int(page["metadata"]["resourceVersion"])


def configure(directory: Path, port: int, url: str, bundle: str) -> None:
    rule = {"rule": "self.spec.size < 1000", "message": "too large"}
    crd = json.loads(json.dumps(WIDGET_CRD))
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [rule]
    reviewed = {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["*"]}
    rules = [{**reviewed, "resources": ["widgets"]}]
    hook = webhooks.hook(
        url, bundle, "/allow", rules=rules, failurePolicy="Fail", timeoutSeconds=20
    )
    connection = Connection(directory, port)
    try:
        for path, body in (
            (DEFINITIONS, crd),
            (f"{PLANE}{webhooks.VALIDATING}", webhooks.configuration(hook)),
        ):
            code, answer = connection.call("POST", path, body)
            assert code == 201, answer
    finally:
        connection.close()


def test_acknowledged_writes_survive_kills_and_a_watch_misses_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    acknowledged = Acknowledged()
    watcher: Watcher | None = None
    reached = 0
    certificates = tmp_path / "webhooks"
    certificates.mkdir()
    with webhooks.webhook_process(certificates) as (url, bundle):
        for number in range(ROUNDS):
            with running(tmp_path) as (process, port):
                if watcher is None:
                    configure(tmp_path, port, url, bundle)
                found, revision = listed(tmp_path, port)
                acknowledged.check(found)
                assert revision >= reached
                reached = revision
                watcher = watcher or Watcher(revision)
                threads = [threading.Thread(target=watcher.follow, args=(tmp_path, port))]
                threads += [
                    threading.Thread(
                        target=write,
                        args=(tmp_path, port, f"w{writer}", 100 * number + writer, acknowledged),
                    )
                    for writer in range(WRITERS)
                ]
                for thread in threads:
                    thread.start()
                acknowledged.wait_for(acknowledged.count + chance.randrange(5, 60))
                process.kill()
                for thread in threads:
                    thread.join(20)

    assert watcher is not None
    with running(tmp_path) as (process, port):
        found, _ = listed(tmp_path, port)
        acknowledged.check(found)
        last = threading.Thread(target=watcher.follow, args=(tmp_path, port))
        last.start()
        for _ in range(600):
            if watcher.state == found:
                break
            last.join(0.1)
        process.kill()
        last.join(20)
    assert watcher.state == found
    assert watcher.seen == sorted(set(watcher.seen))
    assert set(watcher.seen) >= acknowledged.all
    assert acknowledged.count > 5 * ROUNDS
