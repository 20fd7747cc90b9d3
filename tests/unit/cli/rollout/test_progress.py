"""Progress is one line per change under one header, in columns that stay where they are."""

from __future__ import annotations

import io
from argparse import Namespace

import pytest

from datum_compute.cli.context import Context, Streams
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.rollout.progress import Progress
from datum_compute.cli.rollout.rows import RowProgress
from datum_compute.cli.rollout.state import BlockingReason, Phase, Row
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
        "  PLACEMENT   CITY   UPDATED   READY     PHASE",
        "  default     DFW    0/300     0/300     Pending",
        "  default     DFW    16/300    15/300    Updating   Instance has not been programmed",
        "  default     DFW    299/300   299/300   "
        "Blocked    quota exceeded: instances: requested 1, available 0",
        "  default     DFW    300/300   300/300   Done",
    ]


def test_the_column_of_old_instances_is_there_once_something_is_old() -> None:
    shown, _, err = context()
    progress = Progress(shown)
    scaled = row(2, 2)._replace(target=3, reported=False)
    rolling = row(1, 2)._replace(target=3, replicas=3)

    progress.show([RowProgress(scaled)])
    progress.show([RowProgress(rolling)])
    progress.show([RowProgress(row(3, 3)._replace(target=3))])

    assert err.getvalue().splitlines() == [
        "  PLACEMENT   CITY   UPDATED   READY   PHASE",
        "  default     DFW    2/3       2/3     Updating",
        "  PLACEMENT   CITY   UPDATED   READY   OLD   PHASE",
        "  default     DFW    1/3       2/3     2     Updating",
        "  default     DFW    3/3       3/3     0     Done",
    ]


def test_the_first_instances_of_a_city_are_created_and_not_updated() -> None:
    first = row(1, 0)._replace(first=True)

    assert first.phase() is Phase.CREATING
    assert row(1, 0).phase() is Phase.UPDATING


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


@pytest.mark.parametrize(
    ("assigned", "shown"),
    [
        ({"networkIP": "10.128.0.2", "externalIP": "127.84.16.2"}, "127.84.16.2"),
        ({"networkIP": "10.128.0.2"}, "10.128.0.2"),
    ],
    ids=["with an address outside", "without one"],
)
def test_the_address_of_an_instance_is_one_that_the_user_can_reach(
    assigned: dict[str, str], shown: str
) -> None:
    instance = {
        "metadata": {"name": "web-0", "labels": {"compute.datumapis.com/city-code": "DFW"}},
        "status": {"networkInterfaces": [{"assignments": assigned}]},
    }
    table, out, _ = context(output="table", no_headers=True)

    show_results(table, [result(WORKLOAD, "created", [instance])])

    assert out.getvalue() == f"DFW   web-0   {shown}\n"
