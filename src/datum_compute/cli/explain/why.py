"""The chain behind ``why``: workload, placement, city, instance, and the deepest condition.

Each level is read once. From the worst row of the workload the chain leads to the instance of that
row that best explains it; the deepest condition there is the root cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from datum_compute.api.compute.constants import (
    CONDITION_ASLEEP,
    CONDITION_CELL_REACHABLE,
    LABEL_WORKLOAD_DEPLOYMENT_NAME,
)
from datum_compute.api.compute.reasons import (
    REASON_PROVISIONING_INSTANCES,
    REASON_SLEEP_NOT_SUPPORTED,
    REASON_SUSPENDED,
    REASON_TERMINATING,
    REASONS,
    Actor,
    lookup,
)
from datum_compute.cli import queries
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, not_found
from datum_compute.cli.explain import states
from datum_compute.cli.explain.health import (
    PlacementHealth,
    assess_placements,
    start_command,
    stay_lines,
    workload_health,
)
from datum_compute.cli.explain.reasons import FINALIZERS_REMAIN, explain
from datum_compute.cli.explain.suggestions import Command, command
from datum_compute.cli.render.output import (
    cell_text,
    duration,
    precise_duration,
    seconds_since,
    show,
)
from datum_compute.cli.rollout.state import held_deletion
from datum_compute.cli.tables import INSTANCES, NAMESPACE

Json = Mapping[str, Any]

EVENTS_SHOWN = 5
ACTORS = {
    Actor.USER: "you",
    Actor.PLATFORM: "the platform",
    Actor.WAIT: "no action needed: in progress",
}


@dataclass(frozen=True, slots=True)
class Link:
    """One level of the chain."""

    kind: str
    name: str
    state: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RootCause:
    """The deepest condition of the chain."""

    type: str
    status: str
    reason: str
    message: str
    seconds: float | None

    @staticmethod
    def of(condition: Json, now: datetime) -> RootCause:
        since = str(condition.get("lastTransitionTime", ""))
        return RootCause(
            str(condition.get("type", "")),
            str(condition.get("status", "")),
            str(condition.get("reason", "")),
            states.clean_message(str(condition.get("message", ""))),
            seconds_since(since, now),
        )

    def describe(self) -> list[str]:
        usual = explain(self.reason).reason.usual_seconds
        head = f"{self.type}={self.status}" if self.type else self.reason
        if self.seconds is not None:
            head += f" for {precise_duration(self.seconds)}"
        if usual is not None:
            head += f", usually under {duration(usual)}"
        return [head, *([self.message] if self.message else [])]


@dataclass(frozen=True, slots=True)
class Answer:
    """The view, and what its screen is drawn from."""

    view: dict[str, Any]
    links: Sequence[Link]
    cause: RootCause | None
    events: Sequence[Json]


def explain_name(context: Context) -> int:
    found = read_answer(context, context.args.name)
    show(
        context,
        found.view,
        as_table=lambda _: _screen(found.links, found.cause, found.view, found.events),
        names=[f"{found.view['kind']}/{found.view['name']}"],
    )
    return 0


def read_answer(context: Context, name: str) -> Answer:
    """Of a workload, or else of an instance. Raises where there is neither."""
    try:
        workload = queries.workload(context, name)
    except CommandError as error:
        if error.exit_code is not Exit.NOT_FOUND:
            raise
        return _explain_instance(context, _instance(context, name))
    return _explain_workload(context, workload)


def _instance(context: Context, name: str) -> dict[str, Any]:
    try:
        return queries.instance(context, name)
    except CommandError as error:
        if error.exit_code is not Exit.NOT_FOUND:
            raise
        project = context.target.project
        raise not_found("workload or instance", name, project, command("workloads")) from None


def _explain_workload(context: Context, workload: dict[str, Any]) -> Answer:
    name = workload["metadata"]["name"]
    now = context.env.now()
    deployments = queries.deployments_of(context, workload)
    found = assess_placements(workload, deployments, now)
    report = workload_health(workload, found)
    health = report.health
    links = [Link("workload", name, health.value)]
    worst = _worst(found)
    if worst is None:
        links = [Link("workload", name, health.value, report.note)]
        cause = None
        if health not in (states.WorkloadHealth.AVAILABLE, states.WorkloadHealth.DEGRADED):
            cause = _own_cause(workload, now)
        step = None
        if cause is not None and health is states.WorkloadHealth.STOPPED:
            cause = replace(cause, reason=REASON_SUSPENDED, message=report.detail)
            step = start_command(workload, deployments)
        elif cause is None and states.sleep_after(workload):
            note = states.sleep_note(workload, queries.instances_of(context, name))
            links = [Link("workload", name, health.value, note)]
        return _answer(context, links, cause, workload, name, [("Workload", workload)], step=step)
    links += [Link("placement", worst.row.placement), _city_link(worst, deployments)]
    cause = _cause_of(worst)
    stage = states.rollout_stage(workload)
    if stage and worst.blocking_reason is None and not worst.row.removing:
        cause = RootCause.of(stage, now)
    instance = None
    if _depends_on_instances(worst):
        instance = _unready_instance(context, worst.row.deployment)
    if instance is not None:
        links.append(_instance_link(instance, now))
        cause = _with_consequence(RootCause.of(states.blocking_condition(instance), now), worst)
    deployment = _named(deployments, worst.row.deployment)
    about = [("Workload", workload), ("WorkloadDeployment", deployment)]
    about += [("Instance", instance)] if instance is not None else []
    reconnect = queries.reconnect_command(context, worst.row.city)
    return _answer(
        context, links, cause, workload, name, about, stay_lines(found), reconnect=reconnect
    )


def _depends_on_instances(worst: PlacementHealth) -> bool:
    """Whether an Instance can explain the row better than the row's own reason."""
    row = worst.row
    removal_waits = row.removing and worst.blocking_reason is not None
    return bool(row.deployment) and not (worst.stale or row.waits_for_wave or removal_waits)


