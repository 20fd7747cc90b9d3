"""``destroy NAME``: delete a workload and wait until nothing of it is left."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from datum_compute.cli import queries
from datum_compute.cli.arguments import add_confirmation_flag, add_wait_flags, set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import RESULT_FIELDS, add_output_flags, count
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.tables import NAMESPACE, WORKLOADS
from datum_compute.client import errors

if TYPE_CHECKING:
    from datum_compute.client.client import ApiClient


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "destroy hello", "destroy hello --yes")
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    add_confirmation_flag(parser)
    add_wait_flags(parser)
    add_output_flags(parser, RESULT_FIELDS)


def run(context: Context) -> int:
    from datum_compute.cli.rollout.wait import wait_gone

    session = context.open_session()
    workload = queries.workload(context, context.args.name)
    name, uid = context.args.name, workload["metadata"]["uid"]
    if not workload["metadata"].get("deletionTimestamp"):
        _print_content(context, workload)
        context.confirm(f'Destroy workload "{name}"?')

    async def work(client: ApiClient) -> int:
        try:
            await client.delete(WORKLOADS, name, NAMESPACE, uid=uid)
        except errors.NotFound:
            pass  # deleted concurrently
        session.written.append(name)
        session.work = "deletion"
        if context.args.wait:
            await wait_gone(context, client, name, uid=uid, timeout=context.args.timeout)
            context.say(f'Workload "{name}" was destroyed.')
        view = result(workload, "destroyed" if context.args.wait else "deleting")
        view["url"] = None  # it leads nowhere now
        show_results(context, [view])
        return 0

    return session.run(work)


def _print_content(context: Context, workload: dict[str, Any]) -> None:
    instances = len(queries.instances_of(context, context.args.name))
    context.say(f"This will delete from project {context.target.project}:\n")
    for placement in workload["spec"]["placements"]:
        context.say(f"  placement {placement['name']}   {', '.join(placement['cityCodes'])}")
    context.say(f"  {count(instances, 'instance')}\n")
