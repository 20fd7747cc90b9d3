"""Mappings stay on their plane and name their cluster."""

from __future__ import annotations

from datum_compute.api.meta import Object, ObjectMeta, OwnerReference
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import (
    controller_owner,
    itself,
    label_value,
    owner_of_kind,
)


def _part(*owners: OwnerReference, **labels: str) -> Object:
    metadata = ObjectMeta(name="p", namespace="ns", owner_references=owners, labels=labels)
    return Object("example.com/v1", "Part", metadata)


def _owner(name: str, kind: str = "Widget", *, controller: bool = False) -> OwnerReference:
    api_version = "example.com/v1"
    return OwnerReference(api_version=api_version, kind=kind, name=name, controller=controller)


def test_itself() -> None:
    assert itself("one", _part()) == [Request("one", "ns", "p")]


def test_the_controlling_owner_only() -> None:
    part = _part(_owner("a"), _owner("b", controller=True))

    assert controller_owner("Widget")("one", part) == [Request("one", "ns", "b")]
    assert controller_owner("Gadget")("one", part) == []
    assert controller_owner("Widget", group="example.com")("one", part)
    assert controller_owner("Widget", group="example.org")("one", part) == []
    assert controller_owner("Widget")("one", _part(_owner("a"))) == []


def test_an_owner_that_is_in_no_namespace() -> None:
    part = _part(_owner("a", controller=True))

    to_owner = controller_owner("Widget", namespaced=False)

    assert to_owner("one", part) == [Request("one", "", "a")]


def test_every_owner_of_a_kind() -> None:
    part = _part(_owner("a"), _owner("g", "Gadget"), _owner("b", controller=True))

    requests = owner_of_kind("Widget")("one", part)

    assert [request.name for request in requests] == ["a", "b"]


def test_the_object_a_label_names() -> None:
    assert label_value("of")("one", _part(of="a")) == [Request("one", "ns", "a")]
    assert label_value("of")("one", _part()) == []
