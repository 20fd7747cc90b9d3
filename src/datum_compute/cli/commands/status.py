"""``status NAME``: one screen about one workload."""

from __future__ import annotations

import argparse
from typing import Any

from datum_compute.cli import queries
from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.explain import states
from datum_compute.cli.explain.health import (
    PlacementHealth,
    assess_placements,
    paragraphs,
    placements_table,
    suggested_commands,
    workload_condition,
    workload_paragraph,
)
from datum_compute.cli.explain.health import workload_health as health_of
from datum_compute.cli.explain.suggestions import Suggestion
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import add_output_flags, age, cell_text
from datum_compute.cli.render.watch import Screen, ScreenLine, add_watch_flag, present


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "status hello", "status hello -o json")
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    add_watch_flag(parser)
    add_output_flags(
        parser,
        "`name`, `project`, `image`, `revision`, `health`, `healthDetail`, `stale`,"
        " `created`, `placements`, `rollout` (`stage`, `message`), `sleep` (a sentence, where"
        " its instances may sleep), `url` (where there is one)",
    )


def run(context: Context) -> int:
    steps: list[Suggestion | None] = []

    def read_screen() -> Screen:
        workload = queries.workload(context, context.args.name)
        deployments = queries.deployments_of(context, workload)
        found = assess_placements(workload, deployments, context.env.now())
        own = workload_condition(workload, found)
        steps[:] = suggested_commands(context, found, workload, own)
        return build_screen(context, workload, found)

    present(context, read_screen)
    context.suggest(*steps)
    return 0


def build_screen(
    context: Context, workload: dict[str, Any], found: list[PlacementHealth]
) -> Screen:
    revision = queries.active_revision(context, workload)
    shown = view(context, workload, found, revision)
    return Screen(
        shown, [f"workload/{shown['name']}"], _lines(context, workload, shown, found, revision)
    )


def view(
    context: Context,
    workload: dict[str, Any],
    found: list[PlacementHealth],
    revision: queries.ActiveRevision | None,
) -> dict[str, Any]:
    name = workload["metadata"]["name"]
    report = health_of(workload, found)
    view: dict[str, Any] = {
        "name": name,
        "project": context.target.project,
        "image": states.image(workload),
        "revision": revision.value if revision else None,
        "health": report.health.value,
        "healthDetail": report.detail,
        "stale": report.stale,
        "created": workload["metadata"]["creationTimestamp"],
        "placements": [each.view() for each in found],
    }
    if url := states.url(workload):
        view["url"] = url
    stage = states.rollout_stage(workload)
    if stage:
        message = states.clean_message(str(stage.get("message", "")))
        view["rollout"] = {"stage": stage.get("reason"), "message": message}
    if states.sleep_after(workload):
        view["sleep"] = states.sleep_note(workload, queries.instances_of(context, name))
    view["object"] = workload
    return view


def _lines(
    context: Context,
    workload: dict[str, Any],
    view: dict[str, Any],
    found: list[PlacementHealth],
    revision: queries.ActiveRevision | None,
) -> list[ScreenLine]:
    headers = not context.args.no_headers
    rows = placements_table(found, workload, headers=headers, width=context.width()).split("\n")
    lines: list[ScreenLine] = []
    if headers:
        now = context.env.now()
        made = f"created {age(workload['metadata']['creationTimestamp'], now)} ago"
        revision_text = revision.describe(now) if revision else made
        image = cell_text(view["image"])
        width = max(len(view["name"]), len(image))
        lines += [
            ScreenLine(
                "workload", f"Workload   {view['name'].ljust(width)}   project {view['project']}"
            ),
            ScreenLine(
                "image", f"Image      {image.ljust(width)}   {revision_text}", view["image"]
            ),
            ScreenLine("health", f"Health     {view['healthDetail']}"),
            *([ScreenLine("url", f"URL        {view['url']}")] if "url" in view else []),
            *([ScreenLine("sleep", f"Sleep      {view['sleep']}")] if "sleep" in view else []),
            *(
                [ScreenLine("rollout", f"Rollout    {view['rollout']['message']}")]
                if "rollout" in view
                else []
            ),
            ScreenLine("blank", ""),
            ScreenLine("header", rows.pop(0)),
        ]
    lines += [
        ScreenLine(f"{each.row.placement} {each.row.city}", text, each.view(), is_row=True)
        for each, text in zip(found, rows, strict=True)
    ]
    if headers:
        # Compared without the durations in them, which always change.
        compared = [(each.row.city, each.cause) for each in found]
        why = paragraphs(found) + workload_paragraph(
            workload_condition(workload, found), context.env.now()
        )
        lines += [ScreenLine(f"why {i}", text, compared) for i, text in enumerate(why)]
    return lines
