"""Rules in CEL at the writes of a server."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datum_compute.apiserver.cel import rules
from datum_compute.apiserver.codec import encode_json
from datum_compute.apiserver.kinds import registry
from datum_compute.apiserver.schema import cost
from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.loop_meter import LoopMeter
from tests.support.apiserver.widgets import (
    WIDGET_CRD,
    WIDGETS_PATH,
    Caller,
    widget,
)
from tests.support.apiserver.workers import CountingWorker

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE_PATCH = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
DRY_RUN = {"dryRun": "All"}
REPLACE = {"op": "replace", "path": "/spec/size", "value": 4}
LONGEST_SECONDS = 0.25


def with_rules(*found: dict[str, Any], **properties: Any) -> dict[str, Any]:
    crd = copy.deepcopy(WIDGET_CRD)
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["spec"]["properties"] |= properties
    root["x-kubernetes-validations"] = list(found)
    return crd


@asynccontextmanager
async def rule_server(worker: WorkerProcess | None = None) -> AsyncIterator[Caller]:
    """A server without definitions: one that is the platform's own would be put back."""
    async with embedded_server(
        crds_for=lambda _: [], cells=("dfw",), projects=(), worker=worker
    ) as embedded:
        yield Caller(embedded, "cell/dfw")


async def define(caller: Caller, crd: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    found = await caller.call("POST", DEFINITIONS, crd)
    if found[0] != 409:
        return found
    path = f"{DEFINITIONS}/widgets.example.com"
    return await caller.call("PATCH", path, {"spec": crd["spec"]}, headers=MERGE_PATCH)


ODD = {"rule": "!has(self.spec.size) || self.spec.size % 2 == 1", "message": "size must be odd"}
READY = {"rule": "!has(self.status) || self.status.phase != 'Bad'", "fieldPath": ".status.phase"}


async def test_every_way_of_writing_runs_the_rules() -> None:
    async with rule_server() as caller:
        assert (await define(caller, with_rules(ODD, READY)))[0] == 201
        one = f"{WIDGETS_PATH}/one"
        made = await caller.create("one", {"size": 1})
        even = widget("one", {"size": 2}, resourceVersion=made["metadata"]["resourceVersion"])
        refused = [
            await caller.call("POST", WIDGETS_PATH, widget("two", {"size": 2})),
            await caller.call("POST", WIDGETS_PATH, widget("two", {"size": 2}), query=DRY_RUN),
            await caller.call("PUT", one, even),
            await caller.call("PATCH", one, {"spec": {"size": 4}}, headers=MERGE_PATCH),
            await caller.call("PATCH", one, [REPLACE], headers=JSON_PATCH),
        ]
        for code, answer in refused:
            assert code == 422
            (cause,) = answer["details"]["causes"]
            message = 'Invalid value: "object": size must be odd'
            assert cause == {"reason": "FieldValueInvalid", "message": message, "field": "<nil>"}
        code, answer = await caller.patch("one", {"status": {"phase": "Bad"}}, "status")
        assert code == 422
        assert answer["details"]["causes"][0]["field"] == "status.phase"
        assert (await caller.patch("one", {"status": {"phase": "Good"}}, "status"))[0] == 200
        assert (await caller.get("one"))["spec"] == {"size": 1}


async def test_rules_are_not_run_where_values_may_be_of_other_types() -> None:
    async with rule_server() as caller:
        assert (await define(caller, with_rules(ODD)))[0] == 201
        code, answer = await caller.call("POST", WIDGETS_PATH, widget("one", {"size": "x"}))

        assert code == 422
        assert answer["details"]["causes"][-1] == {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: null: some validation rules were not checked because the"
            " object was invalid; correct the existing errors to complete validation",
            "field": "<nil>",
        }
        code, answer = await caller.call("POST", WIDGETS_PATH, widget("one", {"size": -2}))
        assert [one["message"].rpartition(": ")[2] for one in answer["details"]["causes"]] == [
            "spec.size in body should be greater than or equal to 0",
            "size must be odd",
        ]


async def test_an_object_that_breaks_a_newer_rule_can_still_be_changed_elsewhere() -> None:
    async with rule_server() as caller:
        assert (await define(caller, with_rules()))[0] == 201
        await caller.create("one", {"size": 2}, finalizers=["example.com/x"])
        at_size = with_rules()
        spec = at_size["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["size"]["x-kubernetes-validations"] = [{"rule": "self % 2 == 1"}]
        assert (await define(caller, at_size))[0] == 200

        assert (await caller.patch("one", {"spec": {"color": "red"}}))[0] == 200
        assert (await caller.patch("one", {"spec": {"size": 4}}))[0] == 422
        assert (await caller.patch("one", {"metadata": {"finalizers": None}}))[0] == 200


async def test_a_definition_whose_rule_does_not_compile_is_refused_at_the_rule() -> None:
    async with rule_server() as caller:
        code, answer = await define(caller, with_rules({"rule": "self.spec.colour == 'red'"}))

        assert code == 422
        (cause,) = answer["details"]["causes"]
        assert cause["field"] == (
            "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule"
        )
        assert "undefined field 'colour'" in cause["message"]


def test_a_stored_definition_with_a_bad_rule_is_served_and_its_objects_are_refused() -> None:
    crd = with_rules({"rule": "self.nope"})
    raw = encode_json(crd)
    assert registry.stored_faults(raw) == []
    kinds = registry.KindRegistry([])
    kinds.define(raw)
    kind = kinds.find("example.com", "v1", "widgets")
    assert kind is not None
    tree = rules.rules_of(kind.schema)
    assert tree is not None

    (fault,) = tree.validate(widget("one"), None, steps=1000)

    assert "rule compile error: compilation failed: ERROR: <input>:1:5: undefined" in str(fault)


def test_a_schema_with_much_text_of_rules_is_costly() -> None:
    rule = {"rule": "self.spec.size > 1 && " * 100 + "true"}
    root = with_rules(rule)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    many = with_rules(*[rule] * 5)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    assert not cost.is_costly(root, b"")
    assert cost.is_costly(many, b"")


# Rules that take long.

NUMBERS = {"type": "array", "maxItems": 700, "items": {"type": "integer"}}
SAME = "self.spec.n.all(x, self.spec.n.exists(y, y == x))"
OTHER = "self.spec.n.all(x, self.spec.n.all(y, y != x + 5000))"
WHOLE = "self.spec.n.all(x, self.spec.n == self.spec.n)"


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("rule", "times", "code"),
    [(SAME, 1, 201), (OTHER, 1, 201), (OTHER, 9, 422), (WHOLE, 5, 201)],
)
async def test_a_rule_that_takes_long_runs_in_the_worker_and_the_loop_goes_on(
    rule: str, times: int, code: int
) -> None:
    meter, worker = LoopMeter(), CountingWorker()
    try:
        async with rule_server(worker) as caller:
            rules = [{"rule": rule}] * times
            accepted, answer = await define(caller, with_rules(*rules, n=NUMBERS))
            assert accepted == 201, answer
            body = widget("one", {"size": 1, "n": list(range(700))})
            found, answer = await meter.measure(caller.call("POST", WIDGETS_PATH, body))
            assert found == code, answer
            if code == 422:
                assert "running out of cost budget" in answer["message"]
        assert worker.completed > 1
    finally:
        await worker.close()
    assert meter.longest_seconds < LONGEST_SECONDS


async def test_without_a_worker_a_rule_that_takes_long_runs_to_its_end() -> None:
    async with rule_server() as caller:
        assert (await define(caller, with_rules({"rule": SAME}, n=NUMBERS)))[0] == 201

        code, _ = await caller.call("POST", WIDGETS_PATH, widget("one", {"n": list(range(700))}))

        assert code == 201


@pytest.mark.parametrize(
    "rule",
    [
        "self.spec.open.all(x, self.spec.open.all(y, x != y))",
        "self.spec.open.all(x, x.matches('^a+$'))",
        "self.spec.n.all(a, self.spec.n.all(b, self.spec.n.all(c, a + b != c)))",
    ],
)
async def test_a_rule_over_unbounded_data_is_refused(rule: str) -> None:
    unbounded = {"type": "array", "items": {"type": "string"}}
    async with rule_server() as caller:
        code, answer = await define(caller, with_rules({"rule": rule}, open=unbounded, n=NUMBERS))

        assert code == 422
        cause, *_ = answer["details"]["causes"]
        assert cause["reason"] == "FieldValueForbidden"
        assert "estimated rule cost exceeds budget by factor of more than 100x" in cause["message"]
