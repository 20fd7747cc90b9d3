"""``workloads``: a list of workloads, or one in detail."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from datum_compute.api.compute.constants import LABEL_WORKLOAD_UID
from datum_compute.cli import queries
from datum_compute.cli.arguments import add_action
from datum_compute.cli.context import Context
from datum_compute.cli.explain import states
from datum_compute.cli.explain.health import WorkloadReport, assess_placements, workload_health
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import (
    Cell,
    add_output_flags,
    age,
    cell_text,
    count,
    table,
)
from datum_compute.cli.render.watch import Screen, add_watch_flag, present, table_lines
from datum_compute.cli.tables import NAMESPACE, WORKLOADS

COLUMNS = {
    "NAME": "name",
    "HEALTH": "health",
    "READY": "ready",
    "UP-TO-DATE": "upToDate",
    "PLACEMENTS": "placements",
    "IMAGE": "image",
    "AGE": "age",
}
WIDE = {**COLUMNS, "INSTANCE TYPE": "instanceType"}
LEAST = ("INSTANCE TYPE", "URL", "PLACEMENTS", "IMAGE", "UP-TO-DATE", "AGE")
"""What a narrow terminal shortens first."""
HEALTHS = tuple(each.value for each in states.WorkloadHealth)


def _health(text: str) -> str:
    found = next((each for each in HEALTHS if each.lower() == text.lower()), None)
    if found is None:
        raise argparse.ArgumentTypeError(f'"{text}" is not one of {", ".join(HEALTHS)}')
    return found


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = add_action(
        actions,
        "list",
        "List workloads",
        ("workloads", "workloads --health degraded", "workloads --city DFW -o wide"),
    )
    listing.add_argument(
        "--health",
        type=_health,
        metavar="HEALTH",
        help="only workloads with this health: " + ", ".join(HEALTHS).lower(),
    )
    listing.add_argument("--city", help="only workloads placed in this city")
    listing.add_argument("-l", "--selector", default="", help="label selector")
    add_watch_flag(listing)
    describing = add_action(
        actions,
        "describe",
        "Show everything about one workload",
        ("workloads describe hello", "workloads describe hello -o yaml"),
    )
    describing.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    add_output_flags(
        listing,
        "`name`, `health`, `healthDetail`, `stale`, `ready`, `upToDate`, `desired`,"
        " `placements` (how many), `cities`, `image`, `instanceType`, `age`, `created`, `url`"
        " (where there is one)",
    )
    add_output_flags(
        describing,
        "`name`, `project`, `image`, `instanceType`, `revision`, `health`, `healthDetail`,"
        " `stale`, `created`, `placements`, `instances` (`name`, `status`), `events`, `url`"
        " (where there is one)",
    )


def run(context: Context) -> int:
    if context.args.action == "describe":
        from datum_compute.cli.explain.describe import describe_workload

        return describe_workload(context)
    present(context, lambda: _read_screen(context))
    return 0


def _read_screen(context: Context) -> Screen:
    args = context.args
    items = context.reader.list(WORKLOADS, NAMESPACE, label_selector=args.selector)
    deployments = deployments_by_workload(queries.deployments(context) if items else ())
    reports = {}
    for item in items:
        own = deployments.get(item["metadata"]["uid"], [])
        found = assess_placements(item, own, context.env.now())
        reports[item["metadata"]["name"]] = workload_health(item, found)
    views = [view(context, item, reports[item["metadata"]["name"]]) for item in items]
    if args.health:
        views = [each for each in views if each["health"] == args.health]
    if args.city:
        views = [each for each in views if args.city.upper() in map(str.upper, each["cities"])]
    views.sort(key=lambda each: str(each["name"]))
    names = [f"workload/{each['name']}" for each in views]
    if not views:
        if args.city:
            queries.require_city(context, args.city)
        filtered = bool(args.health or args.city or args.selector)
        footer = queries.nothing_found("workloads", context.target.project, filtered)
        return Screen(views, names, footer=footer)
    text = _table(context, views, reports)
    comparable = [{k: v for k, v in each.items() if k not in ("age", "object")} for each in views]
    counts = Counter(each["health"] for each in views)
    footer = ", ".join(f"{counts[health]} {health}" for health in HEALTHS if counts[health])
    return Screen(
        views,
        names,
        table_lines(text, names, comparable),
        f"\n{count(len(views), 'workload')} — {footer}",
    )


def deployments_by_workload(
    deployments: Iterable[dict[str, Any]],
) -> dict[str, list[dict[str, Any]]]:
    """By the workload's UID."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in deployments:
        found.setdefault(states.label(each, LABEL_WORKLOAD_UID), []).append(each)
    return found


def view(context: Context, item: dict[str, Any], report: WorkloadReport) -> dict[str, Any]:
    placements = item["spec"].get("placements") or []
    return {
        "name": item["metadata"]["name"],
        "health": report.health.value,
        "healthDetail": report.detail,
        "stale": report.stale,
        "ready": states.replicas(item, "readyReplicas"),
        "upToDate": states.replicas(item, "updatedReplicas"),
        "desired": states.desired(item),
        "placements": len(placements),
        "cities": sorted({city for each in placements for city in each.get("cityCodes") or []}),
        "image": states.image(item),
        "instanceType": states.instance_type(item["spec"]["template"]["spec"]),
        **({"url": url} if (url := states.url(item)) else {}),
        "age": age(item["metadata"]["creationTimestamp"], context.env.now()),
        "created": item["metadata"]["creationTimestamp"],
        "object": item,
    }


def _table(
    context: Context, views: list[dict[str, Any]], reports: Mapping[str, WorkloadReport]
) -> str:
    columns = WIDE if context.args.output == "wide" else COLUMNS
    if any("url" in each for each in views):
        columns = {**columns, "URL": "url"}
    rows = [[_cell(each, key, reports[each["name"]]) for key in columns.values()] for each in views]
    headers = not context.args.no_headers
    colours, width = context.colours(), context.width()
    return table(tuple(columns), rows, headers=headers, colours=colours, width=width, least=LEAST)


def _cell(view: dict[str, Any], key: str, report: WorkloadReport) -> Cell:
    if key == "health":
        return report.cell
    if key in ("ready", "upToDate"):
        return Cell(f"{view[key]}/{view['desired']}")
    return Cell(cell_text(view.get(key)))
