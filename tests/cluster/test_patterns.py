"""The recorded verdicts on patterns are those of the Go that builds the real server."""

from __future__ import annotations

import pytest

from tests.support.apiserver.patterns.corpus import judged_by_go, recorded

pytestmark = pytest.mark.cluster


def test_the_recorded_verdicts_are_those_of_go() -> None:
    _, verdicts = recorded()

    assert judged_by_go() == verdicts
