"""``rollout history``: the entries of a workload as a table, or one of them in full."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from datum_compute.api.compute.constants import ANNOTATION_ROLLOUT
from datum_compute.cli import queries
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.history.entries import Entry, Revisions
from datum_compute.cli.render.output import NONE, age, one_line, show, table
from datum_compute.cli.render.spec_diff import (
    SpecChange,
    diff_metadata,
    diff_specs,
    mask_spec,
    masked_variables,
    summarize_changes,
)

HEADER = ("REV", "WHEN", "IMAGE", "CHANGES", "BY", "STATUS")
LEAST = ("BY", "IMAGE", "CHANGES")

Json = dict[str, Any]


def show_history(context: Context) -> int:
    name = context.args.name
    workload = queries.workload(context, name)
    revisions = queries.revisions(context, workload)
    outcomes = _outcomes(context, workload, revisions)
    if context.args.revision is not None:
        entry = find_revision(revisions, context.args.revision, name)
        _show_one(context, workload, revisions, entry, outcomes)
        return 0
    views = _views(context, workload, revisions, outcomes)[: context.args.limit]
    show(
        context,
        views,
        as_table=lambda _: _table(context, views) if views else "",
        names=[f"revision/{view['revision']}" for view in views],
    )
    if context.tables and not context.args.no_headers:
        _print_missing(context, workload, revisions)
    return 0


def read_views(context: Context, workload: Json) -> list[Json]:
    """The revisions, newest first."""
    revisions = queries.revisions(context, workload)
    return _views(context, workload, revisions, _outcomes(context, workload, revisions))


def _views(
    context: Context, workload: Json, revisions: Revisions, outcomes: Mapping[int, str]
) -> list[Json]:
    newest_first = reversed(revisions.entries)
    return [_view(context, entry, workload, revisions, outcomes) for entry in newest_first]


def read_revision(context: Context, workload: Json, number: int) -> Json:
    """One of them in full: its spec, and what it changed. Raises where there is none."""
    revisions = queries.revisions(context, workload)
    entry = find_revision(revisions, number, str(workload["metadata"]["name"]))
    return _full_view(context, workload, revisions, entry, _outcomes(context, workload, revisions))[
        0
    ]


def find_revision(revisions: Revisions, number: int, name: str) -> Entry:
    entry = revisions.find(number)
    if entry is not None:
        return entry
    known = ", ".join(f"#{each.rev}" for each in revisions.entries) or "none"
    raise CommandError(
        f'revision #{number} of "{name}" not found; recorded: {known}',
        command("rollout", "history", name),
        exit_code=Exit.NOT_FOUND,
        code="NotFound",
    )


def is_active(entry: Entry, workload: Json, revisions: Revisions) -> bool:
    return entry is revisions.active and entry.matches_spec(workload["spec"])


def _outcomes(context: Context, workload: Json, revisions: Revisions) -> dict[int, str]:
    """What became of rollouts in waves, by the revision that began them, as far as it is known."""
    notes = workload["metadata"].get("annotations") or {}
    if not notes.get(ANNOTATION_ROLLOUT) and not any(each.outcome for each in revisions.entries):
        return {}
    from datum_compute.cli.rollout.waves import find_outcomes  # rarely needed, and slow to load

    return find_outcomes(workload, queries.deployments_of(context, workload), revisions)


def _view(
    context: Context,
    entry: Entry,
    workload: Json,
    revisions: Revisions,
    outcomes: Mapping[int, str],
) -> Json:
    return {
        "revision": entry.rev,
        "when": entry.timestamp,
        "age": age(entry.timestamp, context.env.now()),
        "image": entry.image,
        "changes": entry.changes,
        "actor": entry.actor,
        "active": is_active(entry, workload, revisions),
        "outcome": outcomes.get(entry.rev),
        "message": entry.message or None,
        "object": {"name": f"revision {entry.rev}", **json.loads(entry.to_json())},
    }


def _table(context: Context, views: list[Json]) -> str:
    rows = [
        (
            f"#{view['revision']}",
            view["age"],
            view["image"],
            _changes(view),
            view["actor"] or NONE,
            _status(view) or NONE,
        )
        for view in views
    ]
    headers = not context.args.no_headers
    return table(HEADER, rows, headers=headers, width=context.width(), least=LEAST)


def _status(view: Json) -> str:
    """Whether it is active, and what became of its rollout."""
    return ", ".join(["active"] * view["active"] + ([view["outcome"]] if view["outcome"] else []))


def _changes(view: Json) -> str:
    message = view.get("message")
    return f"{view['changes']} ({one_line(message)})" if message else str(view["changes"])


def _print_missing(context: Context, workload: Json, revisions: Revisions) -> None:
    name, active = workload["metadata"]["name"], revisions.active
    if active is None:
        context.say(
            f'No revisions of "{name}" are recorded yet; the next change will be the first.'
        )
    elif active.spec is not None and not active.matches_spec(workload["spec"]):
        changes = summarize_changes(diff_specs(active.spec, workload["spec"]))
        context.say(f"\nExternal change since #{active.rev}: {changes}")


def _full_view(
    context: Context,
    workload: Json,
    revisions: Revisions,
    entry: Entry,
    outcomes: Mapping[int, str],
) -> tuple[Json, tuple[SpecChange, ...]]:
    earlier = [each for each in revisions.entries if each.rev < entry.rev]
    before = earlier[-1] if earlier else None
    changes: tuple[SpecChange, ...] = ()
    if before is not None and before.spec is not None and entry.spec is not None:
        old, new = ({"metadata": {"labels": each.labels or {}}} for each in (before, entry))
        known = before.labels is not None and entry.labels is not None
        labels = diff_metadata(old, new) if known else []
        changes = (*labels, *diff_specs(before.spec, entry.spec))
    view = _view(context, entry, workload, revisions, outcomes)
    raw = view.pop("object")
    view["diff"] = [{"field": c.label, "old": c.old, "new": c.new} for c in changes]
    view["comparedWith"] = before.rev if before else None
    return {**view, "spec": mask_spec(entry.spec), "object": raw}, changes


def _show_one(
    context: Context,
    workload: Json,
    revisions: Revisions,
    entry: Entry,
    outcomes: Mapping[int, str],
) -> None:
    view, changes = _full_view(context, workload, revisions, entry, outcomes)
    show(
        context,
        view,
        as_table=lambda _: _in_full(view, changes),
        names=[f"revision/{entry.rev}"],
    )
    secret = list(masked_variables(entry.spec)) if entry.spec is not None else []
    if secret:
        context.suggest(command("secrets", "set", workload["metadata"]["name"], *secret))


def _in_full(view: Json, changes: tuple[SpecChange, ...]) -> str:
    import yaml

    by = f" by {view['actor']}" if view["actor"] else ""
    active = f", {_status(view)}" if _status(view) else ""
    lines = [
        f"Revision   #{view['revision']}, {view['age']} ago{by}{active}",
        f"Image      {view['image']}",
        f"Changes    {_changes(view)}",
        "",
    ]
    if view["comparedWith"] is not None:
        lines.append(f"Compared with #{view['comparedWith']}")
        width = max((len(change.label) for change in changes), default=0)
        lines += [f"  {change.label.ljust(width)}   {change}" for change in changes]
        lines += [] if changes else ["  no changes to the spec"]
        lines.append("")
    if view["spec"] is None:
        return "\n".join([*lines, "Its spec was too large to keep."])
    spec = yaml.safe_dump({"spec": view["spec"]}, sort_keys=False, allow_unicode=True).rstrip()
    return "\n".join([*lines, spec])