def _explain_instance(context: Context, instance: dict[str, Any]) -> Answer:
    name, now = instance["metadata"]["name"], context.env.now()
    deployments = queries.deployments(context)
    who = states.instance_identities([instance], lambda: deployments)[name]
    deployment = _named(deployments, states.deployment_name(instance))
    since = states.unreachable_since(deployment)
    links = [
        Link("workload", who.workload),
        Link("placement", who.placement),
        Link("city", who.city),
        _instance_link(instance, now, queries.report_age(since, now)),
    ]
    links = [link for link in links if link.name]
    cause = None
    if not states.is_true(instance, "Ready"):
        deepest = states.blocking_condition(instance) or {"reason": "Pending"}
        cause = RootCause.of(deepest, now)
    elif since:
        cause = RootCause.of(states.condition(deployment, CONDITION_CELL_REACHABLE), now)
    step = None
    if cause is not None and cause.reason == REASON_SUSPENDED and deployment:
        step = start_command(queries.workload(context, who.workload), [deployment])
    reconnect = queries.reconnect_command(context, who.city)
    about = [("Instance", instance)]
    return _answer(
        context, links, cause, instance, who.workload, about, step=step, reconnect=reconnect
    )


def _instance_link(instance: Json, now: datetime, report_age: str = "") -> Link:
    """``report_age`` is that of a cell that does not answer."""
    asleep = states.condition(instance, CONDITION_ASLEEP)
    note = ""
    if asleep.get("reason") == REASON_SLEEP_NOT_SUPPORTED:
        note = "sleep is not active where it runs: it stays awake"
    elif asleep.get("status") == "True":
        seconds = seconds_since(str(asleep.get("lastTransitionTime", "")), now) or 0
        note = f"for {precise_duration(seconds)}, until a connection wakes it"
    note = "; ".join(part for part in (note, report_age) if part)
    return Link("instance", instance["metadata"]["name"], states.instance_status(instance), note)


def _worst(found: Sequence[PlacementHealth]) -> PlacementHealth | None:
    """The worst row: failed, then blocked, then in progress, then only stale."""
    wrong = [each for each in found if each.blocking_reason is not None or not each.row.done]
    if not wrong:
        return None

    def severity(each: PlacementHealth) -> tuple[tuple[bool, bool], bool]:
        blocking = each.blocking_reason
        if blocking is None:
            return (False, False), not each.row.removing
        return blocking.record.severity, not each.stale

    return max(wrong, key=severity)


