"""The API reference holds every kind, field, column, condition and reason, and its links lead
somewhere."""

from __future__ import annotations

import re

import pytest

from datum_compute.api.kinds import KINDS, Kind
from scripts import api_reference
from tests.support.api.definitions import schemas

PAGE = api_reference.rendered()


def sections() -> dict[str, str]:
    """Title -> text, for every heading of the page."""
    parts = re.split(r"^#+ (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def named(kind: Kind) -> str:
    return kind.resource.kind


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_kind_has_its_section(kind: Kind) -> None:
    section = sections()[kind.resource.kind]

    assert (kind.view.__doc__ or "").strip() in section
    assert f"`{kind.resource.plural}`" in section
    for column in kind.columns:
        assert f"| {column.name} | `{column.json_path}` |" in section
    for condition in kind.conditions:
        assert f"`{condition.type}`: " in section
        for status, reason in condition.reasons():
            assert f"| {status} | `{reason}` | " in section


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_every_field_of_a_kind_has_its_description(kind: Kind) -> None:
    rows = set(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", PAGE, flags=re.MULTILINE))

    for path, schema in schemas(kind.resource.plural).items():
        name = path.rpartition(".")[2]
        if path.startswith((".spec.", ".status.")) and name.isalpha():
            assert (name, schema["description"]) in rows, path


def test_links_lead_to_a_heading() -> None:
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in sections()}

    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors


def test_no_heading_is_duplicated() -> None:
    titles = re.findall(r"^#+ (.+)$", PAGE, flags=re.MULTILINE)

    assert len(titles) == len({title.lower() for title in titles})


def test_validation_rules_are_described() -> None:
    found = sections()

    assert "| `minReplicas` | integer | **required**, 0 to 1000 | " in found["ScaleSettings"]
    assert (
        "| `containers` | list of [Container](#container) | **required**, not empty, by `name`"
        in (found["Sandbox"])
    )
    assert (
        '| `protocol` | string | default `"TCP"`, one of `TCP` `UDP` `SCTP` | '
        in (found["NamedPort"])
    )
    assert (
        "| `serviceName` | string | **required**, 1 to 253 characters, cannot be changed | "
        in (found["Service"])
    )
    assert "| `Programmed` | Unknown | `Pending` | Waiting for controller |" in found["Instance"]
    assert "Further reasons are those of Programmed and Available." in found["Instance"]


def test_a_reason_of_compute_says_who_acts() -> None:
    rows = set(re.findall(r"^\| False \| `(\w+)` \| .* \| ([\w, ]*) \|$", PAGE, flags=re.MULTILINE))

    assert {("InsufficientCapacity", "platform"), ("ImageUnavailable", "user, final")} <= rows
    assert ("Starting", "") in rows
