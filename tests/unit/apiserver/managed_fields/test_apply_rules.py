"""What holds for every sequence of applies and updates, whatever the objects are."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datum_compute.apiserver.errors import ApiError
from datum_compute.apiserver.managed_fields import ownership, sets, values
from datum_compute.apiserver.managed_fields.entries import APPLY, unpack
from datum_compute.apiserver.managed_fields.ownership import FieldWriter
from datum_compute.apiserver.managed_fields.types import FieldType, type_of
from datum_compute.apiserver.storage.protocol import Managed
from tests.support.apiserver.managed_widgets import managed_kind

TYPE: FieldType = type_of(managed_kind())
VERSION = "example.com/v1"
NOW = 1_700_000_000
_NAMES = st.sampled_from(["a", "b", "c"])
_SCALARS = st.integers(0, 2)

_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "size": _SCALARS,
        "tags": st.lists(_NAMES, unique=True, min_size=1),
        "colors": st.lists(_NAMES),
        "ports": st.lists(
            st.fixed_dictionaries(
                {"name": _NAMES}, optional={"port": _SCALARS, "weights": st.lists(_SCALARS)}
            ),
            unique_by=lambda item: item["name"],
            min_size=1,
        ),
        "labels": st.dictionaries(_NAMES, _NAMES, min_size=1),
        "selector": st.dictionaries(_NAMES, _NAMES, min_size=1),
        "box": st.fixed_dictionaries({}, optional={"height": _SCALARS, "width": _SCALARS}),
        "free": st.dictionaries(_NAMES, st.dictionaries(_NAMES, _SCALARS, min_size=1), min_size=1),
    },
)
CONFIGS = st.fixed_dictionaries({"spec": _SPEC}).map(
    lambda content: {**content, "metadata": {"name": "one"}}
)
MANAGERS = st.sampled_from(["m1", "m2", "m3"])


def live(spec: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": "one"}, **({"spec": spec} if spec is not None else {})}


UNMANAGED: tuple[dict[str, Any], Managed] = live(), ()


def apply(
    obj: dict[str, Any], managed: Managed, manager: str, config: dict[str, Any], **options: bool
) -> tuple[dict[str, Any], Managed]:
    by = FieldWriter(manager, VERSION, APPLY)
    force = options.get("force", True)
    before = copy.deepcopy((obj, config))
    result = ownership.apply(obj, config, managed, by, TYPE, NOW, force=force)
    assert (obj, config) == before, "arguments are not changed"
    return result


def update(obj: dict[str, Any], managed: Managed, manager: str, new: dict[str, Any]) -> Managed:
    return ownership.update(managed, FieldWriter(manager, VERSION), obj, new, TYPE, NOW)


def owned(managed: Managed, manager: str) -> sets.FieldSet:
    found: sets.FieldSet = {}
    for entry in managed:
        if entry.manager == manager:
            found = sets.union(found, unpack(entry.fields))
    return found


def paths(fields: sets.FieldSet) -> set[str]:
    return set(sets.paths(fields))


@given(st.lists(st.tuples(MANAGERS, CONFIGS), max_size=4), MANAGERS, CONFIGS)
@settings(deadline=None, max_examples=60)
def test_applying_the_same_again_changes_nothing(
    before: list[tuple[str, dict[str, Any]]], manager: str, config: dict[str, Any]
) -> None:
    obj, managed = UNMANAGED
    for each, earlier in before:
        obj, managed = apply(obj, managed, each, earlier)

    once = apply(obj, managed, manager, config)
    twice = apply(*once, manager, config)

    assert twice == once


@given(CONFIGS, CONFIGS)
@settings(deadline=None, max_examples=60)
def test_managers_with_disjoint_fields_commute(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    one, two = (values.applied_set(each, TYPE) for each in (first, second))
    assume(not sets.intersection(one, two))

    ab = apply(*apply(live(), (), "m1", first, force=False), "m2", second, force=False)
    ba = apply(*apply(live(), (), "m2", second, force=False), "m1", first, force=False)

    assert without_order(ab[0]) == without_order(ba[0])
    assert {(e.manager, e.fields) for e in ab[1]} == {(e.manager, e.fields) for e in ba[1]}


def without_order(value: Any) -> Any:
    """Items of merged lists stand in the order in which they came."""
    if isinstance(value, dict):
        return {key: without_order(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(repr, map(without_order, value)))
    return value


@given(st.lists(st.tuples(MANAGERS, CONFIGS), max_size=3), CONFIGS, CONFIGS)
@settings(deadline=None, max_examples=60)
def test_a_field_that_its_only_owner_drops_is_removed(
    before: list[tuple[str, dict[str, Any]]], first: dict[str, Any], second: dict[str, Any]
) -> None:
    obj, managed = UNMANAGED
    for each, earlier in before:
        obj, managed = apply(obj, managed, each, earlier)
    obj, managed = apply(obj, managed, "dropper", first)
    others = [owned(managed, each) for each in ("m1", "m2", "m3")]

    obj, _ = apply(obj, managed, "dropper", second)

    dropped = sets.difference(owned(managed, "dropper"), values.applied_set(second, TYPE))
    for other in others:
        dropped = sets.difference(dropped, other)
    left = values.held_set(obj, TYPE)
    leaves = {path for path in paths(dropped) if not below_is_kept(path, left)}
    assert not leaves & paths(left)


def below_is_kept(path: str, left: sets.FieldSet) -> bool:
    """A place stays while another owner has something in it."""
    return any(other.startswith((f"{path}.", f"{path}[")) for other in paths(left))


@given(st.lists(st.tuples(MANAGERS, CONFIGS), min_size=1, max_size=6))
@settings(deadline=None, max_examples=60)
def test_without_force_no_manager_loses_what_it_did_not_give_up(
    steps: list[tuple[str, dict[str, Any]]],
) -> None:
    obj, managed = UNMANAGED
    stated: dict[str, dict[str, Any]] = {}
    for manager, config in steps:
        try:
            obj, managed = apply(obj, managed, manager, config, force=False)
        except ApiError:  # a conflict: nothing was done
            continue
        stated[manager] = config
        for each, wanted in stated.items():
            assert owned(managed, each) == values.applied_set(wanted, TYPE), each
            held = without_order(values.merge(obj, wanted, TYPE))
            assert held == without_order(obj), "every statement still holds"


@given(st.lists(st.tuples(MANAGERS, CONFIGS), max_size=4), CONFIGS, CONFIGS)
@settings(deadline=None, max_examples=60)
def test_an_update_owns_what_it_changes_and_others_keep_the_rest(
    before: list[tuple[str, dict[str, Any]]], first: dict[str, Any], second: dict[str, Any]
) -> None:
    obj, managed = UNMANAGED
    for each, earlier in before:
        obj, managed = apply(obj, managed, each, earlier)
    managed = update(obj, managed, "writer", first)

    after = update(first, managed, "other", second)

    changed, removed = values.compare(first, second, TYPE)
    assert paths(changed) <= paths(owned(after, "other"))
    for manager in ("m1", "m2", "m3", "writer"):
        lost = paths(owned(managed, manager)) - paths(owned(after, manager))
        assert lost <= paths(changed) | paths(removed)
        assert not paths(owned(after, manager)) & (paths(changed) | paths(removed))


@given(CONFIGS, CONFIGS)
@settings(deadline=None, max_examples=60)
def test_comparing_finds_nothing_where_nothing_differs_and_all_where_all_does(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    assert values.compare(first, copy.deepcopy(first), TYPE) == ({}, {})
    changed, removed = values.compare(first, second, TYPE)
    back = values.compare(second, first, TYPE)
    assert paths(removed) <= paths(back[0])
    assert paths(back[1]) <= paths(changed)


def test_two_appliers_may_state_the_same_value_and_both_own_it() -> None:
    obj, managed = apply(live(), (), "m1", live({"size": 2}), force=False)
    obj, managed = apply(obj, managed, "m2", live({"size": 2}), force=False)

    assert paths(owned(managed, "m1")) == paths(owned(managed, "m2")) == {".spec.size"}

    obj, managed = apply(obj, managed, "m1", live({}), force=False)
    assert obj["spec"] == {"size": 2}, "m2 still states it"


def test_a_conflict_names_the_manager_and_the_field() -> None:
    ports = {"ports": [{"name": "p", "port": 1}]}
    obj, managed = apply(live(), (), "f1", live(ports), force=False)

    with pytest.raises(ApiError) as refused:
        apply(obj, managed, "f2", live({"ports": [{"name": "p", "port": 2}]}), force=False)

    assert refused.value.code == 409
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "f1": .spec.ports[name="p"].port'
    )
    assert refused.value.details == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "f1"',
                "field": '.spec.ports[name="p"].port',
            }
        ]
    }


def test_the_eleventh_updater_joins_the_oldest_ones() -> None:
    obj, managed = apply(live(), (), "m1", live({"size": 1}))
    for number in range(12):
        new = {**obj, "metadata": {"labels": {**_labels(obj), f"l{number}": "x"}}}
        by = FieldWriter(f"u{number:02}", VERSION)
        managed = ownership.update(managed, by, obj, new, TYPE, NOW + number)
        obj = new

    names = [each.manager for each in managed if each.operation == "Update"]
    assert len(names) == 10
    assert names[0] == "ancient-changes"
    assert paths(owned(managed, "ancient-changes")) >= {
        ".metadata.labels.l0",
        ".metadata.labels.l2",
    }


def _labels(obj: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("labels", {})
    return found