def _city_link(worst: PlacementHealth, deployments: Sequence[Json]) -> Link:
    row = worst.row
    state = f"{row.ready} of {row.target} ready"
    if row.removing:
        return Link("city", row.city, f"{row.replicas} remaining", worst.note)
    if not row.deployment:
        return Link("city", row.city, state, "not started")
    deployment = _named(deployments, row.deployment)
    location = ((deployment.get("status") or {}).get("location") or {}).get("name", "")
    cell = f"cell {location}" if location else ""
    if worst.stale:
        cell = f"{cell or 'cell'}, {states.report_age(worst.seconds or 0)}"
    return Link("city", row.city, state, cell)


def _named(deployments: Sequence[Json], name: str) -> Json:
    return next((each for each in deployments if each["metadata"]["name"] == name), {})


def _own_cause(workload: Json, now: datetime) -> RootCause:
    """Of a workload without a row that explains it."""
    held = held_deletion(workload)
    if held is not None:
        return RootCause("", "", held.reason, held.message, seconds_since(held.since, now))
    if states.is_deleting(workload):
        return RootCause("", "", REASON_TERMINATING, "", None)
    return RootCause.of(states.condition(workload, "Available") or {"reason": "Pending"}, now)


def _cause_of(worst: PlacementHealth) -> RootCause:
    blocking = worst.blocking_reason
    if blocking is None:
        usual = REASON_TERMINATING if worst.row.removing else REASON_PROVISIONING_INSTANCES
        return RootCause("", "", usual, worst.note, None)
    return RootCause(
        blocking.condition,
        blocking.status,
        blocking.reason,
        states.clean_message(blocking.message),
        worst.seconds,
    )


def _with_consequence(cause: RootCause, worst: PlacementHealth) -> RootCause:
    """With the message of the deployment, where that is about the same: it says also what waits
    for the Instance."""
    blocking = worst.blocking_reason
    if blocking is None or blocking.reason != cause.reason or not blocking.message:
        return cause
    return replace(cause, message=states.clean_message(blocking.message))


def _unready_instance(context: Context, deployment: str) -> dict[str, Any] | None:
    """The unready Instance of a deployment that best explains it."""
    selector = f"{LABEL_WORKLOAD_DEPLOYMENT_NAME}={deployment}"
    found = context.reader.list(INSTANCES, NAMESPACE, label_selector=selector)
    unready = [each for each in found if not states.is_true(each, "Ready")]

    def severity(each: Json) -> tuple[tuple[bool, bool], int]:
        reason = str(states.blocking_condition(each).get("reason", ""))
        return lookup(reason).severity, -states.ordinal(each)

    return max(unready, key=severity, default=None)


def _answer(
    context: Context,
    links: Sequence[Link],
    cause: RootCause | None,
    subject: dict[str, Any],
    workload: str,
    about: Sequence[tuple[str, Json]],
    meanwhile: Sequence[str] = (),
    step: Command | None = None,
    reconnect: Command | None = None,
) -> Answer:
    """``step`` is the next command where that is not the one of the cause's reason, and
    ``reconnect`` the one where the user has disconnected the cell."""
    kind = links[0].kind if links[-1].kind != "instance" else "instance"
    kind = str(subject.get("kind") or kind).lower()
    events = _distinct(
        [
            each
            for kind_, named in about
            if named
            for each in queries.events(context, kind_, [named])
        ]
    )
    view = _view(context, kind, links, cause, subject, workload, events, step)
    if cause is not None and reconnect is not None:
        view |= {
            "whoCanAct": Actor.USER.value,
            "advice": "Reconnect the cell, which was disconnected on this machine.",
            "next": context.invocation.render(reconnect),
        }
    view["meanwhile"] = list(meanwhile)
    view["object"] = subject
    return Answer(view, links, cause, events)


