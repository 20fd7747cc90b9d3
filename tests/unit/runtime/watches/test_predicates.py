"""Which changes enqueue a key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from datum_compute.api.meta import Object, ObjectMeta, OwnerReference
from datum_compute.runtime.watches import predicates

OWNER = OwnerReference(api_version="example.com/v1", kind="Widget", name="owner")


def part(status: str = "{}", **metadata: Any) -> Object:
    known = {"name": "p", "uid": "1", "generation": 1, **metadata}
    return Object(
        "example.com/v1", "Part", ObjectMeta(**known), status=msgspec.Raw(status.encode())
    )


CONTENT = [
    {"uid": "2"},
    {"generation": 2},
    {"labels": {"a": "b"}},
    {"annotations": {"a": "b"}},
    {"owner_references": (OWNER,)},
    {"deletion_timestamp": datetime(2026, 1, 1, tzinfo=UTC)},
]


@pytest.mark.parametrize("change", CONTENT, ids=lambda change: next(iter(change)))
def test_everything_but_status_and_finalizers_is_content(change: dict[str, Any]) -> None:
    assert predicates.content_changed(part(), part(**change))
    assert predicates.metadata_or_spec_changed(part(), part(**change))


def test_a_finalizer_is_metadata_and_not_content() -> None:
    held = part(finalizers=("example.com/hold",))

    assert predicates.metadata_or_spec_changed(part(), held)
    assert not predicates.content_changed(part(), held)


def test_a_change_of_the_status_alone_matches_no_predicate() -> None:
    old, new = part('{"a":1}', resource_version="1"), part('{"a":2}', resource_version="2")

    assert not predicates.content_changed(old, new)
    assert not predicates.metadata_or_spec_changed(old, new)


def test_creation_and_deletion_match_their_predicates() -> None:
    old, new = part(), part()
    table = {
        predicates.created: (True, False, False),
        predicates.deleted: (False, False, True),
        predicates.created_or_deleted: (True, False, True),
        predicates.content_changed: (True, False, True),
        predicates.metadata_or_spec_changed: (True, False, True),
        predicates.changed(lambda obj: obj.name): (True, False, True),
    }
    for predicate, expected in table.items():
        answers = (predicate(None, new), predicate(old, new), predicate(old, None))
        assert answers == expected, predicate


def test_a_change_of_a_derived_value_matches() -> None:
    size = predicates.changed(lambda obj: obj.metadata.labels.get("size"))

    assert size(part(labels={"size": "1"}), part(labels={"size": "2"}))
    assert not size(part(labels={"size": "1"}), part(labels={"size": "1", "other": "x"}))


def test_only_the_new_state_is_matched() -> None:
    marked = predicates.matches(lambda obj: "mark" in obj.metadata.labels)
    with_mark, without = part(labels={"mark": ""}), part()

    assert marked(without, with_mark)
    assert not marked(with_mark, without)
    assert not marked(with_mark, None)
