"""Tables on a terminal that is narrower than they are."""

from __future__ import annotations

import io

import pytest

from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from tests.support.cli.session import SessionReach, cli_session
from tests.support.cli.terminal import Terminal


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize(
    "line",
    [
        "workloads -o wide",
        "instances -o wide",
        "status api",
        "rollout history api",
        "rollout status api --no-wait",
        "quota",
        "cities -o wide",
        "instance-types -o wide",
        "projects",
        "workloads describe api",
    ],
)
def test_tables_fit_the_terminal_and_are_whole_elsewhere(line: str, columns: int) -> None:
    with cli_session(variables={"COLUMNS": str(columns)}) as here:
        here.run("deploy api --image=registry.example/acme/api:1.4.2 --city=DFW,LHR --min=2")
        here.run("deploy api --image=registry.example/acme/api:1.5.0 --env=LOG_LEVEL=debug")

        whole = here.run(line).out
        out = Terminal()
        streams = Streams(io.StringIO(), out, Terminal())
        code = main(line.split(), here.env, streams, reach=SessionReach(here))

        table = [row for row in out.screen if row and not row.startswith(("Image", "Workload"))]
        assert code == 0
        assert "…" not in whole
        assert max(map(len, table)) <= columns