def _distinct(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without repetitions between the levels of the chain."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for each in queries.newest_first(events):
        found.setdefault((each["type"], each["reason"], each["message"]), each)
    return list(found.values())


def _view(
    context: Context,
    kind: str,
    links: Sequence[Link],
    cause: RootCause | None,
    subject: Json,
    workload: str,
    events: Sequence[Json],
    step: Command | None,
) -> dict[str, Any]:
    view: dict[str, Any] = {
        "name": subject["metadata"]["name"],
        "kind": kind,
        "state": links[-1].state or links[0].state,
        "chain": [
            {"kind": link.kind, "name": link.name, "state": link.state, "note": link.note}
            for link in links
        ],
        **dict.fromkeys(_OF_CAUSE),
        "missing": [],
        "meanwhile": [],
        "events": list(events),
    }
    if cause is None:
        return view
    explanation = explain(cause.reason)
    seconds = cause.seconds or 0
    missing = queries.missing_data(context, cause.reason, subject)
    following = step or explanation.next_command_after_why(workload, missing)
    held = cause.reason == FINALIZERS_REMAIN
    if kind == "workload" and states.is_deleting(subject) and not held:
        following = command("destroy", workload, "--yes")  # which waits until it is gone
    view |= {
        "condition": cause.type,
        "reason": cause.reason,
        "message": cause.message,
        "sinceSeconds": None if cause.seconds is None else int(cause.seconds),
        "usuallyUnderSeconds": explanation.reason.usual_seconds,
        "whoCanAct": explanation.actor_after(seconds).value,
        "advice": explanation.advice_after(seconds),
        "next": context.invocation.render(following) if following else None,
        "missing": [each.view() for each in missing],
    }
    return view


_OF_CAUSE = (
    "condition",
    "reason",
    "message",
    "sinceSeconds",
    "usuallyUnderSeconds",
    "whoCanAct",
    "advice",
    "next",
)
"""Null where nothing is wrong."""


def _screen(
    links: Sequence[Link],
    cause: RootCause | None,
    view: Json,
    events: Sequence[Json],
) -> str:
    if cause is None:
        last = links[-1]
        return f"{last.kind} {last.name}   {last.state}   {last.note}".rstrip()
    lines = _tree(links)
    indent = " " * (3 * max(1, len(links) - 1))
    lines += [indent + text for text in cause.describe()]
    actor = Actor(view["whoCanAct"])
    texts = [each["message"] for each in view["missing"]]
    lines += [("Missing       " if i == 0 else " " * 14) + each for i, each in enumerate(texts)]
    lines.append(f"Who can act   {ACTORS[actor]}")
    if view["advice"]:
        lines.append(f"              {view['advice']}")
    lines += [f"Meanwhile     {each}" for each in view["meanwhile"]]
    lines += _event_lines(events)
    if view["next"]:
        lines.append(f"Next          {view['next']}")
    if cause.type and cause.reason not in REASONS:
        lines.append(f"Reason        {cause.reason}")
    return "\n".join(lines)


def _tree(links: Sequence[Link]) -> list[str]:
    titles = []
    for depth, link in enumerate(links):
        branch = " " * (3 * (depth - 1)) + "└─ " if depth else ""
        title = link.name if link.kind == "instance" else f"{link.kind} {link.name}"
        titles.append(branch + title)
    width = max(map(len, titles))
    states = max(len(link.state) for link in links)
    return [
        f"{title.ljust(width)}   {link.state.ljust(states)}   {link.note}".rstrip()
        for title, link in zip(titles, links, strict=True)
    ]


def _event_lines(events: Sequence[Json]) -> list[str]:
    shown = events[:EVENTS_SHOWN]
    if not shown:
        return ["Events        none in the last hour"]
    ages = max(len(cell_text(each["age"])) for each in shown)
    types = max(len(each["type"]) for each in shown)
    reasons = max(len(each["reason"]) for each in shown)
    lines = [
        f"{cell_text(each['age']).ljust(ages)}   {each['type'].ljust(types)}   "
        f"{each['reason'].ljust(reasons)}   x{each['count']}   {each['message']}".rstrip()
        for each in shown
    ]
    return [("Events        " if i == 0 else " " * 14) + line for i, line in enumerate(lines)]
