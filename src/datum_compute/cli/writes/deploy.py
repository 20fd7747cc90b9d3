"""Creating or updating workloads: say what changes, write it, and wait until it runs."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.cli import manifest, words
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.manifest import Flags, Workload
from datum_compute.cli.names import NEW_WORKLOAD_LIMIT
from datum_compute.cli.output import elapsed
from datum_compute.cli.plan import Change, changes
from datum_compute.cli.resources import NAMESPACE
from datum_compute.cli.results import result, show_results
from datum_compute.cli.rollout import is_rolled_out, outcome, plain, wait_rolled_out
from datum_compute.cli.waiting import Detach
from datum_compute.cli.writing import change_spec
from datum_compute.client import errors
from datum_compute.client.client import ApiClient

CONFLICT_RETRIES = 5


def run(context: Context) -> int:
    flags = _flags(context.args)
    if context.args.file:
        if context.args.name or flags.given:
            given = ", ".join((["NAME"] if context.args.name else []) + flags.given)
            raise usage(f"-f describes the whole workload, so it does not go with {given}")
        wanted = manifest.load(context.args.file, context.streams.stdin)
        return _deploy(context, [_Wish(w["metadata"]["name"], _as_written(w)) for w in wanted])
    if not context.args.name:
        raise usage("name the workload, or give a file", "datumctl-compute deploy -f FILE")
    name = context.args.name
    return _deploy(context, [_Wish(name, partial(_as_flags_say, name, flags))])


@dataclass(frozen=True)
class _Wish:
    """A workload, and how it shall be, given how it is."""

    name: str
    describe: Callable[[Workload | None], Workload]


def _as_written(wanted: Workload) -> Callable[[Workload | None], Workload]:
    return lambda _: wanted


def _as_flags_say(name: str, flags: Flags, live: Workload | None) -> Workload:
    if live is None:
        return manifest.new_workload(name, flags)
    return manifest.changed_workload(live, flags)


@dataclass(frozen=True)
class _Plan:
    """One write that the server would take, or None where nothing changes."""

    wish: _Wish
    action: str
    outcome: Workload
    write: Callable[[], Awaitable[Object]] | None


def _flags(args: argparse.Namespace) -> Flags:
    cities = [c.strip().upper() for entry in args.city or [] for c in entry.split(",") if c.strip()]
    if args.minimum is not None and not 1 <= args.minimum <= 1000:
        raise usage(f"--min {args.minimum}: expected a number from 1 to 1000", "--min 1")
    return Flags(
        image=args.image,
        cities=None if args.city is None else tuple(dict.fromkeys(cities)),
        minimum=args.minimum,
        instance_type=args.instance_type,
        ports=tuple(args.port or ()),
        env=tuple(args.env or ()),
        command=tuple(args.container_command or ()),
        args=tuple(args.container_args or ()),
        network=args.network,
    )


def _deploy(context: Context, wishes: Sequence[_Wish]) -> int:
    detach = Detach(context)

    async def work(client: ApiClient) -> int:
        # All of them are judged before any is written: a file is done whole, or not begun.
        plans = [await _plan(context, client, wish) for wish in wishes]
        if context.args.dry_run:
            show_results(context, [result(p.outcome, p.action) for p in plans])
            return 0
        done = [(p, await _write(context, client, p, detach)) for p in plans]
        if context.args.wait:
            results = [await _follow(context, client, plan) for plan, _ in done]
        else:
            results = [result(workload, plan.action) for plan, workload in done]
            for name in detach.written:
                context.say(f"Written. See  datumctl-compute status {name}")
        show_results(context, results)
        return 0

    return detach.run(work)


async def _write(context: Context, client: ApiClient, plan: _Plan, detach: Detach) -> Workload:
    """Do what was planned; when somebody was faster, look again and say anew what changes."""
    for _ in range(CONFLICT_RETRIES):
        if plan.write is None:
            return plan.outcome
        try:
            written = plain(await plan.write())
        except (errors.Conflict, errors.AlreadyExists):
            plan = await _plan(context, client, plan.wish)
        else:
            detach.written.append(plan.wish.name)
            return written
    raise CommandError(
        f'deploying "{plan.wish.name}": others keep changing it',
        exit_code=Exit.CONFLICT,
        code="Conflict",
        hint="run the command again",
        retryable=True,
    )


async def _plan(context: Context, client: ApiClient, wish: _Wish) -> _Plan:
    """Ask the server whether it would take it, and say what changes."""
    live = await _live(client, wish.name)
    wanted = wish.describe(live)
    await _preflight(context, client, wanted)
    if live is None:
        return await _plan_create(context, client, wish, wanted)
    return await _plan_update(context, client, wish, live, wanted)


async def _live(client: ApiClient, name: str) -> Workload | None:
    try:
        return plain(await client.get(compute.WORKLOADS, name, NAMESPACE))
    except errors.NotFound:
        return None


async def _preflight(context: Context, client: ApiClient, wanted: Workload) -> None:
    """Refuse what cannot work before anything is written."""
    page = await client.list(networking.LOCATION_BINDINGS)
    served = {_city(plain(binding)) for binding in page.items} - {""}
    asked = [c for p in wanted["spec"].get("placements") or [] for c in p.get("cityCodes") or []]
    unknown = [city for city in asked if city not in served]
    if unknown:
        raise CommandError(
            f"{_names(unknown)} {'is' if len(unknown) == 1 else 'are'} not served in project "
            f"{context.target.project}; choose from {', '.join(sorted(served)) or 'none'}",
            exit_code=Exit.BLOCKED,
            code="NoMatchingLocation",
            hint="datumctl-compute cities",
        )
    for interface in wanted["spec"]["template"]["spec"].get("networkInterfaces") or []:
        network = (interface.get("network") or {}).get("name", "")
        try:
            await client.get(networking.NETWORKS, network, NAMESPACE)
        except errors.NotFound:
            raise CommandError(
                f'network "{network}" does not exist in project {context.target.project}',
                exit_code=Exit.NOT_FOUND,
                code="NetworkNotFound",
                hint="--network default",
            ) from None


def _city(binding: dict[str, Any]) -> str:
    if not words.is_true(binding, "Available"):
        return ""
    return str((binding["spec"].get("topology") or {}).get("topology.datum.net/city-code", ""))


def _names(values: Sequence[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


async def _plan_create(context: Context, client: ApiClient, wish: _Wish, wanted: Workload) -> _Plan:
    if len(wish.name) > NEW_WORKLOAD_LIMIT:
        raise usage(f'"{wish.name}" is too long: {NEW_WORKLOAD_LIMIT} letters are the most')
    planned = plain(await client.create(compute.WORKLOADS, wanted, NAMESPACE, dry_run=True))
    context.say(
        f'Workload "{wish.name}" does not exist in project {context.target.project}. '
        "This will create it:\n"
    )
    _say_plan(context, _summary(planned))
    write = partial(client.create, compute.WORKLOADS, wanted, NAMESPACE)
    return _Plan(wish, "created", planned, write)


async def _plan_update(
    context: Context, client: ApiClient, wish: _Wish, live: Workload, wanted: Workload
) -> _Plan:
    if live["metadata"].get("deletionTimestamp"):
        raise CommandError(
            f'workload "{wish.name}" is being destroyed; deploy it again when it is gone',
            exit_code=Exit.CONFLICT,
            code="Conflict",
            hint=f"datumctl-compute destroy {wish.name} --yes",
            retryable=True,
        )
    write = partial(change_spec, client, live, wanted["spec"])
    planned = plain(await write(dry_run=True))
    found = changes(live["spec"], planned["spec"])
    if not found:
        context.say(f'Workload "{wish.name}" is unchanged: everything is already so.')
        return _Plan(wish, "unchanged", live, None)
    context.say(f'Changes to workload "{wish.name}":\n')
    _say_plan(context, found)
    return _Plan(wish, "updated", planned, write)


def _summary(workload: Workload) -> list[tuple[str, str]]:
    spec = workload["spec"]
    lines = [
        ("image", words.image(workload)),
        ("instance type", words.instance_type(spec["template"]["spec"])),
    ]
    for placement in spec["placements"]:
        count = placement["scaleSettings"]["minReplicas"]
        noun = "instance" if count == 1 else "instances"
        where = ", ".join(placement["cityCodes"])
        lines.append((f"cities ({placement['name']})", f"{where} — {count} {noun} each"))
    return lines


def _say_plan(context: Context, lines: Sequence[Change | tuple[str, str]]) -> None:
    pairs = [(c.field, str(c)) if isinstance(c, Change) else c for c in lines]
    width = max((len(field) for field, _ in pairs), default=0)
    for field, text in pairs:
        context.say(f"  {field.ljust(width)}   {text}")
    context.say()


async def _follow(context: Context, client: ApiClient, plan: _Plan) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    name = plan.wish.name
    if plan.write is None and await is_rolled_out(client, name):
        workload, instances = await outcome(client, name)
        return result(workload, plan.action, instances)
    await wait_rolled_out(context, client, name, timeout=context.args.timeout)
    context.say(f"\nRollout complete in {elapsed(loop.time() - started)}.\n")
    workload, instances = await outcome(client, name)
    return result(workload, plan.action, instances)
