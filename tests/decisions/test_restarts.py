"""A restart that was asked for counts, whatever the clocks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.decisions.restarts import later_restart, next_restart, parse_restart
from tests.decisions.builders import NOW

moments = st.integers(0, 3_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@pytest.mark.parametrize(
    ("existing", "value"),
    [
        (None, "2026-03-04T05:06:07Z"),
        ("yesterday", "2026-03-04T05:06:07Z"),
        ("2026-03-01T00:00:00Z", "2026-03-04T05:06:07Z"),
        ("2026-03-04T05:06:07Z", "2026-03-04T05:06:08Z"),
        ("2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"),
    ],
)
def test_the_next_restart(existing: str | None, value: str) -> None:
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


def test_without_any_there_is_none() -> None:
    assert later_restart(None, None) is None
