"""Shared by commands that change a workload: reading it, describing the change, conflicts."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.constants import (
    ANNOTATION_DATA_HASH,
    ANNOTATION_RESTARTED_AT,
)
from datum_compute.api.compute.instance_names import deployment_of
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, not_found, unknown
from datum_compute.cli.explain import states
from datum_compute.cli.explain.health import describe_stop
from datum_compute.cli.explain.missing_data import creating_commands, read_missing
from datum_compute.cli.explain.suggestions import Remark, command
from datum_compute.cli.render.output import count, seconds_since
from datum_compute.cli.render.spec_diff import masked_variables
from datum_compute.cli.rollout.state import find_stop
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.references import with_data_hash
from datum_compute.decisions.restarts import keep_restart

Json = Mapping[str, Any]
Workload = dict[str, Any]

Updated = Mapping[tuple[str, str], int]
"""By placement and city, as :func:`deployments` compares them: instances of the template."""

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


def _selector(live: Json) -> str:
    return f"{compute.LABEL_WORKLOAD_UID}={live['metadata']['uid']}"


async def deployments_of(client: ApiClient, live: Json) -> list[Workload]:
    page = await client.list(
        compute.WORKLOAD_DEPLOYMENTS, NAMESPACE, label_selector=_selector(live)
    )
    return [to_dict(each) for each in page.items]


async def deployments_in(
    context: Context, client: ApiClient, live: Workload, city: str
) -> list[Workload]:
    deployments = await deployments_of(client, live)
    there = [each for each in deployments if each["spec"]["cityCode"].upper() == city]
    if not there:
        name = context.args.name
        cities = sorted({c for p in live["spec"]["placements"] for c in p["cityCodes"]})
        where = f' in workload "{name}"'
        raise unknown("city", context.args.city, cities, command("status", name), where)
    return there


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


def say_if_stopped(context: Context, workload: Json) -> None:
    name, stop = workload["metadata"]["name"], find_stop(workload)
    if stop is not None:
        was = describe_stop(stop, seconds_since(stop.since, context.env.now()))
        see = context.command("start", name)
        context.say(f'"{name}" was {was}; changes take effect when it starts:  {see}\n')


def print_fields(context: Context, pairs: Sequence[tuple[str, str]]) -> None:
    width = max((len(field) for field, _ in pairs), default=0)
    for field, text in pairs:
        context.say(f"  {field.ljust(width)}   {text}")
    context.say()


def print_secret_hint(context: Context, name: str, spec: Json, before: Json | None = None) -> None:
    """Name the variables that look like secrets, except those that ``before`` has too."""
    known = masked_variables(before) if before is not None else {}
    found = [key for key, value in masked_variables(spec).items() if known.get(key) != value]
    if not found:
        return
    verb, whose = ("looks", "a secret") if len(found) == 1 else ("look", "secrets")
    context.say(
        f"{', '.join(found)} {verb} like {whose}, and everyone who can read the workload can"
        f" read it. Keep it in a Secret:  {context.command('secrets', 'set', name, *found)}\n"
    )


async def print_missing_data(context: Context, client: ApiClient, planned: Json) -> None:
    missing = await read_missing(client, planned["spec"]["template"])
    if missing:
        do = "fail to start" if any(each.exists for each in missing) else "wait"
        context.say(f"New instances {do}: {'; '.join(each.describe() for each in missing)}.")
        steps = [context.invocation.render(each) for each in creating_commands(missing)]
        context.say("Create it:  " + "\n            ".join(steps) + "\n")


def restarted_at(workload: Json) -> str | None:
    """When its template was restarted last."""
    found = _template_annotations(workload["spec"]).get(ANNOTATION_RESTARTED_AT)
    return found if isinstance(found, str) else None


def _template_annotations(spec: Json) -> Workload:
    """None of a file in which they are no map, which the server will refuse."""
    found: Any = spec["template"]
    for step in ("metadata", "annotations"):
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def with_restart(spec: Json, moment: str | None) -> Workload:
    """A copy of a spec, last restarted at ``moment``, or never."""
    changed: Workload = copy.deepcopy(dict(spec))
    metadata = changed["template"].get("metadata") or {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations") or {}, dict):
        return changed  # of a file that the server will refuse
    annotations = _template_annotations(changed)
    annotations.pop(ANNOTATION_RESTARTED_AT, None)
    if moment is not None:
        annotations[ANNOTATION_RESTARTED_AT] = moment
    metadata["annotations"] = annotations
    if not annotations:
        del metadata["annotations"]
    changed["template"]["metadata"] = metadata
    if not metadata:
        del changed["template"]["metadata"]
    return changed


def removal_lines(planned: Json, live: Json) -> list[str]:
    """What running instances a change removes with their city or placement, and when."""
    after, before = deployments(planned), deployments(live)
    kept, there = ({key for key, _, _ in each} for each in (after, before))
    added = [city for key, city, _ in after if key not in there]
    when = f" once {', '.join(added)} {'is' if len(added) == 1 else 'are'} Available"
    several = len(live["spec"]["placements"]) > 1
    return [
        f"{count(number, 'instance')} in {city}{f' (placement {key[0]})' if several else ''}"
        f" will be removed{when if added else ''}."
        for key, city, number in before
        if key not in kept
    ]


def deployments(workload: Json) -> list[tuple[tuple[str, str], str, int]]:
    """Placement and city as they are compared, the city as written, and its instances."""
    return [
        (
            (str(placement.get("name", "")), str(city).upper()),
            str(city),
            states.min_replicas(placement),
        )
        for placement in workload["spec"].get("placements") or []
        for city in placement.get("cityCodes") or []
    ]


async def read_updated(client: ApiClient, planned: Json, live: Json) -> Updated:
    """How many instances of each placement and city run the planned template already: those that
    the present rollout has not replaced, when it goes back."""
    template = planned["spec"]["template"]
    if template_hash(template) == template_hash(live["spec"]["template"]):
        return {}
    wanted = {
        each["metadata"]["name"]: (
            (str(each["spec"]["placementName"]), str(each["spec"]["cityCode"]).upper()),
            template_hash(_template_of(each, template)),
        )
        for each in await deployments_of(client, live)
    }
    page = await client.list(compute.INSTANCES, NAMESPACE, label_selector=_selector(live))
    found: Counter[tuple[str, str]] = Counter()
    for instance in map(to_dict, page.items):
        metadata = instance["metadata"]
        name = deployment_of(metadata.get("labels") or {}, metadata["name"])
        key, hash = wanted.get(name, (("", ""), ""))
        runs = (instance["spec"].get("controller") or {}).get("templateHash")
        found[key] += runs == hash and not metadata.get("deletionTimestamp")
    return found


def _template_of(deployment: Json, planned: Json) -> Json:
    """What its template becomes: with its own restart, and the data it has."""
    own = deployment["spec"]["template"]
    data = _template_annotations(deployment["spec"]).get(ANNOTATION_DATA_HASH, "")
    return with_data_hash(keep_restart(planned, own), str(data))


def interruption_lines(
    planned: Json, live: Json, updated: Updated, waves: Sequence[str] = ()
) -> list[str]:
    """What a new template does to running instances that stay; ``waves`` says in which order.
    Those in ``updated`` have it already. Instances that are added come first, and those that are
    removed go last."""
    after = {key: number for key, _, number in deployments(planned)}
    before = deployments(live)
    stale = {
        key: max(0, min(number, after.get(key, 0)) - updated.get(key, 0))
        for key, _, number in before
    }
    total, present = sum(stale.values()), sum(number for _, _, number in before)
    if not total:
        return ["Every instance runs it already."] if any(updated.values()) else []
    which = {1: "The only instance", 2: "Both instances"}.get(total, f"All {total} instances")
    if total < present:
        which = f"{total} of {present} instances"
    staying = [number for number in stale.values() if number]
    manner = " one by one" if max(staying) > 1 else ""
    where = " in each city" if manner and len(staying) > 1 else ""
    lines = [f"{which} will be replaced{manner}{where}{', in waves:' if waves else '.'}", *waves]
    kept = [each for each in before if each[0] in after]
    serving = {city for key, city, number in kept if max(number, after[key]) > 1 or not stale[key]}
    alone = sorted({city for _, city, _ in kept} - serving)
    if alone:
        cities = " and ".join(filter(None, (", ".join(alone[:-1]), alone[-1])))
        have = "has one instance" if len(alone) == 1 else "have one instance each"
        name = planned["metadata"]["name"]
        lines.append(f'{cities} {have}, so "{name}" is unavailable there while it is replaced.')
    return lines
