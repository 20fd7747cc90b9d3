"""``rollout status``: the rows of a rollout, once or until all of them are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datum_compute.cli import queries
from datum_compute.cli.context import Context
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.render.output import show
from datum_compute.cli.rollout.rows import RowProgress, rollout_table
from datum_compute.cli.rollout.state import Rollout, decide_rollout

if TYPE_CHECKING:
    from datum_compute.client.client import ApiClient


def status(context: Context) -> int:
    name = context.args.name
    if not context.args.wait:
        found = read_rollout(context, name)
        _show(context, name, found, with_table=True)
        if found.stage is not None and found.held:
            context.suggest(explain(found.stage.reason).next_command(name))
        return 0

    from datum_compute.cli.rollout.progress import Progress
    from datum_compute.cli.rollout.wait import wait_rolled_out

    async def work(client: ApiClient) -> Rollout:
        progress = Progress(context, as_data=context.tables)
        return await wait_rolled_out(context, client, name, progress=progress)

    rollout = context.open_session().run(work)
    _show(context, name, rollout, with_table=False)
    if context.tables and not context.args.no_headers:
        complete = f'Rollout of "{name}" is complete.'
        stopped = f'"{name}" is stopped; changes take effect when it starts.'
        context.say(f"\n{stopped if rollout.stopped else complete}")
    return 0


def read_rollout(context: Context, name: str) -> Rollout:
    workload = queries.workload(context, name)
    deployments = queries.deployments_of(context, workload)
    rollout = decide_rollout(workload, deployments)
    if rollout.needs_instances:
        instances = queries.instances_of(context, name)
        rollout = decide_rollout(workload, deployments, instances)
    return rollout


def _show(context: Context, name: str, rollout: Rollout, *, with_table: bool) -> None:
    """The rows as data; the table of a rollout that was followed is on the screen already."""
    progress = [RowProgress(row) for row in rollout.rows]

    def as_table(_: bool) -> str:
        if not with_table:
            return ""
        headers = not context.args.no_headers
        colours, width, now = context.colours(), context.width(), context.env.now()
        return rollout_table(progress, headers=headers, colours=colours, width=width, now=now)

    show(context, rollout_view(name, rollout), as_table=as_table, names=[f"workload/{name}"])


def rollout_view(name: str, rollout: Rollout) -> dict[str, Any]:
    view: dict[str, Any] = {"name": name, "done": rollout.done}
    if rollout.stage is not None:
        view |= {"stage": rollout.stage.reason, "message": rollout.stage.message}
    return {**view, "rows": [_view(RowProgress(row)) for row in rollout.rows]}


def _view(progress: RowProgress) -> dict[str, Any]:
    row = progress.row
    view: dict[str, Any] = {
        "placement": row.placement,
        "city": row.city,
        "ready": row.ready,
        "upToDate": row.updated,
        "desired": row.target,
        "old": row.old,
        "phase": progress.phase,
    }
    if row.wave is not None:
        view["wave"] = row.wave.number
        if text := row.wave.text(None):
            view["message"] = text
    if row.stays_until:
        view["staysUntil"] = list(row.stays_until)
    if row.blocking_reason is not None and not row.done:
        view |= {"reason": row.blocking_reason.reason, "message": row.blocking_reason.message}
    return view
