"""Progress is one line per change under one header, in columns that stay where they are."""

from __future__ import annotations

import io
from argparse import Namespace

from datum_compute.cli.context import Context, Streams
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.rollout.progress import Progress
from datum_compute.cli.rollout.rows import RowProgress
from datum_compute.cli.rollout.state import BlockingReason, Row
from datum_compute.testing.environment import SimulatedEnvironment


def row(
    updated: int, ready: int, *, blocker: BlockingReason | None = None, city: str = "DFW"
) -> Row:
    return Row(
        placement="default",
        city=city,
        deployment="d",
        target=300,
        replicas=updated,
        updated=updated,
        ready=ready,
        reported=True,
        blocking_reason=blocker,
    )


def context(**args: object) -> tuple[Context, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    streams = Streams(io.StringIO(), out, err)
    return Context(SimulatedEnvironment(), streams, Namespace(**args)), out, err


def test_columns_are_wide_enough_for_growing_numbers() -> None:
    shown, _, err = context()
    progress = Progress(shown)
    waits = BlockingReason("PendingProgramming", "Instance has not\nbeen programmed")
    full = BlockingReason(
        "QuotaExceeded", "compute.datumapis.com/instances: requested 1, available 0"
    )

    progress.show([RowProgress(row(0, 0))])
    progress.show([RowProgress(row(16, 15, blocker=waits))])
    progress.show([RowProgress(row(16, 15, blocker=waits))])
    progress.show([RowProgress(row(299, 299, blocker=full))])
    progress.show([RowProgress(row(300, 300))])

    assert err.getvalue().splitlines() == [
        "  PLACEMENT   CITY   UPDATED   READY     OLD   PHASE",
        "  default     DFW    0/300     0/300     0     Pending",
        "  default     DFW    16/300    15/300    0     "
        "Updating   Instance has not been programmed",
        "  default     DFW    299/300   299/300   0     "
        "Blocked    quota exceeded: instances: requested 1, available 0",
        "  default     DFW    300/300   300/300   0     Done",
    ]


WORKLOAD = {"metadata": {"name": "web"}, "spec": {"template": {"spec": {}}}}


def test_one_result_is_printed_as_an_object_and_several_as_a_list() -> None:
    one, out_one, _ = context(output="json", no_headers=False)
    several, out_several, _ = context(output="yaml", no_headers=False)

    show_results(one, [result(WORKLOAD, "created")])
    show_results(several, [result(WORKLOAD, "created"), result(WORKLOAD, "unchanged")])

    assert out_one.getvalue().startswith('{\n  "name": "web",\n  "action": "created"')
    assert out_several.getvalue().startswith("- name: web\n  action: created")


def test_a_table_of_results_is_their_instances_with_or_without_a_header() -> None:
    instance = {
        "metadata": {
            "name": "web-0",
            "labels": {"compute.datumapis.com/city-code": "DFW"},
        }
    }
    with_header, shown, _ = context(output="table", no_headers=False)
    without, bare, _ = context(output="table", no_headers=True)
    nothing, empty, _ = context(output="table", no_headers=False)

    show_results(with_header, [result(WORKLOAD, "created", [instance])])
    show_results(without, [result(WORKLOAD, "created", [instance])])
    show_results(nothing, [result(WORKLOAD, "created")])

    assert shown.getvalue() == "CITY   INSTANCE   ADDRESS\nDFW    web-0      —\n"
    assert bare.getvalue() == "DFW   web-0   —\n"
    assert empty.getvalue() == ""
