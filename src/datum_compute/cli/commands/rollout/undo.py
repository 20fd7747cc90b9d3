"""Restores template, placements and labels of an earlier revision, as a new revision.

Without a revision it goes back to the one before the active revision, whatever that changed: it
never skips a release. The history only grows, so that an undo can be undone. The restart annotation
is not restored: a restart has happened, and to remove its time would replace every instance again.
A way back is urgent, so all cities take it at once, whatever the policy says of waves, unless waves
are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute.constants import ANNOTATION_ROLLOUT_PROMOTED
from datum_compute.cli.commands.rollout.history import find_revision
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.history.entries import Entry, Revisions, append_entries, missing_entry
from datum_compute.cli.history.recorder import Recorder, revision_numbers
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.render.spec_diff import SpecChange, diff_metadata, diff_specs
from datum_compute.cli.rollout.policy import change_waves
from datum_compute.cli.rollout.reads import read_result
from datum_compute.cli.rollout.wait import is_rolled_out, wait_rolled_out
from datum_compute.cli.rollout.waves import policy_of, wave_lines
from datum_compute.cli.session import Session
from datum_compute.cli.workload import (
    CONFLICT_RETRIES,
    Updated,
    conflict_error,
    interruption_lines,
    print_fields,
    print_missing_data,
    read_updated,
    removal_lines,
    require_workload,
    restarted_at,
    say_if_stopped,
    with_restart,
)
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.decisions.instances.revisions import template_hash

Json = Mapping[str, Any]
Workload = dict[str, Any]

ALL_WAVES = "all"


@dataclass(frozen=True)
class _Plan:
    live: Workload
    revisions: Revisions
    """The history with an entry for every change so far."""
    target: Entry
    wanted: Workload
    """The live workload with what is restored."""
    updated: Updated
    """The instances that run it already."""

    @property
    def spec(self) -> Workload:
        spec: Workload = self.wanted["spec"]
        return spec

    @property
    def changes(self) -> list[SpecChange]:
        return differences(self.live, self.wanted)

    @property
    def changes_template(self) -> bool:
        return template_hash(self.spec["template"]) != template_hash(self.live["spec"]["template"])


def undo(context: Context) -> int:
    session = context.open_session()
    name = context.args.name

    async def show_plan(client: ApiClient) -> _Plan:
        plan = await _plan(context, client, context.args.to_revision)
        if plan.changes:
            _print_plan(context, plan)
            await print_missing_data(context, client, plan.wanted)
        else:
            _print_unchanged(context, plan)
        return plan

    async def carry_out(client: ApiClient, plan: _Plan) -> int:
        recorder = Recorder(context, client)
        if plan.changes:
            workload, revision, before = await _write(context, client, recorder, plan, session)
        else:
            workload, before = plan.live, None
            revision = await recorder.finish(plan.live)
        instances, done = None, context.args.wait
        say_if_stopped(context, workload)
        if context.args.wait:
            waved = plan.changes_template
            if plan.changes or not await is_rolled_out(client, name, waved=waved):
                rollout = await wait_rolled_out(context, client, name, of=workload, waved=waved)
                done = not rollout.stopped
            workload, instances = await read_result(client, name)
        if plan.changes:
            _print_done(context, plan, revision, before, done=done)
        action = "rolled back" if plan.changes else "unchanged"
        view = result(workload, action, instances, revision)
        if context.args.output not in ("table", "wide"):
            show_results(context, [view])
        return 0

    async def work(client: ApiClient) -> int:
        return await carry_out(client, await show_plan(client))

    if context.args.yes:
        return session.run(work)
    plan = session.run(show_plan)
    if plan.changes:
        context.confirm(f'Roll "{name}" back to revision #{plan.target.rev}?')
    return session.run(lambda client: carry_out(client, plan))


async def _plan(context: Context, client: ApiClient, wanted: int | None) -> _Plan:
    name = context.args.name
    live = await require_workload(context, client)
    recorder = Recorder(context, client)
    recorded = await recorder.history.read(live)
    missing = missing_entry(recorded, live, context.env.now())
    revisions = append_entries(recorded, [missing])
    number = wanted or _interrupted(missing)
    target = find_revision(revisions, number, name) if number else _previous(revisions, name)
    if target.spec is None:
        again = command("deploy", name, f"--image={target.image}") if target.image else None
        raise CommandError(
            f'revision #{target.rev} of "{name}" was too large to keep',
            command("rollout", "history", name, "--revision", str(target.rev)),
            again,
            code="NotKept",
        )
    wanted_workload = restored(live, target)
    if context.args.waves:
        metadata = {**wanted_workload["metadata"]}
        wanted_workload = {**wanted_workload, "metadata": metadata}
        change_waves(wanted_workload, context.args.waves)
    updated = await read_updated(client, wanted_workload, live)
    return _Plan(live, revisions, target, wanted_workload, updated)


def _interrupted(missing: Entry | None) -> int | None:
    """The target of an undo that was written but not recorded, which is then finished."""
    return missing.rollback_to or None if missing is not None else None


def _previous(revisions: Revisions, name: str) -> Entry:
    """The revision before the active one."""
    if len(revisions.entries) > 1:
        return revisions.entries[-2]
    raise CommandError(
        f'"{name}" has no earlier revision to go back to',
        command("rollout", "history", name),
        exit_code=Exit.NOT_FOUND,
        code="NoRevision",
    )


def differences(live: Json, wanted: Json) -> list[SpecChange]:
    return [*diff_metadata(live, wanted), *diff_specs(live["spec"], wanted["spec"])]


def restored(live: Workload, entry: Entry) -> Workload:
    """The live workload with what the entry recorded, but for restarts."""
    metadata = dict(live["metadata"])
    if entry.labels is not None:
        metadata["labels"] = entry.labels
    spec = restore_spec(live["spec"], entry.spec or {})
    return {**live, "metadata": metadata, "spec": spec}


def restore_spec(live: Json, stored: Json) -> Workload:
    """The live spec with template and placements of the stored one, but for restarts."""
    parts = {part: stored[part] for part in ("template", "placements") if part in stored}
    return with_restart({**live, **parts}, restarted_at({"spec": live}))


def _print_plan(context: Context, plan: _Plan) -> None:
    name = context.args.name
    note = revision_numbers(plan.revisions, plan.live)
    context.say(f'Rolling "{name}" back to revision #{plan.target.rev} ({note}):\n')
    print_fields(context, [(each.label, str(each)) for each in plan.changes])
    for line in removal_lines(plan.wanted, plan.live):
        context.say(f"{line}\n")
    if plan.changes_template:
        waves = wave_lines(plan.wanted, plan.updated) if context.args.waves else []
        lines = interruption_lines(plan.wanted, plan.live, plan.updated, waves)
        if lines:
            context.say("\n".join(lines) + "\n")


def _print_unchanged(context: Context, plan: _Plan) -> None:
    """After a restart the workload is as in the revision before it: say so, and how to go further
    back."""
    name, target, active = context.args.name, plan.target, plan.revisions.entries[-1]
    if target.rev == active.rev:
        context.say(f'"{name}" is already at revision #{target.rev}.')
        return
    context.say(
        f'"{name}" is already as in revision #{target.rev}: revision #{active.rev} has the same '
        "template, placements and labels."
    )
    if context.args.to_revision is None and not active.rollback_to:
        older = [each for each in plan.revisions.entries if each.spec and each.rev < target.rev]
        for entry in reversed(older):
            if differences(plan.live, restored(plan.live, entry)):
                context.suggest(command("rollout", "undo", name, "--to-revision", str(entry.rev)))
                return


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
            written = await recorder.change(
                plan.live, plan.spec, entry, metadata=_metadata(context, plan)
            )
        except errors.Conflict:
            plan = await _plan(context, client, plan.target.rev)
        else:
            session.written.append(context.args.name)
            return written, await recorder.record(plan.live, written, entry), before
    raise conflict_error("rolling back", context.args.name)


def _metadata(context: Context, plan: _Plan) -> Json:
    """With every wave open from the start, unless the way back is to be waved. Where the template
    stays, so do the waves of its rollout."""
    metadata: Json = plan.wanted["metadata"]
    if context.args.waves or not plan.changes_template or policy_of(plan.wanted) is None:
        return metadata
    promoted = f"{template_hash(plan.spec['template'])}/{ALL_WAVES}"
    notes = {**(metadata.get("annotations") or {}), ANNOTATION_ROLLOUT_PROMOTED: promoted}
    return {**metadata, "annotations": notes}


def _print_done(
    context: Context, plan: _Plan, revision: int | None, before: int | None, *, done: bool
) -> None:
    name = context.args.name
    note = f", as revision #{revision}" if revision else ""
    verb = "was rolled" if done else "is being rolled"
    context.say(f'\n"{name}" {verb} back to revision #{plan.target.rev}{note}.')
    if before:
        context.suggest(command("rollout", "undo", name, "--to-revision", str(before)))
