"""A difference that the server did not store is not written again until it changes."""

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
    assert copies.due_patch(pruned, wanted) == {"color": "red"}

    with caplog.at_level(logging.WARNING):
        copies.record_write(pruned, wanted)
        copies.record_write(pruned, wanted)

    assert [fields_of(record)["paths"] for record in caplog.records] == [["color"]]
    assert copies.due_patch(pruned, wanted) == {}
    assert copies.due_patch(pruned, {"size": 2, "color": "red"}) == {"size": 2, "color": "red"}
    copies.forget("1")
    assert copies.due_patch(pruned, wanted) == {"color": "red"}


def test_a_default_the_server_adds_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    copies, filled = SpecCopies(), copy({"size": 1, "color": "none"})

    with caplog.at_level(logging.WARNING):
        copies.record_write(filled, {"size": 1})

    assert not caplog.records
    assert copies.due_patch(filled, {"size": 1}) == {}


def test_a_stored_change_is_written_again_after_drift() -> None:
    copies = SpecCopies()
    copies.record_write(copy({"size": 1}), {"size": 2})
    copies.record_write(copy({"size": 2}), {"size": 2})

    assert copies.due_patch(copy({"size": 1}), {"size": 2}) == {"size": 2}
