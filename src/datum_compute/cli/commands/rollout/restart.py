"""Replaces Instances by new ones of the same template, everywhere or in one city.

A restart is an annotation with a time on a template: the workload's own, or for one city that of
its deployments there, which the workload controller keeps.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.constants import ANNOTATION_RESTARTED_AT
from datum_compute.cli.context import Context
from datum_compute.cli.history.recorder import Recorder
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.rollout.reads import read_result
from datum_compute.cli.rollout.wait import wait_rolled_out
from datum_compute.cli.session import Session
from datum_compute.cli.tables import NAMESPACE
from datum_compute.cli.workload import (
    CONFLICT_RETRIES,
    conflict_error,
    deployments_in,
    deployments_of,
    require_workload,
    say_if_stopped,
)
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.decisions.restarts import next_restart, parse_restart

Json = Mapping[str, Any]
Workload = dict[str, Any]


def restart(context: Context) -> int:
    session = context.open_session()

    async def work(client: ApiClient) -> int:
        recorder = Recorder(context, client)
        if context.args.city:
            workload, revision = await _restart_city(context, client, recorder, session)
        else:
            workload, revision = await _restart_all(context, client, recorder, session)
        name, instances = context.args.name, None
        say_if_stopped(context, workload)
        if context.args.wait:
            waved = not context.args.city
            rollout = await wait_rolled_out(context, client, name, of=workload, waved=waved)
            workload, instances = await read_result(client, name)
            if not rollout.stopped:
                context.say(f'"{name}" was restarted{_revision_note(revision)}.')
        if context.args.output not in ("table", "wide"):
            show_results(context, [result(workload, "restarted", instances, revision)])
        return 0

    return session.run(work)


def _revision_note(revision: int | None) -> str:
    return f", revision #{revision}" if revision else ""


async def _restart_all(
    context: Context, client: ApiClient, recorder: Recorder, session: Session
) -> tuple[Workload, int | None]:
    name = context.args.name
    for _ in range(CONFLICT_RETRIES):
        live = await require_workload(context, client)
        deployments = await deployments_of(client, live)
        spec = copy.deepcopy(live["spec"])
        moment = _moment(context, [spec["template"], *(d["spec"]["template"] for d in deployments)])
        annotations = spec["template"].setdefault("metadata", {}).setdefault("annotations", {})
        annotations[ANNOTATION_RESTARTED_AT] = moment
        entry = await recorder.entry(spec, "restart")
        try:
            written = await recorder.change(live, spec, entry)
        except errors.Conflict:
            continue
        session.written.append(name)
        context.say(f'Restarting "{name}"\n')
        return written, await recorder.record(live, written, entry)
    raise conflict_error("restarting", name)


async def _restart_city(
    context: Context, client: ApiClient, recorder: Recorder, session: Session
) -> tuple[Workload, int | None]:
    """The workload is annotated first, so that an interruption half-way leaves a record."""
    name, city = context.args.name, context.args.city.upper()
    for _ in range(CONFLICT_RETRIES):
        live = await require_workload(context, client)
        there = await deployments_in(context, client, live, city)
        entry = await recorder.entry(live["spec"], f"restart in {city}")
        try:
            live = await recorder.change(live, live["spec"], entry)
        except errors.Conflict:
            continue
        await _restart_deployments(context, client, live, there)
        session.written.append(name)
        context.say(f'Restarting "{name}" in {city}\n')
        return live, await recorder.record(live, live, entry)
    raise conflict_error("restarting", name)


async def _restart_deployments(
    context: Context, client: ApiClient, live: Workload, there: Sequence[Workload]
) -> None:
    templates = [live["spec"]["template"], *(each["spec"]["template"] for each in there)]
    moment = _moment(context, templates)
    for deployment in there:
        annotations = {ANNOTATION_RESTARTED_AT: moment}
        body = {
            "metadata": {"uid": deployment["metadata"]["uid"]},
            "spec": {"template": {"metadata": {"annotations": annotations}}},
        }
        found = deployment["metadata"]["name"]
        await client.patch(compute.WORKLOAD_DEPLOYMENTS, found, merge(body), NAMESPACE)


def _moment(context: Context, templates: Sequence[Json]) -> str:
    """A time later than any restart of these templates."""
    return next_restart(context.env.now(), _latest(templates))


def _latest(templates: Sequence[Json]) -> str | None:
    found: list[tuple[datetime, str]] = []
    for template in templates:
        annotations = (template.get("metadata") or {}).get("annotations") or {}
        text = annotations.get(ANNOTATION_RESTARTED_AT)
        moment = parse_restart(text)
        if text is not None and moment is not None:
            found.append((moment, text))
    return max(found)[1] if found else None
