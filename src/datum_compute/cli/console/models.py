"""What the page shows, by key: the JSON of the commands, without what only repeats it.

::

    workloads/NAME     an entry of `workloads`       placements/NAME  the placements of `status`
    instances/NAME     an entry of `instances`       rollouts/NAME    `rollout status --no-wait`
    cities/CODE        an entry of `cities`          quota/RESOURCE   an entry of `quota`

and of a workload or an instance that the page shows in detail:

::

    why/NAME           `why`                         status/NAME      `status`
    history/NAME       `rollout history`             events/NAME      the events of `describe`

Left out everywhere are ``object``, the raw API object, and ``age``, which the page computes from
the time beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from operator import is_
from typing import Any, NamedTuple

from datum_compute.cli import queries
from datum_compute.cli.commands import cities, instances, quota, status, workloads
from datum_compute.cli.commands.rollout import history
from datum_compute.cli.commands.rollout.status import rollout_view
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain import states
from datum_compute.cli.explain.describe import workload_events
from datum_compute.cli.explain.health import assess_placements, workload_health
from datum_compute.cli.explain.why import read_answer
from datum_compute.cli.rollout.state import decide_rollout
from datum_compute.cli.tables import INSTANCES, NAMESPACE, WORKLOADS

Json = dict[str, Any]
Models = dict[str, Any]

LEFT_OUT = frozenset({"age", "object"})
REFRESH = timedelta(seconds=2)
"""How often a model is computed again whose text tells a duration, though nothing changed."""
DETAILS = ("why", "status", "history", "events")
MAX_EVENTS = 50


def shown(value: Any) -> Any:
    """A view without what the page does not need."""
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items() if key not in LEFT_OUT}
    return [shown(each) for each in value] if isinstance(value, list) else value


class _Known(NamedTuple):
    """Models, what they were computed from, and when they are due again."""

    sources: Sequence[object]
    models: Models
    due: datetime | None


class _KnownInstance(NamedTuple):
    item: Json
    since: str | None
    """Since when its cell has not answered."""
    view: Json


class Overview:
    """Everything but details. A model is computed again only when its sources have changed, which
    are compared by identity: an object that changes is replaced."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._instances: dict[str, _KnownInstance] = {}

    def compute(self, context: Context) -> Models:
        deployments = queries.deployments(context)
        own: dict[str, list[Json]] = {}
        models = self._compute_instances(context, own)
        by_workload = workloads.deployments_by_workload(deployments)
        fresh: dict[str, _Known] = {}
        for item in context.reader.list(WORKLOADS, NAMESPACE):
            name, its = item["metadata"]["name"], by_workload.get(item["metadata"]["uid"], [])
            found = own.get(name, [])
            build = partial(_workload, context, item, its, found)
            fresh[name] = self._current(context, name, (item, *its, *found), build)
            models |= fresh[name].models
        # No workload has the empty name.
        fresh[""] = self._current(context, "", (), lambda: (_quota(context), False))
        self._known = fresh
        models |= {f"cities/{each['city']}": shown(each) for each in cities.read_views(context)}
        return models | fresh[""].models

    def _compute_instances(self, context: Context, own: dict[str, list[Json]]) -> Models:
        """Their models; ``own`` gets them by workload. There may be thousands, so that as little
        as possible is done for one that is known."""
        stale = queries.stale_deployments(context)
        fresh: dict[str, _KnownInstance] = {}
        models: Models = {}
        for item in context.reader.list(INSTANCES, NAMESPACE):
            name = item["metadata"]["name"]
            since = stale.get(states.deployment_name(item)) if stale else None
            known = self._instances.get(name)
            if known is None or known.item is not item or known.since != since:
                known = _KnownInstance(item, since, _instance(context, item, stale))
            fresh[name] = known
            models[f"instances/{name}"] = known.view
            own.setdefault(known.view["workload"], []).append(item)
        self._instances = fresh
        return models

    def _current(
        self,
        context: Context,
        key: str,
        sources: Sequence[object],
        build: Callable[[], tuple[Models, bool]],
    ) -> _Known:
        """What is known, or else is built now; ``build`` says too whether it lasts."""
        known, now = self._known.get(key), context.env.now()
        if known is not None and not (known.due and known.due <= now):
            same = len(known.sources) == len(sources)
            if same and all(map(is_, known.sources, sources)):
                return known
        models, lasts = build()
        return _Known(sources, models, None if lasts else now + REFRESH)


def _instance(context: Context, item: Json, stale: Mapping[str, str]) -> Json:
    name = item["metadata"]["name"]
    who = states.instance_identities([item], lambda: queries.deployments(context))[name]
    view: Json = shown(instances.view(context, item, who, stale))
    return view


def _workload(
    context: Context, item: Json, deployments: list[Json], found: list[Json]
) -> tuple[Models, bool]:
    name = item["metadata"]["name"]
    rows = assess_placements(item, deployments, context.env.now())
    report = workload_health(item, rows)
    rollout = decide_rollout(item, deployments)
    if rollout.needs_instances:
        rollout = decide_rollout(item, deployments, found)
    models = {
        f"workloads/{name}": shown(workloads.view(context, item, report)),
        f"placements/{name}": shown([each.view() for each in rows]),
        f"rollouts/{name}": shown(rollout_view(name, rollout)),
    }
    settled = report.health is states.WorkloadHealth.AVAILABLE and not report.stale
    return models, settled and rollout.done


def _quota(context: Context) -> Models:
    return {f"quota/{each['resource']}": shown(each) for each in quota.read_views(context)[0]}


Detail = Callable[[Context], Models]


def details(name: str) -> Iterator[Detail]:
    """What to compute of a workload or an instance, part by part, so that no part takes long."""

    def why(context: Context) -> Models:
        return {f"why/{name}": shown(read_answer(context, name).view)}

    def current(context: Context) -> Models:
        workload, rows = _rows(context, name)
        revision = queries.active_revision(context, workload)
        return {f"status/{name}": shown(status.view(context, workload, rows, revision))}

    def revisions(context: Context) -> Models:
        workload = queries.workload(context, name)
        return {f"history/{name}": shown(history.read_views(context, workload))}

    def events(context: Context) -> Models:
        workload = queries.workload(context, name)
        deployments = queries.deployments_of(context, workload)
        found = workload_events(context, workload, deployments, queries.instances_of(context, name))
        return {f"events/{name}": shown(found)[:MAX_EVENTS]}

    for each in (why, current, revisions, events):
        yield _if_found(each)


def _rows(context: Context, name: str) -> tuple[Json, list[Any]]:
    workload = queries.workload(context, name)
    found = queries.deployments_of(context, workload)
    return workload, assess_placements(workload, found, context.env.now())


def _if_found(detail: Detail) -> Detail:
    def read(context: Context) -> Models:
        try:
            return detail(context)
        except CommandError as error:
            if error.exit_code is not Exit.NOT_FOUND:
                raise
            return {}  # of an instance there is only the answer of `why`

    return read


def revision(name: str, number: int) -> Callable[[Context], Json]:
    """One revision in full, as `rollout history --revision` has it."""

    def read(context: Context) -> Json:
        found: Json = shown(history.read_revision(context, queries.workload(context, name), number))
        return found

    return read
