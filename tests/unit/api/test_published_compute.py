"""The compute kinds are the published ones: every path, column, default, key and reason.

The published ones are in ``published/``; they are compared both ways, so neither a missing
field nor an added one passes.
"""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.crds import PARENT_CONTEXTS
from tests.support.api import definitions
from tests.support.api.definitions import PUBLISHED, declared, definition, schemas, version

PAGE = definitions.published("compute.toml")
PLURALS = ["workloads", "workloaddeployments", "instances"]


def gathered(plural: str, topic: str) -> dict[str, Any]:
    """The page's part on one topic of a kind, with the parts that several kinds share."""
    found: dict[str, Any] = {}

    def gather(section: str, prefix: str) -> None:
        published = PAGE[section][topic]
        pairs = (
            published.items()
            if isinstance(published, dict)
            else ((_path(each), each) for each in published)
        )
        found.update({prefix + path: value for path, value in pairs})
        for part, places in PAGE[section]["parts"].items():
            for place in places:
                gather(part, prefix + place)
        for place in PAGE[section].get("conditions_at", ()):
            gather("condition", prefix + place)

    gather(plural, "")
    return found


def _path(entry: str | list[str]) -> str:
    return entry if isinstance(entry, str) else entry[0]


@pytest.mark.parametrize("plural", PLURALS)
def test_the_paths_and_their_types_are_the_published_ones(plural: str) -> None:
    lines = (PUBLISHED / "fields" / f"{plural}.txt").read_text().splitlines()
    published = dict(line.split("\t") for line in lines) | gathered(plural, "added")

    ours = {path: definitions.type_of(schema) for path, schema in schemas(plural).items()}

    assert ours == published


@pytest.mark.parametrize("plural", PLURALS)
def test_required_fields_are_the_published_ones(plural: str) -> None:
    assert definitions.required(schemas(plural)) == set(gathered(plural, "required"))


@pytest.mark.parametrize("plural", PLURALS)
def test_defaults_are_the_published_ones(plural: str) -> None:
    ours = definitions.with_keyword(schemas(plural), "default")

    assert ours == gathered(plural, "defaults")


@pytest.mark.parametrize("plural", PLURALS)
def test_choices_are_the_published_ones(plural: str) -> None:
    ours = definitions.with_keyword(schemas(plural), "enum")

    assert ours == gathered(plural, "enums")


@pytest.mark.parametrize("plural", PLURALS)
def test_bounds_are_the_published_ones(plural: str) -> None:
    assert definitions.limits(schemas(plural)) == gathered(plural, "limits")


@pytest.mark.parametrize("plural", PLURALS)
def test_lists_keyed_by_a_field_are_the_published_ones(plural: str) -> None:
    ours = {
        path: each["x-kubernetes-list-map-keys"]
        for path, each in schemas(plural).items()
        if each.get("x-kubernetes-list-type") == "map"
    }

    published = {path: [key] for path, (_, key) in gathered(plural, "maps").items()}
    assert ours == published


@pytest.mark.parametrize("plural", PLURALS)
def test_every_list_has_a_merge_rule(plural: str) -> None:
    silent = [
        path
        for path, each in schemas(plural).items()
        if each.get("type") == "array" and "x-kubernetes-list-type" not in each
    ]

    assert silent == []


@pytest.mark.parametrize("plural", PLURALS)
def test_columns_have_their_order_and_priority(plural: str) -> None:
    found = version(plural)["additionalPrinterColumns"]

    ours = [[each["name"], each.get("priority", 0), each["jsonPath"]] for each in found]
    assert ours == PAGE[plural]["columns"]


SHORT_NAMES = {"workloads": ["wl"], "workloaddeployments": ["wd"], "instances": ["inst"]}


@pytest.mark.parametrize("plural", PLURALS)
def test_the_kind_is_served_as_published(plural: str) -> None:
    crd = definition(plural)

    assert crd["metadata"]["annotations"] == {PARENT_CONTEXTS: "Project"}
    assert crd["spec"]["group"] == "compute.datumapis.com"
    assert crd["spec"]["scope"] == "Namespaced"
    assert crd["spec"]["names"] == {
        "kind": PAGE[plural]["kind"],
        "listKind": PAGE[plural]["kind"] + "List",
        "plural": plural,
        "singular": PAGE[plural]["kind"].lower(),
        # Ours alone: the published definitions have neither.
        "shortNames": SHORT_NAMES[plural],
        "categories": ["all"],
    }
    assert [each["name"] for each in crd["spec"]["versions"]] == ["v1alpha"]
    assert version(plural)["subresources"] == {"status": {}}


@pytest.mark.parametrize(
    ("section", "conditions"),
    [(plural, declared(plural).conditions) for plural in PLURALS]
    + [("placements", compute.PLACEMENT_CONDITIONS)],
    ids=[*PLURALS, "placements"],
)
def test_conditions_and_reasons_are_the_published_ones(
    section: str, conditions: tuple[DeclaredCondition, ...]
) -> None:
    published: dict[str, list[Any]] = PAGE[section]["conditions"]

    assert [each.type for each in conditions] == list(published)
    for each in conditions:
        reasons = published[each.type]
        if isinstance(reasons[0], str):  # the page leaves the status open
            assert {reason for _, reason in each.reasons()} == set(reasons)
        else:
            assert set(each.reasons()) == {(status, reason) for status, reason in reasons}
