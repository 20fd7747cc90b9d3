"""A difference that survived a write is not written again until it becomes another one."""

from __future__ import annotations

import logging

import msgspec
import pytest

from datum_compute.api.meta import Object, ObjectMeta
from datum_compute.log import fields_of
from datum_compute.runtime.writes.spec_copies import SpecCopies


def copy(spec: object) -> Object:
    metadata = ObjectMeta(name="a", namespace="ns", uid="1")
    return Object("example.com/v1", "Widget", metadata, spec=msgspec.Raw(msgspec.json.encode(spec)))


def test_a_pruned_field_is_reported_once_and_then_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    copies, pruned = SpecCopies(), copy({"size": 1})
    wanted = {"size": 1, "color": "red"}
    assert copies.change(pruned, wanted) == {"color": "red"}

    with caplog.at_level(logging.WARNING):
        copies.written(pruned, wanted)
        copies.written(pruned, wanted)

    assert [fields_of(record)["paths"] for record in caplog.records] == [["color"]]
    assert copies.change(pruned, wanted) == {}
    assert copies.change(pruned, {"size": 2, "color": "red"}) == {"size": 2, "color": "red"}
    copies.forget("1")
    assert copies.change(pruned, wanted) == {"color": "red"}


def test_a_default_the_server_adds_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    copies, filled = SpecCopies(), copy({"size": 1, "color": "none"})

    with caplog.at_level(logging.WARNING):
        copies.written(filled, {"size": 1})

    assert not caplog.records
    assert copies.change(filled, {"size": 1}) == {}


def test_a_change_that_is_kept_is_due_again_after_drift() -> None:
    copies = SpecCopies()
    copies.written(copy({"size": 1}), {"size": 2})
    copies.written(copy({"size": 2}), {"size": 2})

    assert copies.change(copy({"size": 1}), {"size": 2}) == {"size": 2}
