"""``status NAME``: one screen about one workload."""

from __future__ import annotations

import argparse

from datum_compute.api.typed import Any
from datum_compute.cli import looking, words
from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.following import Line, Picture, add_watch_flag, present
from datum_compute.cli.names import workload_name
from datum_compute.cli.output import add_output_flags, age, painter
from datum_compute.cli.standing import (
    Standing,
    next_steps,
    own_cause,
    own_paragraph,
    paragraphs,
    rows_table,
    standings,
)
from datum_compute.cli.standing import health as health_of


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "status hello", "status hello -o json")
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    add_watch_flag(parser)
    add_output_flags(parser)


def run(context: Context) -> int:
    steps: list[str] = []

    def look() -> Picture:
        workload = looking.workload(context, context.args.name)
        deployments = looking.deployments_of(context, workload)
        found = standings(workload, deployments, context.env.now())
        steps[:] = next_steps(found, context.args.name, own_cause(workload, found))
        return picture(context, workload, found)

    present(context, look)
    context.suggest(*steps)
    return 0


def picture(context: Context, workload: dict[str, Any], found: list[Standing]) -> Picture:
    name = workload["metadata"]["name"]
    revision = looking.active_revision(context, workload)
    health, in_full = health_of(workload, found)
    view: dict[str, Any] = {
        "name": name,
        "project": context.target.project,
        "image": words.image(workload),
        "revision": revision.value if revision else None,
        "health": health,
        "healthDetail": in_full,
        "placements": [each.view() for each in found],
        "object": workload,
    }
    return Picture(view, [f"workload/{name}"], _lines(context, workload, view, found, revision))


def _lines(
    context: Context,
    workload: dict[str, Any],
    view: dict[str, Any],
    found: list[Standing],
    revision: looking.Revision | None,
) -> list[Line]:
    headers = not context.args.no_headers
    kind = words.instance_type(workload["spec"]["template"]["spec"])
    rows = rows_table(found, kind, headers=headers, paint=painter(context)).split("\n")
    lines: list[Line] = []
    if headers:
        now = context.env.now()
        made = f"created {age(workload['metadata']['creationTimestamp'], now)} ago"
        told = revision.told(now) if revision else made
        width = max(len(view["name"]), len(view["image"]))
        lines += [
            Line("workload", f"Workload   {view['name'].ljust(width)}   project {view['project']}"),
            Line("image", f"Image      {view['image'].ljust(width)}   {told}", view["image"]),
            Line("health", f"Health     {view['healthDetail']}"),
            Line("blank", ""),
            Line("header", rows.pop(0)),
        ]
    lines += [
        Line(f"/{each.row.placement} {each.row.city}", text, each.view())
        for each, text in zip(found, rows, strict=True)
    ]
    if headers:
        # Without the numbers in them these are the same from look to look.
        said = [(each.row.city, each.cause) for each in found]
        why = paragraphs(found) + own_paragraph(own_cause(workload, found), context.env.now())
        lines += [Line(f"why {i}", text, said) for i, text in enumerate(why)]
    return lines
