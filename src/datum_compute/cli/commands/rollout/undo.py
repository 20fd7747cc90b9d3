"""Restores template and placements of an earlier revision, as a new revision.

The history only grows, so that an undo can be undone. The restart annotation is not restored:
an undo is not a restart.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute.constants import ANNOTATION_RESTARTED_AT
from datum_compute.cli.commands.rollout.history import find_revision
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.history.entries import Entry, Revisions, append_entries, missing_entry
from datum_compute.cli.history.recorder import Recorder, revision_numbers
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.render.spec_diff import diff_specs
from datum_compute.cli.rollout.wait import is_rolled_out, read_result, wait_rolled_out
from datum_compute.cli.session import Session
from datum_compute.cli.workload import (
    CONFLICT_RETRIES,
    conflict_error,
    interruption_lines,
    print_fields,
    require_workload,
)
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.decisions.instances.revisions import template_hash

Json = Mapping[str, Any]
Workload = dict[str, Any]


@dataclass(frozen=True)
class _Plan:
    live: Workload
    revisions: Revisions
    """The history with an entry for every change so far."""
    target: Entry
    spec: Workload

    @property
    def changes(self) -> bool:
        return bool(diff_specs(self.live["spec"], self.spec))


def undo(context: Context) -> int:
    session = context.open_session()
    plan = session.run(lambda client: _plan(context, client, context.args.to_revision))
    name = context.args.name
    if plan.changes:
        _print_plan(context, plan)
        context.confirm(f'Roll "{name}" back to revision #{plan.target.rev}?')
    else:
        context.say(f'"{name}" is already at revision #{plan.target.rev}.')

    async def work(client: ApiClient) -> int:
        recorder = Recorder(context, client)
        if plan.changes:
            workload, revision, before = await _write(context, client, recorder, plan, session)
        else:
            workload, before = plan.live, None
            revision = await recorder.finish(plan.live)
        instances = None
        if context.args.wait:
            if plan.changes or not await is_rolled_out(client, name):
                await wait_rolled_out(context, client, name, timeout=context.args.timeout)
            workload, instances = await read_result(client, name)
        if plan.changes:
            _print_done(context, plan, revision, before)
        action = "rolled back" if plan.changes else "unchanged"
        view = result(workload, action, instances, revision)
        if context.args.output not in ("table", "wide"):
            show_results(context, [view])
        return 0

    return session.run(work)


async def _plan(context: Context, client: ApiClient, wanted: int | None) -> _Plan:
    name = context.args.name
    live = await require_workload(context, client)
    recorder = Recorder(context, client)
    recorded = await recorder.history.read(live)
    missing = missing_entry(recorded, live, context.env.now())
    revisions = append_entries(recorded, [missing])
    number = wanted or _interrupted(missing)
    target = find_revision(revisions, number, name) if number else _previous(revisions, live, name)
    if target.spec is None:
        raise CommandError(
            f'revision #{target.rev} of "{name}" was too large to keep', code="NotKept"
        )
    return _Plan(live, revisions, target, restore_spec(live["spec"], target.spec))


def _interrupted(missing: Entry | None) -> int | None:
    """The target of an undo that was written but not recorded, which is then finished."""
    return missing.rollback_to or None if missing is not None else None


def _previous(revisions: Revisions, live: Workload, name: str) -> Entry:
    """The newest revision whose spec differs from the live one, restarts aside."""
    for entry in revisions.entries[::-1]:
        spec = entry.spec
        if spec is not None and diff_specs(live["spec"], restore_spec(live["spec"], spec)):
            return entry
    raise CommandError(
        f'"{name}" has no earlier revision to go back to',
        command("rollout", "history", name),
        exit_code=Exit.NOT_FOUND,
        code="NoRevision",
    )


def restore_spec(live: Json, stored: Json) -> Workload:
    """The live spec with template and placements of the stored one, but for restarts."""
    spec = copy.deepcopy(dict(live))
    for part in ("template", "placements"):
        if part in stored:
            spec[part] = copy.deepcopy(stored[part])
    last = ((live["template"].get("metadata") or {}).get("annotations") or {}).get(
        ANNOTATION_RESTARTED_AT
    )
    metadata = dict(spec["template"].get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(ANNOTATION_RESTARTED_AT, None)
    if last is not None:
        annotations[ANNOTATION_RESTARTED_AT] = last
    metadata["annotations"] = annotations
    if not annotations:
        del metadata["annotations"]
    spec["template"]["metadata"] = metadata
    if not metadata:
        del spec["template"]["metadata"]
    return spec


def _print_plan(context: Context, plan: _Plan) -> None:
    name = context.args.name
    note = revision_numbers(plan.revisions, plan.live)
    context.say(f'Rolling "{name}" back to revision #{plan.target.rev} ({note}):\n')
    changes = diff_specs(plan.live["spec"], plan.spec)
    print_fields(context, [(each.label, str(each)) for each in changes])
    if template_hash(plan.spec["template"]) != template_hash(plan.live["spec"]["template"]):
        for line in interruption_lines({"spec": plan.spec}, plan.live):
            context.say(line)
        context.say()


async def _write(
    context: Context, client: ApiClient, recorder: Recorder, plan: _Plan, session: Session
) -> tuple[Workload, int | None, int]:
    """The workload, its revision, and the revision it had. The target stays the one that was
    confirmed, even if the workload changes concurrently."""
    for _ in range(CONFLICT_RETRIES):
        before = plan.revisions.number
        if not plan.changes:
            return plan.live, await recorder.finish(plan.live), before
        number = plan.target.rev
        entry = await recorder.entry(plan.spec, f"rollback to #{number}", rollback_to=number)
        try:
            written = await recorder.change(plan.live, plan.spec, entry)
        except errors.Conflict:
            plan = await _plan(context, client, plan.target.rev)
        else:
            session.written.append(context.args.name)
            return written, await recorder.record(plan.live, written, entry), before
    raise conflict_error("rolling back", context.args.name)


def _print_done(context: Context, plan: _Plan, revision: int | None, before: int | None) -> None:
    name = context.args.name
    note = f", as revision #{revision}" if revision else ""
    done = "was rolled" if context.args.wait else "is being rolled"
    context.say(f'\n"{name}" {done} back to revision #{plan.target.rev}{note}.')
    if before:
        context.suggest(command("rollout", "undo", name, "--to-revision", str(before)))
