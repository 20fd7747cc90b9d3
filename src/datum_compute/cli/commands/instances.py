"""``instances``: what runs where, and how it is."""

from __future__ import annotations

import argparse
from typing import Any

from datum_compute.cli import words
from datum_compute.cli.context import Context
from datum_compute.cli.output import add_output_flags, age, show, table
from datum_compute.cli.resources import INSTANCES
from datum_compute.cli.target import NAMESPACE


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  datumctl-compute instances\n"
        "  datumctl-compute instances --workload hello --city DFW\n"
        "  datumctl-compute instances -o json"
    )
    parser.add_argument("--workload", help="only those of this workload")
    parser.add_argument("--city", help="only those in this city")
    parser.add_argument("-l", "--selector", default="", help="label selector")
    add_output_flags(parser)


def run(context: Context) -> int:
    args = context.args
    items = context.target.reader().list(INSTANCES, NAMESPACE, label_selector=args.selector)
    views = [_view(context, item) for item in items]
    if args.workload:
        views = [view for view in views if view["workload"] == args.workload]
    if args.city:
        views = [view for view in views if view["city"].lower() == args.city.lower()]
    views.sort(key=lambda view: (view["workload"], view["city"], view["ordinal"]))
    show(
        context,
        views,
        as_table=lambda wide: _table(views, wide=wide, headers=not args.no_headers),
        names=[f"instance/{view['name']}" for view in views],
    )
    if args.output in ("table", "wide") and not args.no_headers:
        if views:
            context.say("\n" + words.instance_footer([view["status"] for view in views]))
        else:
            context.say(f"No instances in project {context.target.project}.")
    return 0


def _view(context: Context, item: dict[str, Any]) -> dict[str, Any]:
    external, internal = words.instance_addresses(item)
    return {
        "name": item["metadata"]["name"],
        "workload": words.instance_workload(item),
        "city": words.label(item, "city-code"),
        "ordinal": words.ordinal(item),
        "externalIP": external,
        "internalIP": internal,
        "type": words.runtime_type(item["spec"]),
        "instanceType": words.instance_type(item["spec"]),
        "age": age(item["metadata"]["creationTimestamp"], context.env.now()),
        "status": words.instance_status(item),
        "object": item,
    }


def _table(views: list[dict[str, Any]], *, wide: bool, headers: bool) -> str:
    if not views:
        return ""
    keys = ["name", "workload", "city", "externalIP", "internalIP", "type", "age", "status"]
    header = ["NAME", "WORKLOAD", "CITY", "EXTERNAL IP", "INTERNAL IP", "TYPE", "AGE", "STATUS"]
    if wide:
        keys.append("instanceType")
        header.append("INSTANCE TYPE")
    return table(header, [[view[key] for key in keys] for view in views], headers=headers)
