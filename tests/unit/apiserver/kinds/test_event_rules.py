from __future__ import annotations

from typing import Any

import pytest

from datum_compute.apiserver.kinds import event_rules


def event(**content: Any) -> dict[str, Any]:
    """An Event as the group events.k8s.io wants it, as it is stored."""
    made = {
        "metadata": {"name": "one", "namespace": "here"},
        "involvedObject": {"kind": "Widget", "name": "w", "namespace": "here"},
        "eventTime": "2020-01-01T00:00:00.000000Z",
        "reportingComponent": "example.com/c",
        "reportingInstance": "c-1",
        "action": "Do",
        "reason": "Did",
        "type": "Normal",
    }
    return {key: value for key, value in (made | content).items() if value is not None}


def paths(faults: list[Any]) -> set[str]:
    return {fault.path for fault in faults}


def test_an_event_of_the_new_group_has_all_its_fields() -> None:
    assert event_rules.validate_renamed(event(), None) == []
    lacking = dict.fromkeys(("action", "reason", "reportingInstance", "type"))

    assert paths(event_rules.validate_renamed(event(**lacking), None)) == set(lacking)
    assert "eventTime" in paths(event_rules.validate_renamed(event(eventTime=None), None))


def test_an_event_without_a_time_needs_only_its_namespace() -> None:
    bare = event(eventTime=None, action=None, reportingComponent=None, reportingInstance=None)

    assert event_rules.validate(bare, None) == []
    elsewhere = {**bare, "involvedObject": {"namespace": "there"}}
    assert paths(event_rules.validate(elsewhere, None)) == {"involvedObject.namespace"}


@pytest.mark.parametrize("name", ["", "a b", "a/b/c", "c" * 64, "A/b"])
def test_a_controller_has_a_qualified_name(name: str) -> None:
    faulty = event(reportingComponent=name)

    assert paths(event_rules.validate(faulty, None)) == {"reportingComponent"}
    assert paths(event_rules.validate_renamed(faulty, None)) == {"reportingController"}


def test_only_the_series_of_an_event_of_the_new_group_changes() -> None:
    series = {"count": 2, "lastObservedTime": "2020-01-01T00:00:01.000000Z"}

    assert event_rules.validate_renamed(event(series=series), event()) == []
    short = event(series={"count": 1})
    assert paths(event_rules.validate_renamed(short, event())) == {
        "series.count",
        "series.lastObservedTime",
    }
    assert event_rules.validate_renamed(short, short) == []
    changed = event(message="x", reason="Other", reportingComponent="d")
    assert paths(event_rules.validate_renamed(changed, event())) == {
        "message",
        "reason",
        "reportingController",
    }
    assert event_rules.validate(changed, event()) == []
