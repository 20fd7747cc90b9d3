"""A filter that names nothing that exists is an error, never an empty list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cli.session import CliSession, cli_session


@pytest.fixture(scope="module")
def here() -> Iterator[CliSession]:
    with cli_session("DFW", "LHR") as session:
        assert session.run("deploy web --image=acme/web:1 --city=DFW").code == 0
        yield session


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("logs web --city SFO", 'city "SFO" not found; available: DFW, LHR'),
        ("logs --city SFO", 'city "SFO" not found; available: DFW, LHR'),
        ("logs nosuch", 'workload or instance "nosuch" not found in project demo'),
        ("instances --city SFO", 'city "SFO" not found; available: DFW, LHR'),
        ("instances --workload nosuch", 'workload "nosuch" not found in project demo'),
        ("instances --workload nosuch --city DFW", 'workload "nosuch" not found'),
        ("instances --workload web --city SFO", 'city "SFO" not found'),
        ("workloads --city SFO", 'city "SFO" not found; available: DFW, LHR'),
        ("scale web --min 1 --placement x", 'placement "x" not found in workload "web"; available'),
        ("restart web --city LHR", 'city "LHR" not found in workload "web"; available: DFW'),
    ],
)
@pytest.mark.parametrize("form", ["", " -o json"])
def test_a_name_that_does_not_exist_exits_5_and_says_what_does(
    here: CliSession, line: str, message: str, form: str
) -> None:
    if line.startswith("logs") and form:
        form = ""  # logs has no formats

    result = here.run(line + form)

    assert result.code == 5, result.transcript
    assert message in result.err.replace("\\", "")
    assert result.out == ""


@pytest.mark.parametrize(
    "line", ["logs web --city LHR", "instances --city lhr", "workloads --city LHR"]
)
def test_a_city_without_instances_is_not_an_error(here: CliSession, line: str) -> None:
    result = here.run(line)

    assert result.code == 0, result.transcript
    assert "match in project demo." in result.err
