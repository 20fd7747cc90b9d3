from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.apiserver.kinds import wire_times

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SINCE = st.integers(-(2**51), 2**52).map(lambda micros: _EPOCH + timedelta(microseconds=micros))
MOMENTS = st.builds(lambda moment, zone: moment.astimezone(zone), SINCE, ZONES)


@given(MOMENTS)
def test_a_time_keeps_its_moment_and_becomes_utc(moment: datetime) -> None:
    held = {"at": moment.isoformat(timespec="microseconds")}

    assert wire_times.normalize(held, "", micros=("at",)) == []
    assert held["at"].endswith("Z")
    assert datetime.fromisoformat(held["at"]) == moment

    again = dict(held)
    assert wire_times.normalize(again, "", micros=("at",)) == []
    assert again == held


@given(MOMENTS)
def test_a_time_to_the_second_loses_its_fraction(moment: datetime) -> None:
    held = {"at": moment.isoformat()}

    assert wire_times.normalize(held, "", seconds=("at",)) == []
    assert datetime.fromisoformat(held["at"]) == moment.astimezone(UTC).replace(microsecond=0)


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-01T00:00:00Z",
        "2020-01-01T00:00:00.5Z",
        "2020-01-01T00:00:00.123456789Z",
        "2020-01-01t00:00:00.000001z",
        "2020-02-30T00:00:00.000001Z",
        "9999-12-31T23:59:59.000001-23:00",
        "2020-01-01T00:00:00.000001+99:00",
        "",
        "9" * 100_000,
    ],
)
def test_a_time_without_six_digits_of_a_second_is_no_micro_time(text: str) -> None:
    held = {"at": text}

    (fault,) = wire_times.normalize(held, "spec.", micros=("at",))

    assert (fault.path, held) == ("spec.at", {"at": text})


def test_the_time_before_all_others_is_dropped() -> None:
    held = {"at": "0001-01-01T00:00:00.000000Z", "count": 7}

    assert wire_times.normalize(held, "", micros=("at", "count")) == []
    assert held == {"count": 7}
