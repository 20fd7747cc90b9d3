"""``scale NAME --min N``: how many instances run in each city."""

from __future__ import annotations

import argparse
import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from datum_compute.cli.arguments import (
    add_confirmation_flag,
    add_message_flag,
    add_rollout_flags,
    parse_integer,
    set_examples,
)
from datum_compute.cli.context import Context
from datum_compute.cli.errors import unknown, usage
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import RESULT_FIELDS, add_output_flags, count
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.render.spec_diff import diff_specs, summarize_changes
from datum_compute.client import errors

if TYPE_CHECKING:
    from datum_compute.cli.history.entries import Entry
    from datum_compute.cli.history.recorder import Recorder
    from datum_compute.client.client import ApiClient


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(
        parser,
        "scale hello --min 3",
        "scale hello --min 1 --placement default --no-wait",
    )
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    parser.add_argument(
        "--min",
        type=parse_integer,
        required=True,
        dest="minimum",
        metavar="N",
        help="instances per city",
    )
    parser.add_argument("--placement", help="only this placement (default: all)")
    add_message_flag(parser)
    add_confirmation_flag(parser)
    add_rollout_flags(parser)
    add_output_flags(parser, RESULT_FIELDS)


def run(context: Context) -> int:
    from datum_compute.cli.history.recorder import Recorder
    from datum_compute.cli.rollout.reads import read_result
    from datum_compute.cli.rollout.wait import is_rolled_out, wait_rolled_out
    from datum_compute.cli.workload import say_if_stopped

    args = context.args
    if not 1 <= args.minimum <= 1000:
        way = command("scale", args.name, "--min", "1000")
        raise usage(
            f"--min {args.minimum}: expected a number from 1 to 1000",
            way if args.minimum > 0 else command("stop", args.name),
        )
    session = context.open_session()

    async def work(client: ApiClient) -> int:
        recorder = Recorder(context, client)
        change = await _scale(context, client, recorder)
        workload, changed, revision = change.workload, change.entry is not None, None
        if change.entry is None:
            revision = await recorder.finish(workload)
        else:
            session.written.append(args.name)
            revision = await recorder.record(change.before, workload, change.entry)
        instances = None
        say_if_stopped(context, workload)
        if args.wait:
            name = args.name
            done = not changed and await is_rolled_out(client, name, waved=False)
            if (
                not done
                and not (
                    await wait_rolled_out(context, client, name, of=workload, waved=False)
                ).stopped
            ):
                per_city = f"{count(args.minimum, 'instance')} per city"
                context.say(f'"{name}" now runs {per_city}{_revision_note(revision)}.')
            workload, instances = await read_result(client, name)
        view = result(workload, "scaled" if changed else "unchanged", instances, revision)
        if args.output not in ("table", "wide"):
            show_results(context, [view])
        return 0

    return session.run(work)


def _revision_note(revision: int | None) -> str:
    return f", revision #{revision}" if revision else ""


class _Change(NamedTuple):
    """The workload as it is now; its state before and the entry of the change, if there was one."""

    workload: dict[str, Any]
    before: dict[str, Any] | None = None
    entry: Entry | None = None


async def _scale(context: Context, client: ApiClient, recorder: Recorder) -> _Change:
    from datum_compute.cli.headroom import headroom, quota_lines
    from datum_compute.cli.history.recorder import revision_numbers
    from datum_compute.cli.workload import CONFLICT_RETRIES, conflict_error, require_workload

    name, minimum = context.args.name, context.args.minimum
    for _ in range(CONFLICT_RETRIES):
        workload = await require_workload(context, client)
        spec, old = _scaled(context, workload)
        if old == [minimum]:
            context.say(f'"{name}" is already set to {count(minimum, "instance")} per city.')
            return _Change(workload)
        revisions = await recorder.revisions(workload)
        changes = summarize_changes(diff_specs(workload["spec"], spec))
        entry = await recorder.entry(spec, changes)
        short = quota_lines({**workload, "spec": spec}, workload, await headroom(client))
        try:
            scaled = await recorder.change(workload, spec, entry)
        except errors.Conflict:
            continue
        moved = f"min replicas {', '.join(map(str, old))} → {minimum}"
        context.say(f'Scaling "{name}": {moved} ({revision_numbers(revisions, workload)})\n')
        for line in short:
            context.say(f"{line}\n")
        return _Change(scaled, workload, entry)
    raise conflict_error("scaling", name)


def _scaled(context: Context, workload: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The spec with the new minimum, and the old minimums."""
    wanted = context.args.placement
    spec = copy.deepcopy(workload["spec"])
    placements = spec["placements"]
    chosen = [p for p in placements if wanted in (None, p["name"])]
    if not chosen:
        known = [p["name"] for p in placements]
        name = context.args.name
        raise unknown("placement", wanted, known, command("status", name), f' in workload "{name}"')
    old = sorted({p["scaleSettings"]["minReplicas"] for p in chosen})
    for placement in chosen:
        placement["scaleSettings"]["minReplicas"] = context.args.minimum
    return spec, old
