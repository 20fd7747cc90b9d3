"""Stops and starts a workload, everywhere or in one city.

A stop is an annotation, of the workload or of its deployments in one city. It is no revision:
nothing of what is to run changes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import wire_time
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.history.recorder import Recorder
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.rollout.reads import read_result
from datum_compute.cli.rollout.state import Rollout, decide_rollout, find_stop
from datum_compute.cli.rollout.wait import wait_rolled_out, wait_stopped
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.cli.workload import deployments_in, deployments_of, require_workload
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.decisions.suspension import CONTROLLED

Json = dict[str, Any]

_BEGUN = {"stop": "stopping", "start": "starting"}
_ENDED = {"stop": "stopped", "start": "started"}


def change(context: Context, *, stops: bool) -> int:
    """Stop or start it, and wait until that has happened."""
    session = context.open_session()
    name, city = context.args.name, (context.args.city or "").upper()
    session.work = "stop" if stops else "start"
    where = f'"{name}"{f" in {city}" if city else ""}'

    async def work(client: ApiClient) -> int:
        live = await require_workload(context, client)
        objects = await _in_city(context, client, live, city, stops=stops) if city else [live]
        changes = [each for each in objects if _is_due(each, stops=stops)]
        if changes:
            resource = compute.WORKLOAD_DEPLOYMENTS if city else compute.WORKLOADS
            notes = await _annotations(context, client, stops=stops)
            for each in changes:
                metadata = {"uid": each["metadata"]["uid"], "annotations": notes}
                body = merge({"metadata": metadata})
                await client.patch(resource, each["metadata"]["name"], body, NAMESPACE)
            session.written.append(name)
            context.say(f"{'Stopping' if stops else 'Starting'} {where}\n")
        else:
            context.say(f"{where} is {'already' if stops else 'not'} stopped.")
        left = None if stops or city else await _left_stopped(client, name)
        runs = not (left and left.stopped)
        action = _BEGUN[session.work] if changes else "unchanged"
        workload, instances = live, None
        if context.args.wait:
            if stops:
                await wait_stopped(context, client, name, city)
            elif changes and runs:
                await wait_rolled_out(context, client, name, of=live, waved=False)
            workload, instances = await read_result(client, name)
            if changes and runs:
                action = _ENDED[session.work]
                kept = "is stopped, and keeps its quota"
                context.say(f"{where} {kept if stops else 'runs again'}.")
        if changes and not runs:
            action = _ENDED["stop"]
        if left and left.stopped_cities:
            _name_stopped_cities(context, left)
        if context.args.output not in ("table", "wide"):
            show_results(context, [result(workload, action, instances)])
        if stops:
            start = command("start", name, "--city", city) if city else command("start", name)
            context.suggest(start)
        return 0

    return session.run(work)


def _is_due(found: Json, *, stops: bool) -> bool:
    """Whether it must be written. What is stopped with its workload alone would start with it."""
    by = (found["metadata"].get("annotations") or {}).get(compute.ANNOTATION_SUSPENDED)
    return (not by or by in CONTROLLED) if stops else bool(by)


async def _in_city(
    context: Context, client: ApiClient, live: Json, city: str, *, stops: bool
) -> Sequence[Json]:
    if not stops and find_stop(live) is not None:
        name = context.args.name
        raise CommandError(
            f'"{name}" is stopped in all cities, so {city} cannot be started alone',
            command("start", name),
            exit_code=Exit.CONFLICT,
            code="Conflict",
        )
    return await deployments_in(context, client, live, city)


async def _left_stopped(client: ApiClient, name: str) -> Rollout:
    """The workload once it is not stopped as a whole: cities that were stopped by themselves stay
    so."""
    live = to_dict(await client.get(compute.WORKLOADS, name, NAMESPACE))
    return decide_rollout(live, await deployments_of(client, live))


def _name_stopped_cities(context: Context, rollout: Rollout) -> None:
    cities, name = rollout.stopped_cities, context.args.name
    be = "is" if len(cities) == 1 else "are"
    context.say(f"{', '.join(cities)} {be} stopped separately.")
    if rollout.stopped:
        context.say(f'No instance of "{name}" runs.')
    context.suggest(*(command("start", name, "--city", city) for city in cities))


async def _annotations(
    context: Context, client: ApiClient, *, stops: bool
) -> dict[str, str | None]:
    if not stops:
        return {compute.ANNOTATION_SUSPENDED: None, compute.ANNOTATION_SUSPENDED_BY: None}
    now = wire_time(context.env.now())
    by = {"actor": await Recorder(context, client).actor(), "timestamp": now}
    return {
        compute.ANNOTATION_SUSPENDED: compute.SUSPENDED,
        compute.ANNOTATION_SUSPENDED_BY: json.dumps(by),
    }
