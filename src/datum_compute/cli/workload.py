"""Shared by commands that change a workload: reading it, describing the change, conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, not_found
from datum_compute.cli.explain import states
from datum_compute.cli.explain.suggestions import Remark, command
from datum_compute.cli.render.output import count
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.client import ApiClient

Json = Mapping[str, Any]
Workload = dict[str, Any]

CONFLICT_RETRIES = 5


async def live_workload(client: ApiClient, name: str) -> Workload | None:
    try:
        return to_dict(await client.get(compute.WORKLOADS, name, NAMESPACE))
    except errors.NotFound:
        return None


async def require_workload(context: Context, client: ApiClient) -> Workload:
    """The workload a command names. Raises if there is none, or it is being destroyed."""
    name = context.args.name
    live = await live_workload(client, name)
    if live is None:
        project = context.target.project
        raise not_found("workload", name, project, command("workloads"))
    if live["metadata"].get("deletionTimestamp"):
        raise being_destroyed_error(name)
    return live


def conflict_error(doing: str, name: str) -> CommandError:
    return CommandError(
        f'{doing} "{name}": too many concurrent changes',
        Remark("run the command again"),
        exit_code=Exit.CONFLICT,
        code="Conflict",
        retryable=True,
    )


def being_destroyed_error(name: str) -> CommandError:
    return CommandError(
        f'workload "{name}" is being destroyed; deploy it again once it is deleted',
        command("destroy", name, "--yes"),
        exit_code=Exit.CONFLICT,
        code="Conflict",
        retryable=True,
    )


def print_fields(context: Context, pairs: Sequence[tuple[str, str]]) -> None:
    width = max((len(field) for field, _ in pairs), default=0)
    for field, text in pairs:
        context.say(f"  {field.ljust(width)}   {text}")
    context.say()


def interruption_lines(planned: Json, live: Json) -> list[str]:
    """What a new template does to running instances."""
    total = states.instance_count(live)
    if not total:
        return []
    which = "The only instance" if total == 1 else f"All {count(total, 'instance')}"
    manner = "" if total == 1 else " one by one in each city"
    lines = [f"{which} will be replaced{manner}."]
    alone = sorted(
        {
            city
            for placement in live["spec"]["placements"]
            if states.min_replicas(placement) == 1
            for city in placement["cityCodes"]
            if city in _cities(planned)
        }
    )
    if alone:
        lines.append(
            f"With only one instance in {', '.join(alone)},"
            " it will be unavailable there while it is replaced."
        )
    return lines


def _cities(workload: Json) -> set[str]:
    return {city for p in workload["spec"]["placements"] for city in p["cityCodes"]}
