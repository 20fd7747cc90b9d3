"""Creates or updates workloads: prints the plan, writes, and waits until they run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from datum_compute.cli.commands.deploy import build, files, manifest, preflight
from datum_compute.cli.commands.deploy.flags import Flags, flags_of
from datum_compute.cli.commands.deploy.manifest import Workload
from datum_compute.cli.commands.deploy.plan import (
    DeployPlan,
    DesiredWorkload,
    make_plan,
    make_plans,
    merge_live,
)
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.explain.suggestions import AddFlag, command
from datum_compute.cli.history.recorder import Recorder
from datum_compute.cli.render.output import elapsed
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.rollout.reads import read_result
from datum_compute.cli.rollout.wait import is_rolled_out, wait_rolled_out
from datum_compute.cli.session import Session
from datum_compute.cli.workload import CONFLICT_RETRIES, conflict_error, live_workload
from datum_compute.client import errors
from datum_compute.client.client import ApiClient


def run(context: Context) -> int:
    if context.args.exit_code and not context.args.dry_run:
        raise usage("--exit-code needs --dry-run", AddFlag("--dry-run"))
    flags = flags_of(context.args)
    build.check_flags(context, image=flags.image)
    if context.args.save:
        files.check_saving(context.args.save)
    if context.args.build:
        flags = flags._replace(image=build.build_image(context))
    if context.args.file:
        if context.args.name or flags.given:
            names = [flag.name for flag in flags.given]
            given = ", ".join((["NAME"] if context.args.name else []) + names)
            raise usage(f"-f cannot be combined with {given}")
        wanted = files.load(context.args.file, context.streams.stdin)
        return _deploy(
            context, [DesiredWorkload(w["metadata"]["name"], _as_written(w)) for w in wanted]
        )
    if context.args.name:
        name = context.args.name
        return _deploy(context, [DesiredWorkload(name, partial(apply_flags, name, flags))])
    if flags.given or not context.streams.interactive:
        raise usage("expected NAME or -f FILE", command("deploy", "-f", "FILE"))
    from datum_compute.cli.commands.deploy import prompts

    name, flags = prompts.prompt_for_workload(context)
    return _deploy(context, [DesiredWorkload(name, partial(apply_flags, name, flags))], ask=True)


def _as_written(wanted: Workload) -> Any:
    return lambda live: merge_live(live, wanted)


def apply_flags(name: str, flags: Flags, live: Workload | None) -> Workload:
    if live is None:
        return manifest.new_workload(name, flags)
    return manifest.changed_workload(live, flags)


def _deploy(context: Context, workloads: Sequence[DesiredWorkload], *, ask: bool = False) -> int:
    async def plan_all(client: ApiClient) -> tuple[list[str], list[DeployPlan]]:
        """All are planned before any is written, so that a file is applied whole or not at all."""
        absent = await _absent_networks(context, client, workloads)
        if absent and not context.args.dry_run:
            return absent, []  # a dry run would fail without them
        return absent, await make_plans(context, client, workloads, absent=absent)

    session = context.open_session()
    absent, plans = session.run(plan_all)
    if context.args.dry_run:
        return _dry_run(context, plans, absent)
    for name in absent:
        project = context.target.project
        context.confirm(f'Network "{name}" does not exist in project {project}. Create it?')
    if absent:
        plans = session.run(lambda client: _with_networks(context, client, workloads, absent))
    confirmed = [line for plan in plans for line in plan.removals]
    if confirmed:
        context.confirm(f"{' '.join(confirmed)} Deploy it?")
    elif ask and any(plan.writes for plan in plans):
        context.confirm("Deploy it?")

    async def work(client: ApiClient) -> int:
        recorder = Recorder(context, client)
        results: dict[str, dict[str, Any]] = {}
        try:
            done = []
            for plan in plans:
                plan, found, rev = await _write(context, client, recorder, plan, session)
                done.append((plan, found, rev))
                results[plan.desired.name] = result(found, plan.action, None, rev)
            if context.args.save:
                files.save(context.args.save, [workload for _, workload, _ in done])
            for plan, found, rev in done:
                name = plan.desired.name
                if context.args.wait:
                    results[name] = await _follow(context, client, plan, found, rev)
                elif plan.writes:
                    note = f" as revision #{rev}" if rev else ""
                    context.say(f"Applied{note}. See  {context.command('status', name)}")
        except (CommandError, errors.ClientError):
            if len(plans) > 1:  # the others are deployed all the same
                show_results(context, list(results.values()), several=True)
            raise
        show_results(context, list(results.values()))
        return 0

    return session.run(work)


async def _absent_networks(
    context: Context, client: ApiClient, workloads: Sequence[DesiredWorkload]
) -> list[str]:
    """The networks that do not exist yet; cities and types are checked here too."""
    wanted = []
    for desired in workloads:
        live = await live_workload(client, desired.name)
        wanted.append(desired.describe(live))
        await preflight.check_cities(context, client, wanted[-1], live)
        preflight.check_type(wanted[-1], live)
    absent = await preflight.missing_networks(client, wanted)
    if context.args.dry_run:
        for name in absent:
            context.say(f'Network "{name}" does not exist; it would be created.\n')
    return absent


async def _with_networks(
    context: Context, client: ApiClient, workloads: Sequence[DesiredWorkload], absent: Sequence[str]
) -> list[DeployPlan]:
    for name in absent:
        await preflight.create_network(client, name)
        context.say(f'Network "{name}" created.\n')
    return await make_plans(context, client, workloads)


def _dry_run(context: Context, plans: Sequence[DeployPlan], absent: Sequence[str]) -> int:
    if context.args.save:
        files.save(context.args.save, [plan.outcome for plan in plans])
    views = [{**result(plan.outcome, plan.action), "dryRun": True} for plan in plans]
    show_results(context, views)
    changed = absent or any(plan.writes for plan in plans)
    return 1 if context.args.exit_code and changed else 0


async def _write(
    context: Context, client: ApiClient, recorder: Recorder, plan: DeployPlan, session: Session
) -> tuple[DeployPlan, Workload, int | None]:
    """Carry out the plan; after a conflict, plan again and print what changes.
    The plan that was done, the workload then, and its revision."""
    for _ in range(CONFLICT_RETRIES):
        if not plan.writes:
            return plan, plan.outcome, await recorder.finish(plan.outcome)
        entry = await recorder.entry(plan.outcome["spec"], plan.changes)
        try:
            if plan.live is None:
                written = await recorder.create(plan.wanted, entry)
            else:
                written = await recorder.change(
                    plan.live, plan.wanted["spec"], entry, metadata=plan.wanted["metadata"]
                )
        except (errors.Conflict, errors.AlreadyExists):
            removals = plan.removals
            plan = await make_plan(context, client, plan.desired)
            if plan.removals != removals and not context.args.yes:
                break  # the user confirmed other removals
        else:
            session.written.append(plan.desired.name)
            return plan, written, await recorder.record(plan.live, written, entry)
    raise conflict_error("deploying", plan.desired.name)


async def _follow(
    context: Context,
    client: ApiClient,
    plan: DeployPlan,
    workload: Workload,
    revision: int | None,
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    name, window = plan.desired.name, context.args.window
    if plan.writes or not await is_rolled_out(client, name):
        try:
            rollout = await wait_rolled_out(context, client, name, of=workload)
        except CommandError as error:
            if error.exit_code is Exit.ROLLOUT_FAILED and plan.live is not None:
                error.suggestions = (*error.suggestions[:1], command("rollout", "undo", name))
            raise
        note = f", revision #{revision}" if revision else ""
        if rollout.stopped:
            if plan.writes:
                context.say(f"\nApplied{f' as revision #{revision}' if revision else ''}.")
            return result(workload, plan.action, None, revision)
        took = elapsed(max(0.0, loop.time() - started - window))
        context.say(f"\nRollout complete in {took}{note}.\n")
    workload, instances = await read_result(client, name)
    return result(workload, plan.action, instances, revision)
