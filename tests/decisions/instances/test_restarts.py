"""A requested restart counts, whichever clock wrote it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.decisions.restarts import later_restart, next_restart, parse_restart
from tests.support.decisions.builders import NOW

moments = st.integers(0, 3_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@pytest.mark.parametrize(
    ("existing", "value"),
    [
        (None, "2026-03-04T05:06:07Z"),
        ("yesterday", "2026-03-04T05:06:07Z"),
        ("2026-03-01T00:00:00Z", "2026-03-04T05:06:07Z"),
        ("2026-03-04T05:06:07Z", "2026-03-04T05:06:08Z"),
        ("2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"),
        ("2030-01-01T02:00:00.7+02:00", "2030-01-01T00:00:01Z"),
        ("2030-01-01T00:00:00", "2026-03-04T05:06:07Z"),
        ("9999-12-31T00:00:00Z", "2026-03-04T05:06:07Z"),
        ("9999-12-31T23:59:59Z", "2026-03-04T05:06:07Z"),
        ("0001-01-01T00:00:00+14:00", "2026-03-04T05:06:07Z"),
    ],
)
def test_the_next_restart_time(existing: str | None, value: str) -> None:
    assert next_restart(NOW, existing) == value


@given(moments, moments)
def test_a_new_restart_is_later_than_the_last(now: datetime, last: datetime) -> None:
    existing = last.replace(microsecond=0).isoformat()

    value = next_restart(now, existing)

    assert later_restart(existing, value) == value
    assert later_restart(value, existing) == value
    moment = parse_restart(value)
    assert moment is not None
    assert moment >= now - timedelta(seconds=1)


@pytest.mark.parametrize(
    ("workload", "deployment", "stands"),
    [
        (None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", None, "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "2026-01-01T01:00:01+01:00", "2026-01-01T01:00:01+01:00"),
        ("soon", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "soon", "2026-01-01T00:00:00Z"),
        ("soon", "later", "soon"),
        (None, "later", None),
    ],
)
def test_the_later_time_counts_and_an_invalid_time_counts_as_none(
    workload: str | None, deployment: str | None, stands: str | None
) -> None:
    assert later_restart(workload, deployment) == stands


def test_without_restart_times_there_is_no_restart() -> None:
    assert later_restart(None, None) is None
