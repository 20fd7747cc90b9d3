"""A definition is stored with what follows from its kind, as a real server stores it."""

from __future__ import annotations

from typing import Any

from datum_compute.apiserver.kinds import definitions


def test_names_that_follow_from_the_kind_are_filled_in() -> None:
    crd: dict[str, Any] = {"spec": {"names": {"plural": "widgets", "kind": "Widget"}}}

    definitions.set_defaults(crd)

    assert crd["spec"] == {
        "names": {
            "plural": "widgets",
            "kind": "Widget",
            "singular": "widget",
            "listKind": "WidgetList",
        },
        "conversion": {"strategy": "None"},
    }


def test_what_is_given_stays() -> None:
    names = {"kind": "Widget", "singular": "one", "listKind": "Widgets"}
    crd: dict[str, Any] = {"spec": {"names": dict(names), "conversion": {"strategy": "Webhook"}}}

    definitions.set_defaults(crd)

    assert crd == {"spec": {"names": names, "conversion": {"strategy": "Webhook"}}}


def test_a_definition_of_another_shape_is_left_to_validation() -> None:
    shapes: tuple[dict[str, Any], ...] = (
        {},
        {"spec": []},
        {"spec": {"names": 1}},
        {"spec": {"names": {"kind": 7}}},
    )
    for crd in shapes:
        definitions.set_defaults(dict(crd))
