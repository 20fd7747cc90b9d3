"""``destroy NAME``: delete a workload and wait until nothing of it is left."""

from __future__ import annotations

import argparse
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.context import Context
from datum_compute.cli.errors import not_found
from datum_compute.cli.names import workload_name
from datum_compute.cli.rollout import plain, wait_gone
from datum_compute.cli.target import NAMESPACE
from datum_compute.cli.waiting import Detach, add_write_flags, with_client
from datum_compute.client import errors
from datum_compute.client.client import ApiClient


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n  datumctl-compute destroy hello\n  datumctl-compute destroy hello --yes"
    )
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    add_write_flags(parser)


def run(context: Context) -> int:
    name = context.args.name
    detach = Detach(context, name)

    async def work(client: ApiClient) -> int:
        try:
            workload = await client.get(compute.WORKLOADS, name, NAMESPACE)
        except errors.NotFound:
            project = context.target.project
            raise not_found("workload", name, project, "datumctl-compute instances") from None
        if not workload.metadata.deleting:
            _say_what_goes(context, plain(workload))
            context.confirm(f'Destroy workload "{name}"?')
            await client.delete(compute.WORKLOADS, name, NAMESPACE, uid=workload.metadata.uid)
        detach.written = True
        if context.args.wait:
            await wait_gone(context, client, name, timeout=context.args.timeout)
            context.say(f'Workload "{name}" is gone.')
        return 0

    try:
        return with_client(context, work)
    except KeyboardInterrupt:
        if not detach.written:
            raise
        detach.say()
        return 0


def _say_what_goes(context: Context, workload: dict[str, Any]) -> None:
    spec, status = workload["spec"], workload.get("status") or {}

    context.say(f"This will remove from project {context.target.project}:\n")
    for placement in spec["placements"]:
        context.say(f"  placement {placement['name']}   {', '.join(placement['cityCodes'])}")
    context.say(f"  instances {status.get('replicas', 0)}\n")
