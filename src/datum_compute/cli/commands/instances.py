"""``instances``: a list of instances, or one in detail."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from datum_compute.cli import queries
from datum_compute.cli.arguments import add_action
from datum_compute.cli.context import Context
from datum_compute.cli.explain import states
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import add_output_flags, age, cell_text, table
from datum_compute.cli.render.watch import Screen, add_watch_flag, present, table_lines
from datum_compute.cli.tables import INSTANCES, NAMESPACE

COLUMNS = {
    "NAME": "name",
    "WORKLOAD": "workload",
    "CITY": "city",
    "EXTERNAL IP": "externalIP",
    "INTERNAL IP": "internalIP",
    "TYPE": "type",
    "AGE": "age",
    "STATUS": "status",
}
WIDE = {**COLUMNS, "INSTANCE TYPE": "instanceType", "IMAGE": "image"}
LEAST = ("IMAGE", "INSTANCE TYPE", "TYPE", "EXTERNAL IP", "WORKLOAD", "INTERNAL IP")
"""What a narrow terminal shortens first."""


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = add_action(
        actions,
        "list",
        "List instances",
        ("instances", "instances --workload hello --city DFW", "instances -o json"),
    )
    listing.add_argument("--workload", help="only instances of this workload")
    listing.add_argument("--city", help="only instances in this city")
    listing.add_argument("-l", "--selector", default="", help="label selector")
    add_watch_flag(listing)
    describing = add_action(
        actions,
        "describe",
        "Show everything about one instance",
        (
            "instances describe hello-default-dfw-0",
            "instances describe hello-default-dfw-0 -o yaml",
        ),
    )
    describing.add_argument("name", metavar="NAME", type=workload_name, help="the instance")
    add_output_flags(
        listing,
        "`name`, `workload`, `placement`, `city`, `ordinal`, `externalIP`, `internalIP`,"
        " `type`, `instanceType`, `image`, `age`, `created`, `status`, `stale`, `lastReport`",
    )
    add_output_flags(
        describing,
        "`name`, `workload`, `placement`, `city`, `externalIP`, `internalIP`, `type`,"
        " `instanceType`, `created`, `status`, `statusDetail`, `stale`, `lastReport`, `message`,"
        " `gates`, `events`",
    )


def run(context: Context) -> int:
    if context.args.action == "describe":
        from datum_compute.cli.explain.describe import describe_instance

        return describe_instance(context)
    present(context, lambda: _read_screen(context))
    return 0


def _read_screen(context: Context) -> Screen:
    args = context.args
    items = context.reader.list(INSTANCES, NAMESPACE, label_selector=args.selector)
    known = states.instance_identities(items, lambda: queries.deployments(context))
    items.sort(key=lambda item: queries.instance_sort_key(item, known))
    stale = queries.stale_deployments(context) if items else {}
    views = [view(context, item, known[item["metadata"]["name"]], stale) for item in items]
    if args.workload:
        views = [each for each in views if each["workload"] == args.workload]
    if args.city:
        views = [each for each in views if each["city"].lower() == args.city.lower()]
    names = [f"instance/{each['name']}" for each in views]
    if not views:
        if args.workload:
            queries.workload(context, args.workload)
        if args.city:
            queries.require_city(context, args.city)
        filtered = bool(args.workload or args.city or args.selector)
        footer = queries.nothing_found("instances", context.target.project, filtered)
        return Screen(views, names, footer=footer)
    found = [states.instance_state(each["object"]) for each in views]
    text = _table(context, views, found)
    comparable = [{k: v for k, v in each.items() if k not in ("age", "object")} for each in views]
    lines = table_lines(text, names, comparable)
    counted = states.instance_footer(found, sum(each["stale"] for each in views))
    return Screen(views, names, lines, f"\n{counted}")


def view(
    context: Context,
    item: dict[str, Any],
    who: states.InstanceIdentity,
    stale: Mapping[str, str],
) -> dict[str, Any]:
    """``stale`` has the deployments whose cell does not answer, with the time since when."""
    external, internal = states.instance_addresses(item)
    since = stale.get(states.deployment_name(item))
    return {
        "name": item["metadata"]["name"],
        "workload": who.workload,
        "placement": who.placement,
        "city": who.city,
        "ordinal": states.ordinal(item),
        "externalIP": external,
        "internalIP": internal,
        "type": states.runtime_type(item["spec"]),
        "instanceType": states.instance_type(item["spec"]),
        "image": states.image(item),
        "age": age(item["metadata"]["creationTimestamp"], context.env.now()),
        "created": item["metadata"]["creationTimestamp"],
        "status": states.instance_status(item),
        "stale": since is not None,
        "lastReport": since,
        "object": item,
    }


def _table(context: Context, views: list[dict[str, Any]], found: list[states.InstanceState]) -> str:
    columns = WIDE if context.args.output == "wide" else COLUMNS
    now = context.env.now()
    rows = [
        [
            state.cell(queries.report_age(view["lastReport"], now))
            if key == "status"
            else cell_text(view[key])
            for key in columns.values()
        ]
        for view, state in zip(views, found, strict=True)
    ]
    headers = not context.args.no_headers
    colours, width = context.colours(), context.width()
    return table(tuple(columns), rows, headers=headers, colours=colours, width=width, least=LEAST)
