"""Selectors mean what the Kubernetes API means by them."""

from __future__ import annotations

import pytest

from datum_compute.api.selectors import FieldSelector, LabelSelector, SelectorError

LABELS = {"app": "web", "tier": "front", "example.com/zone": "a", "blank": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app=api", False),
        ("app!=api", True),
        ("absent!=x", True),
        ("absent=x", False),
        ("app", True),
        ("!app", False),
        ("!absent", True),
        ("app in (web, api)", True),
        ("app in (api)", False),
        ("app notin (api,db)", True),
        ("absent notin (x)", True),
        ("app in (web),tier=front,!absent", True),
        ("app in (web),tier=back", False),
        ("example.com/zone=a", True),
        ("blank=", True),
        ("app=", False),
    ],
)
def test_label_selectors(text: str, matches: bool) -> None:
    assert LabelSelector.parse(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["app=web,", "=web", "app in web", "app in (web", "a b", "a=b=c"])
def test_an_invalid_label_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        LabelSelector.parse(text)


def test_the_text_form_parses_to_the_same() -> None:
    selector = LabelSelector.parse("app in (web,api),!x,y,z!=1,w=2")

    assert LabelSelector.parse(str(selector)).matches(LABELS) == selector.matches(LABELS)
    assert str(selector) == "app in (api,web),!x,y,z!=1,w=2"


@pytest.mark.parametrize(
    ("wire", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "back"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_selector_fields_of_objects(wire: dict[str, object], matches: bool) -> None:
    assert LabelSelector.from_wire(wire).matches(LABELS) is matches


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "app", "operator": "Near"},
        {"key": "app", "operator": "In"},
        {"key": "app", "operator": "Exists", "values": ["x"]},
    ],
)
def test_invalid_selector_expressions_are_refused(expression: dict[str, object]) -> None:
    with pytest.raises(SelectorError):
        LabelSelector.from_wire({"matchExpressions": [expression]})


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a", True),
        ("metadata.name!=a", False),
        ("metadata.name=a,metadata.namespace=default", True),
        ("metadata.name=a,metadata.namespace!=default", False),
        ("involvedObject.name=", True),
        (r"note=x\,y", True),
    ],
)
def test_field_selectors(text: str, matches: bool) -> None:
    fields = {"metadata.name": "a", "metadata.namespace": "default", "note": "x,y"}

    assert FieldSelector.parse(text).matches(lambda path: fields.get(path, "")) is matches


def test_a_field_selector_needs_an_operator() -> None:
    with pytest.raises(SelectorError, match=r"metadata\.name"):
        FieldSelector.parse("metadata.name")
