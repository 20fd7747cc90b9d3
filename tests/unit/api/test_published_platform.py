"""The kinds around compute have their published fields, and list those they add."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.api.kinds import COMPUTE_KINDS, KINDS
from tests.support.api import definitions
from tests.support.api.definitions import Schema, declared, definition, schemas, version

PAGE = definitions.published("platform.toml")
PLURALS = sorted(PAGE)


def relative(plural: str) -> dict[str, Schema]:
    """Our paths as the page writes them, conditions left out: they are the same everywhere."""
    return {
        path.removeprefix("."): schema
        for path, schema in schemas(plural).items()
        if ".conditions[]." not in path and path
    }


def leaves(plural: str) -> set[str]:
    """Paths that hold a value of their own; metadata and the like are every object's."""
    return {
        path
        for path, schema in relative(plural).items()
        if not schema.get("properties")
        and schema.get("type") != "array"
        and "additionalProperties" not in schema
        and path not in ("apiVersion", "kind", "metadata")
    } | {path for path in relative(plural) if path.endswith("conditions[]")}


def given(plural: str, keyword: str) -> dict[str, Any]:
    return definitions.with_keyword(relative(plural), keyword)


def test_every_kind_has_its_page() -> None:
    around = {kind.resource.plural for kind in KINDS} - {
        kind.resource.plural for kind in COMPUTE_KINDS
    }

    assert set(PLURALS) == around


@pytest.mark.parametrize("plural", PLURALS)
def test_the_fields_are_the_published_ones_and_listed_additions(plural: str) -> None:
    published = PAGE[plural]["fields"]

    assert leaves(plural) == set(published) | set(PAGE[plural]["beyond"])
    assert not set(published) & set(PAGE[plural]["beyond"])


@pytest.mark.parametrize("plural", PLURALS)
def test_the_kind_is_served_as_published(plural: str) -> None:
    spec = definition(plural)["spec"]
    status = PAGE[plural].get("status", True)

    assert spec["names"]["kind"] == PAGE[plural]["kind"]
    assert f"{spec['group']}/{version(plural)['name']}" == PAGE[plural]["api"]
    assert spec["scope"] == PAGE[plural]["scope"]
    assert version(plural).get("subresources") == ({"status": {}} if status else None)


@pytest.mark.parametrize("plural", PLURALS)
def test_required_fields_are_the_published_ones(plural: str) -> None:
    required = {path.removeprefix(".") for path in definitions.required(schemas(plural))}

    assert {path for path in required if ".conditions[]." not in path} == set(
        PAGE[plural]["required"]
    )


@pytest.mark.parametrize("plural", PLURALS)
def test_choices_bounds_and_defaults_are_the_published_ones(plural: str) -> None:
    defaults = given(plural, "default")
    defaults.pop("status", None)

    assert defaults == PAGE[plural]["defaults"]
    assert given(plural, "enum") == PAGE[plural]["enums"]
    assert definitions.limits(relative(plural)) == PAGE[plural]["limits"]


@pytest.mark.parametrize("plural", PLURALS)
def test_immutable_fields_are_the_published_ones(plural: str) -> None:
    rules = given(plural, "x-kubernetes-validations")

    assert all(rule["rule"] == "self == oldSelf" for each in rules.values() for rule in each)
    assert set(rules) == set(PAGE[plural]["immutable"])


@pytest.mark.parametrize("plural", PLURALS)
def test_conditions_and_reasons_are_the_published_ones(plural: str) -> None:
    ours = {
        each.type: {reason for _, reason in each.reasons()} for each in declared(plural).conditions
    }

    assert ours == {type: set(reasons) for type, reasons in PAGE[plural]["conditions"].items()}


@pytest.mark.parametrize("plural", PLURALS)
def test_default_conditions_are_unknown_with_a_transition_time_of_1970(plural: str) -> None:
    if plural == "resourceclaims":
        return  # not granted, rather than unknown: see below
    default = given(plural, "default").get("status", {"conditions": []})

    assert [each["type"] for each in default["conditions"]] == PAGE[plural]["unknown_at_first"]
    for each in default["conditions"]:
        assert (each["status"], each["reason"]) == ("Unknown", "Pending")
        assert each["lastTransitionTime"] == "1970-01-01T00:00:00Z"


def test_a_new_claim_is_not_granted_with_a_transition_time_of_1970() -> None:
    (granted,) = given("resourceclaims", "default")["status"]["conditions"]

    assert (granted["type"], granted["status"]) == ("Granted", "False")
    assert granted["reason"] == "PendingEvaluation"
    assert granted["lastTransitionTime"] == "1970-01-01T00:00:00Z"


def test_lists_of_decisions_are_keyed_by_what_was_claimed() -> None:
    for path in ("spec.requests", "status.allocations"):
        assert relative("resourceclaims")[path]["x-kubernetes-list-map-keys"] == ["resourceType"]
