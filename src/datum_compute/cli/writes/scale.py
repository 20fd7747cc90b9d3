"""Changing how many instances run in each city."""

from __future__ import annotations

import copy
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, not_found, usage
from datum_compute.cli.resources import NAMESPACE
from datum_compute.cli.results import result, show_results
from datum_compute.cli.rollout import is_rolled_out, outcome, plain, wait_rolled_out
from datum_compute.cli.waiting import Detach
from datum_compute.cli.writing import change_spec
from datum_compute.client import errors
from datum_compute.client.client import ApiClient

CONFLICT_RETRIES = 5


def run(context: Context) -> int:
    args = context.args
    if not 1 <= args.minimum <= 1000:
        raise usage(
            f"--min {args.minimum}: expected a number from 1 to 1000",
            f"datumctl-compute destroy {args.name}",
        )
    detach = Detach(context)

    async def work(client: ApiClient) -> int:
        workload, changed = await _scale(context, client)
        if changed:
            detach.written.append(args.name)
        instances = None
        if args.wait:
            if changed or not await is_rolled_out(client, args.name):
                await wait_rolled_out(context, client, args.name, timeout=args.timeout)
                context.say(f'"{args.name}" is at {args.minimum} per city.')
            workload, instances = await outcome(client, args.name)
        view = result(workload, "scaled" if changed else "unchanged", instances)
        if args.output not in ("table", "wide"):
            show_results(context, [view])
        return 0

    return detach.run(work)


async def _scale(context: Context, client: ApiClient) -> tuple[dict[str, Any], bool]:
    """Write the new minimum: the workload as it is then, and whether anything was written."""
    name, wanted = context.args.name, context.args.placement
    for _ in range(CONFLICT_RETRIES):
        try:
            workload = plain(await client.get(compute.WORKLOADS, name, NAMESPACE))
        except errors.NotFound:
            project = context.target.project
            raise not_found("workload", name, project, "datumctl-compute workloads") from None
        spec = copy.deepcopy(workload["spec"])
        placements = spec["placements"]
        chosen = [p for p in placements if wanted in (None, p["name"])]
        if not chosen:
            known = ", ".join(p["name"] for p in placements)
            raise usage(f'--placement "{wanted}": workload "{name}" has {known}')
        old = sorted({p["scaleSettings"]["minReplicas"] for p in chosen})
        if old == [context.args.minimum]:
            context.say(f'"{name}" is already at {context.args.minimum} per city.')
            return workload, False
        for placement in chosen:
            placement["scaleSettings"]["minReplicas"] = context.args.minimum
        try:
            scaled = plain(await change_spec(client, workload, spec))
        except errors.Conflict:
            continue
        before = ", ".join(map(str, old))
        context.say(f'Scaling "{name}": min replicas {before} → {context.args.minimum}\n')
        return scaled, True
    raise CommandError(
        f'scaling "{name}": others keep changing it',
        exit_code=Exit.CONFLICT,
        code="Conflict",
        hint="run the command again",
        retryable=True,
    )
