"""A condition keeps its transition time, and an equal one causes no write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from datum_compute.api import conditions
from datum_compute.api.conditions import Condition, Conditions

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
WHOLE = NOW.replace(microsecond=0)
LATER = NOW + timedelta(minutes=5)


def ready(status: str = "True", reason: str = "Available", now: datetime = NOW) -> Conditions:
    return conditions.with_condition((), "Ready", status, reason, "message", now=now)


def test_a_new_condition_begins_now_in_whole_seconds() -> None:
    (condition,) = ready()

    assert condition.last_transition_time == WHOLE


def test_the_time_stays_while_the_status_stays() -> None:
    changed = conditions.with_condition(
        ready("False", "Pending"), "Ready", "False", "Crashing", "message", now=LATER
    )

    assert changed[0].reason == "Crashing"
    assert changed[0].last_transition_time == WHOLE


def test_the_time_moves_with_the_status() -> None:
    changed = conditions.with_condition(
        ready("False", "Pending"), "Ready", "True", "Available", "message", now=LATER
    )

    assert changed[0].last_transition_time == LATER.replace(microsecond=0)


def test_setting_an_equal_condition_changes_nothing() -> None:
    before = conditions.with_condition(
        ready(), "Programmed", "True", "Programmed", "", now=NOW, observed_generation=2
    )

    after = conditions.with_condition(before, "Ready", "True", "Available", "message", now=LATER)

    assert after == before


def test_conditions_keep_the_order_in_which_they_were_first_set() -> None:
    both = conditions.with_condition(ready(), "Programmed", "True", "Programmed", "", now=NOW)

    again = conditions.with_condition(both, "Ready", "False", "Pending", "", now=LATER)

    assert [condition.type for condition in again] == ["Ready", "Programmed"]


def test_only_status_true_counts_as_true() -> None:
    for status in ("False", "Unknown"):
        assert not conditions.is_true(ready(status), "Ready")
    assert conditions.is_true(ready(), "Ready")
    assert not conditions.is_true((), "Ready")


def test_the_wire_form_of_a_condition_has_every_field() -> None:
    unnamed = Condition(type="Ready")
    numbered = Condition(type="Ready", observed_generation=0)

    assert conditions.to_wire([unnamed]) == [
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "",
            "message": "",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }
    ]
    assert conditions.to_wire([numbered])[0]["observedGeneration"] == 0


def test_removing_a_condition_keeps_the_others() -> None:
    both = conditions.merged(ready(), Condition(type="Scheduled"))

    assert [each.type for each in conditions.without(both, "Ready")] == ["Scheduled"]


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2026, 3, 4, 5, 6, 7, 999_999, tzinfo=UTC), "2026-03-04T05:06:07Z"),
        (
            datetime(2026, 3, 4, 1, 0, tzinfo=timezone(timedelta(hours=2))),
            "2026-03-03T23:00:00Z",
        ),
        (conditions.EPOCH, "1970-01-01T00:00:00Z"),
    ],
)
def test_times_are_written_in_utc_and_whole_seconds(moment: datetime, written: str) -> None:
    assert conditions.wire_time(moment) == written
