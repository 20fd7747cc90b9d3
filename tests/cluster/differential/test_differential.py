"""The embedded server against the real one: the same requests, the same responses.

A seeded walk sends each request, invalid ones among them, to both servers and compares codes,
reasons, causes and objects. What always differs (uids, times, revisions, managed fields) is
removed first.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client_conformance.fixture import DEFINITION, GROUP
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.differential import (
    DEFINITIONS,
    DifferentialRequest,
    ServerSide,
    both_sides,
    outcome,
    plain,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

STEPS = 400
NAMES = ("one", "two", "three")


def message(answer: Any) -> str:
    """The message of a refusal, without uids and numbers."""
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        return ""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", answer.get("message", ""))
    return re.sub(r"\b\d{3,}\b", "N", text)


def is_known(ours: tuple[int, Any], real: tuple[int, Any]) -> bool:
    """Whether ours differs on purpose."""
    code, answer = real
    if code == 500:
        # The real server reports an internal error for a fault of the caller.
        return 400 <= ours[0] < 500
    if (ours[0], code) == (404, 409):
        # An update with a uid, of an object that does not exist.
        return "UID in object meta: " in answer["message"]
    if code == 422 and ours[0] in (400, 422):
        # A patch whose result is no object of the kind. The real server prints all of it, or
        # gives no detail.
        patched = "is invalid: patch: Invalid value:", "the server rejected our request"
        return any(words in answer["message"] for words in patched)
    return False


class Walk:
    """Generates requests from a seed."""

    def __init__(self, seed: int, namespace: str) -> None:
        self._chance = random.Random(seed)
        self._namespace = namespace
        self._widgets = f"/apis/{GROUP}/v1/namespaces/{namespace}/widgets"
        self._config_maps = f"/api/v1/namespaces/{namespace}/configmaps"

    def ask(self) -> DifferentialRequest:
        make = self._chance.choices(
            [self._create, self._read, self._list, self._update, self._patch, self._delete],
            [5, 2, 2, 4, 6, 3],
        )[0]
        return make()

    def _pick(self, *options: Any) -> Any:
        return self._chance.choice(options)

    def _usual(self, usual: Any, *odd: Any) -> Any:
        return usual if self._chance.random() < 0.7 else self._pick(*odd)

    def _path(self) -> str:
        return str(self._pick(self._widgets, self._widgets, self._config_maps))

    def _named(self) -> str:
        return f"{self._path()}/{self._usual(self._pick(*NAMES), 'absent', 'Odd_Name', '..x')}"

    def _query(self) -> Any:
        return self._usual(
            (),
            (("dryRun", "All"),),
            (("dryRun", "some"),),
            (("fieldValidation", "Strict"),),
            (("fieldValidation", "Ignore"),),
            (("fieldValidation", "odd"),),
            (("fieldManager", "walker"),),
        )

    def _object(self, path: str, name: str) -> dict[str, Any]:
        widget = path.startswith(self._widgets)
        metadata: dict[str, Any] = {"name": name, **self._metadata()}
        if not name:
            metadata.pop("generateName", None)  # generated names always differ
        obj: dict[str, Any] = {
            "apiVersion": self._often(f"{GROUP}/v1" if widget else "v1", "v2", "", None),
            "kind": self._often("Widget" if widget else "ConfigMap", "Odd", "", None),
            "metadata": metadata,
        }
        if widget:
            obj["spec"] = self._spec()
            obj["status"] = self._usual({}, {"phase": "Running"}, {"phase": "Odd"})
        else:
            obj["data"] = self._usual({"a": "1"}, {"b": "2"}, {}, {"a": ""})
        return {key: value for key, value in obj.items() if value is not None}

    def _often(self, usual: Any, *odd: Any) -> Any:
        return usual if self._chance.random() < 0.95 else self._pick(*odd)

    def _metadata(self) -> dict[str, Any]:
        return dict(
            self._usual(
                {},
                {"labels": {"a": self._pick("b", "c", "")}},
                {"labels": {"a": "not ok"}},
                {"labels": {"not ok": "a"}},
                {"labels": {"a": "x" * 64}},
                {"labels": {"-a/b": "c"}},
                {"annotations": {"note": "any thing"}},
                {"annotations": {"not ok": "a"}},
                {"annotations": {"Note/Upper": "a"}},
                {"finalizers": ["example.com/hold"]},
                {"finalizers": [""]},
                {"finalizers": ["not ok"]},
                {"finalizers": ["a/b/c"]},
                {"generateName": "made-"},
                {"namespace": self._namespace},
                {"namespace": "other"},
                {"generation": 7},
                {"uid": "@uid"},
                {"uid": "wrong"},
                {"resourceVersion": "@revision"},
                {"resourceVersion": "1"},
                {"creationTimestamp": "2001-01-01T00:00:00Z"},
                {"creationTimestamp": None},
                {"deletionTimestamp": "2001-01-01T00:00:00Z"},
                {"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": ""}]},
            )
        )

    def _spec(self) -> Any:
        return self._usual(
            {"size": self._pick(1, 2, 3)},
            {},
            None,
            [],
            "text",
            {"size": 0},
            {"size": 11},
            {"size": "1"},
            {"size": 1.5},
            {"size": 2.0},
            {"size": None},
            {"size": True},
            {"color": "red"},
            {"color": "pink"},
            {"color": ""},
            {"unknown": 1, "size": 2},
            {"box": {}},
            {"box": {"height": 2, "odd": 1}},
            {"tags": ["a", "b"]},
            {"tags": ["a", "a"]},
            {"tags": {}},
            {"parts": [{"name": "a"}, {"name": "b", "count": 2}]},
            {"parts": [{"name": "a"}, {"name": "a"}]},
            {"parts": [{"count": 1}]},
            {"parts": [{"name": ""}]},
            {"parts": [{"name": "x" * 21}]},
            {"parts": [None]},
            {"options": {"a": "b"}},
            {"options": {"a": 1}},
            {"options": {"a": None}},
            {"free": {"a": [1, {"b": None}]}},
            {"free": []},
            {"note": "\u2603 \0"},
        )

    def _create(self) -> DifferentialRequest:
        path = self._path()
        name = self._usual(self._pick(*NAMES), "", "Odd_Name", "x" * 254, "a.b", "-a", None)
        body: Any = self._often(self._object(path, name), b"{", b"[]", b'"a"', b"{}")
        if self._chance.random() < 0.05:
            return DifferentialRequest("POST", path, body, content_type="text/plain")
        return DifferentialRequest("POST", path, body, self._query())

    def _read(self) -> DifferentialRequest:
        accept = self._often("application/json", "text/html", "*/*")
        return DifferentialRequest("GET", self._named(), accept=accept)

    def _list(self) -> DifferentialRequest:
        query = self._usual(
            (),
            (("labelSelector", self._pick("a=b", "a", "!a", "a in (b,c)", "a!=b", "a in (")),),
            (("fieldSelector", self._pick("metadata.name=one", "metadata.name!=one", "x=y", "x")),),
            (("limit", self._pick("1", "2", "0", "x")),),
            (("continue", "odd"),),
            (("resourceVersion", self._pick("0", "x")),),
            (("resourceVersionMatch", self._pick("Exact", "odd")),),
            (("resourceVersionMatch", "Exact"), ("resourceVersion", "0")),
            (("sendInitialEvents", "true"),),
        )
        return DifferentialRequest("GET", self._path(), query=query)

    def _update(self) -> DifferentialRequest:
        path = self._named()
        body = self._object(path, self._usual(path.rpartition("/")[2], "other", ""))
        query = self._query()
        body["kind"] = "Widget" if path.startswith(self._widgets) else "ConfigMap"
        # One fault at a time: which of several is named first differs.
        revision = "@revision" if query else self._usual("@revision", "1", "")
        body["metadata"].setdefault("resourceVersion", revision)
        if path.startswith(self._widgets):
            path += self._usual("", "/status", "/scale", "/odd")
        if path.endswith("/status"):
            body["metadata"].pop("uid", None)
        return DifferentialRequest("PUT", path, body, query)

    def _patch(self) -> DifferentialRequest:
        path = self._named()
        query = self._usual(self._query(), (("force", "true"),))
        if path.startswith(self._widgets):
            path += self._usual("", "/status")
        if self._chance.random() < 0.5:
            return DifferentialRequest(
                "PATCH", path, self._operations(), query, "application/json-patch+json"
            )
        body = self._merge(path)
        form = self._often("application/merge-patch+json", "application/json", "text/plain")
        return DifferentialRequest("PATCH", path, body, query, form)

    def _merge(self, path: str) -> Any:
        content: dict[str, Any] = {"metadata": self._metadata()}
        content["metadata"].pop("uid", None)
        if path.startswith(self._widgets):
            content["spec"] = self._spec()
            content["status"] = self._usual({"phase": "Waiting"}, {"phase": "Odd"}, None)
        else:
            content["data"] = self._usual({"c": "3"}, {"a": None}, None)
        return self._usual(
            content,
            {},
            [],
            b"{",
            {"kind": "Odd"},
            {"metadata": None},
            {"metadata": {"name": "other"}},
            {"metadata": {"finalizers": None}},
        )

    def _operations(self) -> Any:
        paths = (
            *("/metadata/labels", "/metadata/labels/a", "/metadata/finalizers"),
            *("/metadata/finalizers/0", "/metadata/finalizers/-", "/spec/size", "/spec/tags"),
            *(
                "/spec/tags/0",
                "/spec/tags/-",
                "/spec/tags/5",
                "/spec",
                "/data/a",
                "/spec/odd",
                "odd",
            ),
            *("/metadata/name", "/status/phase", "", "/spec/a~1b"),
        )
        values: tuple[Any, ...] = (
            1,
            2,
            "a",
            "b",
            ["example.com/hold"],
            [],
            {},
            {"a": "b"},
            None,
            True,
        )

        def operation() -> dict[str, Any]:
            op = self._pick("add", "add", "remove", "replace", "test", "move", "copy", "odd")
            made: dict[str, Any] = {"op": op, "path": self._pick(*paths)}
            if op in ("move", "copy"):
                made["from"] = self._pick(*paths)
            elif op != "remove":
                made["value"] = self._pick(*values)
            return made

        several = [operation() for _ in range(self._pick(1, 1, 1, 2, 3))]
        lift = [{"op": "remove", "path": "/metadata/finalizers"}]
        return self._usual(several, lift, [], {}, b"{", [1])

    def _delete(self) -> DifferentialRequest:
        body = self._usual(
            None,
            {"preconditions": {"uid": "@uid"}},
            {"preconditions": {"uid": "wrong"}},
            {"preconditions": {"resourceVersion": "@revision"}},
            {"preconditions": {"resourceVersion": "1"}},
            {"propagationPolicy": "Background"},
            {"propagationPolicy": "odd"},
            {"dryRun": ["All"]},
            {"dryRun": ["odd"]},
            {"gracePeriodSeconds": 0},
            b"{",
            b"[]",
        )
        return DifferentialRequest("DELETE", self._named(), body)


@pytest.fixture
def sides(control_plane: ControlPlane) -> Iterator[tuple[ServerSide, ServerSide]]:
    with both_sides(control_plane) as found:
        yield found


def prepare(side: ServerSide, namespace: str) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        **DEFINITION,
    }
    assert side.send(DifferentialRequest("POST", DEFINITIONS, definition))[0] in (201, 409)
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    assert side.send(DifferentialRequest("POST", "/api/v1/namespaces", made))[0] == 201
    served = DifferentialRequest("GET", f"/apis/{GROUP}/v1/namespaces/{namespace}/widgets")
    for _ in range(2000):  # the real server serves a new kind a little later
        if side.send(served)[0] == 200:
            return
    raise AssertionError("the kind is not served")


@pytest.mark.parametrize("seed", [1, 2])
def test_both_servers_respond_alike_to_a_random_sequence_of_requests(
    sides: tuple[ServerSide, ServerSide], seed: int
) -> None:
    ours, real = sides
    namespace = f"walk-{seed}"
    for side in sides:
        prepare(side, namespace)
    walk = Walk(seed, namespace)
    codes = set()

    for step in range(STEPS):
        ask = walk.ask()
        here, there = ours.send(ask), real.send(ask)
        codes.add(there[0])
        if not is_known(here, there):
            assert outcome(*here) == outcome(*there), (
                f"step {step}: {ask}\nours: {message(here[1])}\nreal: {message(there[1])}"
            )

    assert {200, 201, 400, 404, 409, 415, 422} <= codes, "the walk saw too little"


def test_a_watch_sends_the_same_events(sides: tuple[ServerSide, ServerSide]) -> None:
    namespace = "walk-watched"
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/widgets"
    for side in sides:
        prepare(side, namespace)
    since = [
        side.send(DifferentialRequest("GET", path))[1]["metadata"]["resourceVersion"]
        for side in sides
    ]
    walk = Walk(3, namespace)
    for _ in range(STEPS):
        ask = walk.ask()
        for side in sides:
            side.send(ask)

    streams = []
    for side, revision in zip(sides, since, strict=True):
        query = (("watch", "true"), ("resourceVersion", revision), ("timeoutSeconds", "1"))
        _, text = side.send(DifferentialRequest("GET", path, query=query))
        streams.append([plain(json.loads(line)) for line in str(text).splitlines()])

    assert len(streams[0]) > 10, "the walk changed too little"
    assert streams[0] == streams[1]
