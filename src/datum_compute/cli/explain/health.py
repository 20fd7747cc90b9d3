"""The health of a workload, row by row, and why a row is not ready.

Shared by ``status``, ``workloads describe`` and ``why``. The rows and their blocking reasons come
from :mod:`datum_compute.cli.rollout.state`; the wording of a reason from
:mod:`datum_compute.cli.explain.reasons`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from datum_compute.api.compute.reasons import (
    CONDITION_REFERENCED_DATA_READY,
    REASON_CELL_UNREACHABLE,
    Actor,
    lookup,
)
from datum_compute.cli import queries
from datum_compute.cli.context import Context
from datum_compute.cli.explain import states
from datum_compute.cli.explain.reasons import Explanation, explain
from datum_compute.cli.explain.suggestions import Command, Suggestion, command
from datum_compute.cli.render.output import (
    NONE,
    Cell,
    cell_text,
    count,
    duration,
    precise_duration,
    seconds_since,
    table,
)
from datum_compute.cli.rollout.state import (
    BlockingReason,
    Phase,
    Row,
    Stop,
    decide_rollout,
    find_stop,
    held_deletion,
)

Json = Mapping[str, Any]

NEW_ONES_WAIT = "running instances keep what they have, and new ones wait"
HEADER = ("PLACEMENT", "CITY", "READY", "UP-TO-DATE", "DESIRED", "TYPE")
_WAVE_NOTES = (Phase.WAITING, Phase.SOAKING, Phase.UNDONE, Phase.SKIPPED)


class PlacementHealth(NamedTuple):
    """One placement in one city."""

    row: Row
    seconds: float | None
    """How long the reason has lasted, if known."""
    image: str = ""
    """Of the city, where a rollout in waves has given it another template than the workload's."""

    @property
    def blocking_reason(self) -> BlockingReason | None:
        """The reason that blocks the row, or that hides its state."""
        blocking = self.row.blocking_reason
        if blocking is None or (self.row.done and not (self.stale or self.lacks_data)):
            return None
        return blocking

    @property
    def stop(self) -> str:
        """``stopped by ana 3h ago``; empty where it is to run."""
        seconds = None if self.stale else self.seconds
        return describe_stop(self.row.stop, seconds) if self.row.stop is not None else ""

    @property
    def lacks_data(self) -> bool:
        """Whether all its instances run, and the next one would wait for data."""
        blocking = self.row.blocking_reason
        return (
            self.row.done
            and blocking is not None
            and blocking.condition == CONDITION_REFERENCED_DATA_READY
            and blocking.record.needs_action
        )

    @property
    def stale(self) -> bool:
        blocking = self.row.blocking_reason
        return blocking is not None and blocking.reason == REASON_CELL_UNREACHABLE

    @property
    def is_blocked(self) -> bool:
        blocking = self.blocking_reason
        if blocking is None or self.row.removing or self.row.stop is not None or self.lacks_data:
            return False
        return blocking.record.needs_action

    @property
    def explanation(self) -> Explanation | None:
        return explain(self.blocking_reason.reason) if self.blocking_reason is not None else None

    @property
    def note(self) -> str:
        """What a table adds to the row."""
        if self.row.stays_until:
            return states.stays_until(self.row.stays_until)
        if self.row.removing:
            return "being removed"
        if self.stale:
            return states.report_age(self.seconds or 0)
        if self.row.stop is not None:
            return self.row.phase().lower()
        if self.row.wave is not None and (phase := self.row.wave.phase) in _WAVE_NOTES:
            text = "" if phase is Phase.UNDONE else self.row.wave.text(None)
            return f"{phase.lower()}: {text}" if text else phase.lower()
        if self.lacks_data and self.explanation is not None:
            return self.explanation.summary
        if self.blocking_reason is not None:
            return "blocked" if self.blocking_reason.record.needs_action else "waiting"
        return "" if self.row.done else self.row.phase().lower()

    @property
    def cause(self) -> str:
        """``Failed (image unavailable)``: the severity and the summary of the reason."""
        blocking, explanation = self.blocking_reason, self.explanation
        if blocking is None or explanation is None:
            return ""
        if self.row.stop is not None:
            return self.row.phase().value
        if blocking.record.terminal:
            return f"Failed ({explanation.summary})"
        return f"{'Blocked' if blocking.record.needs_action else 'Waiting'} ({explanation.summary})"

    def paragraph(self) -> list[str]:
        """Why the row is not ready, for users; empty if it is."""
        blocking, explanation = self.blocking_reason, self.explanation
        if blocking is None or explanation is None:
            return []
        lasted = precise_duration(self.seconds) if self.seconds is not None else ""
        lasting = f" for {lasted}" if lasted else ""
        if self.stale:
            first = f"No answer from the cell{f' for over {lasted}' if lasted else ''}."
            detail = (
                "Its instances keep running; changes are applied when it reconnects."
                if self.row.replicas
                else "Changes are applied when it reconnects."
            )
        else:
            first, detail = f"{self.cause}{lasting}", states.clean_message(blocking.message)
            if self.lacks_data:
                first = f"{explanation.summary.capitalize()}{lasting}"
                detail += f"; {NEW_ONES_WAIT}"
        return [first, *([detail] if detail else []), actor_advice(explanation, self.seconds or 0)]

    def view(self) -> dict[str, Any]:
        row = self.row
        view: dict[str, Any] = {
            "placement": row.placement,
            "city": row.city,
            "ready": row.ready,
            "upToDate": row.updated,
            "desired": row.target,
            "state": "stale" if self.stale else self.note or "done",
        }
        if self.image:
            view["image"] = self.image
        if row.stays_until:
            view |= {"state": "staying", "staysUntil": list(row.stays_until)}
        if row.stop is not None:
            view["stop"] = row.stop._asdict()
        if self.blocking_reason is not None and self.explanation is not None:
            view["reason"] = self.blocking_reason.reason
            view["message"] = states.clean_message(self.blocking_reason.message)
            view["since"] = self.blocking_reason.since
            view["whoCanAct"] = self.explanation.actor_after(self.seconds or 0).value
        return view


def describe_stop(stop: Stop, seconds: float | None) -> str:
    by = f" by {stop.actor}" if stop.actor else ""
    return f"stopped{by}" + (f" {duration(seconds)} ago" if seconds is not None else "")


def start_command(workload: Json, deployments: Sequence[Json]) -> Command:
    """Starts what is stopped: the workload, or else the first of ``deployments`` whose city was
    stopped by itself."""
    name, found = workload["metadata"]["name"], decide_rollout(workload, deployments)
    if find_stop(workload) is not None or not found.stopped_cities:
        return command("start", name)
    return command("start", name, "--city", found.stopped_cities[0])


def actor_advice(explanation: Explanation, seconds: float) -> str:
    text = explanation.advice_after(seconds)
    if explanation.actor_after(seconds) is Actor.USER:
        return f"You can act: {text[0].lower()}{text[1:]}"
    return text


def assess_placements(
    workload: Json, deployments: Sequence[Json], now: datetime
) -> list[PlacementHealth]:
    rows: Sequence[Row] = decide_rollout(workload, deployments).rows
    if states.is_deleting(workload):  # once per city
        rows = list({(row.placement, row.city): row for row in rows}.values())
    images = {each["metadata"]["name"]: states.image(each) or "" for each in deployments}
    return [
        PlacementHealth(
            row,
            seconds_since(_since(row), now),
            images.get(row.deployment, "") if row.outdated else "",
        )
        for row in rows
    ]


def _since(row: Row) -> str:
    blocking = row.blocking_reason
    if row.stop is not None and (blocking is None or blocking.reason != REASON_CELL_UNREACHABLE):
        return row.stop.since
    return blocking.since if blocking is not None else ""


class WorkloadReport(NamedTuple):
    """A workload's health as a word, in full, and what a list adds to the word."""

    health: states.WorkloadHealth
    detail: str
    note: str = ""
    stale: bool = False
    """Whether a city does not answer, so that this is about its last report."""

    @property
    def cell(self) -> Cell:
        return self.health.cell(self.note)


def workload_health(workload: Json, found: Sequence[PlacementHealth]) -> WorkloadReport:
    """From the workload's own status; Available if all rows are done and the status lags behind
    them."""
    health, detail = _own_health(workload, found)
    if health in (states.WorkloadHealth.DESTROYING, states.WorkloadHealth.UNKNOWN):
        held = held_deletion(workload)
        return WorkloadReport(health, detail, held.message if held else "")
    stops = [each for each in found if each.row.stop is not None and not each.row.removing]
    if stops:
        others = [each for each in found if each.row.stop is None and not each.row.removing]
        return _with_stops(stops, others)
    serves = health is states.WorkloadHealth.AVAILABLE
    stale = [each for each in found if each.stale and not each.row.removing]
    if stale:
        oldest = max(stale, key=lambda each: each.seconds or 0)
        detail = f"Available — {oldest.row.city}: {oldest.note}" if serves else detail
        return WorkloadReport(health, detail, oldest.note, stale=True)
    blocked = next((each for each in found if each.is_blocked), None)
    staying = [each.row for each in found if each.row.stays_until]
    if serves and blocked is None and staying:
        cities = ", ".join(row.city for row in staying)
        return WorkloadReport(
            health, f"Available — {'; '.join(stay_lines(found))}", f"replacing {cities}"
        )
    stage = states.rollout_stage(workload)
    if serves and blocked is None and lookup(stage.get("reason", "")).needs_action:
        outcome = f"rollout {explain(stage['reason']).summary}"
        return WorkloadReport(health, f"Available — {outcome}", outcome)
    lacking = next((each for each in found if each.lacks_data), None)
    if serves and blocked is None and lacking is not None:
        where = f"{lacking.note} in {lacking.row.city}"
        return WorkloadReport(health, f"Available — {where}: {NEW_ONES_WAIT}", lacking.note)
    if not serves or blocked is None:
        return WorkloadReport(health, detail)
    reason = blocked.blocking_reason
    outcome = "failed" if reason is not None and reason.record.terminal else "blocked"
    cause = f"update {outcome} in {blocked.row.city}: {worst_cause([blocked])}"
    return WorkloadReport(health, f"Available — {cause}", f"update {outcome}")


def _with_stops(
    stops: Sequence[PlacementHealth], others: Sequence[PlacementHealth]
) -> WorkloadReport:
    """What is stopped is neither missing nor failed: only the others are judged."""
    left = [each.row.city for each in stops if not each.row.stopped]
    stopping = f"{', '.join(left)} stopping" if left else ""
    still = f"; {', '.join(left)} {'has' if len(left) == 1 else 'have'} not stopped yet"
    if not others:
        latest = min(stops, key=lambda each: (each.stale, each.seconds or 0))
        detail = f"S{latest.stop[1:]}{still if left else ''}"
        stale = any(each.stale for each in stops)
        return WorkloadReport(states.WorkloadHealth.STOPPED, detail, stopping, stale=stale)
    stopped = [each for each in stops if each.row.stopped]
    cities = f"{', '.join(each.row.city for each in stopped)} stopped" if stopped else ""
    note = ", ".join(part for part in (cities, stopping) if part)
    where = "; ".join(f"{each.row.city} {each.stop}" for each in stopped) + (still if left else "")
    where = where.removeprefix("; ")
    missing = sum(max(0, each.row.target - each.row.ready) for each in others)
    serves = any(each.row.ready for each in others)
    if not missing:
        health, where = states.WorkloadHealth.AVAILABLE, f"Available — {where}"
    elif serves:
        health = states.WorkloadHealth.DEGRADED
        where = f"Degraded — {count(missing, 'instance')} below desired count; {where}"
    else:
        health = states.WorkloadHealth.UNAVAILABLE
        where = f"Unavailable — {worst_cause(others) or 'no instance is ready'}; {where}"
    return WorkloadReport(health, where, note, stale=any(e.stale for e in others))


def _own_health(
    workload: Json, found: Sequence[PlacementHealth]
) -> tuple[states.WorkloadHealth, str]:
    status = workload.get("status") or {}
    lagging = status.get("readyReplicas", 0) < sum(each.row.ready for each in found)
    if lagging and found and all(each.row.done for each in found):
        return states.WorkloadHealth.AVAILABLE, states.ALL_AVAILABLE
    return states.health(workload), states.health_detail(workload, worst_cause(found))


def stay_lines(found: Sequence[PlacementHealth]) -> list[str]:
    """Which removed cities are still there, and until when."""
    return [f"{each.row.city} {each.note}" for each in found if each.row.stays_until]


def worst_cause(found: Sequence[PlacementHealth]) -> str:
    """The summary of the most severe blocking reason."""
    blockers = [(each.blocking_reason, each.explanation) for each in found]
    known = [(b, e) for b, e in blockers if b is not None and e is not None]
    if not known:
        return ""
    _, explanation = max(known, key=lambda pair: pair[0].record.severity)
    return explanation.summary


def placements_table(
    found: Sequence[PlacementHealth],
    workload: Json,
    *,
    headers: bool = True,
    width: int | None = None,
) -> str:
    """With a column for the image while a rollout in waves has given a city another one."""
    instance_type = states.instance_type(workload["spec"]["template"]["spec"])
    newest = states.image(workload)
    images = any(each.image not in ("", newest) for each in found)
    noted = any(each.note for each in found)
    rows = [
        (
            each.row.placement,
            each.row.city,
            *_counts(each.row),
            cell_text(instance_type),
            *((cell_text(each.image or newest),) if images else ()),
            *((each.note,) if noted else ()),
        )
        for each in found
    ]
    header = (*HEADER, *(("IMAGE",) if images else ()), *(("",) if noted else ()))
    return table(header, rows, headers=headers, width=width, least=("TYPE", "IMAGE", "DESIRED"))


def _counts(row: Row) -> tuple[str, ...]:
    if row.removing:
        return str(row.ready), NONE, str(row.target)
    return f"{row.ready}/{row.target}", f"{row.updated}/{row.target}", str(row.target)


def paragraphs(found: Sequence[PlacementHealth]) -> list[str]:
    """A paragraph for each row that is not ready, headed by its city."""
    several = len({each.row.placement for each in found}) > 1
    lines: list[str] = []
    for each in found:
        detail = each.paragraph()
        if not detail:
            continue
        where = f"{each.row.placement}/{each.row.city}" if several else each.row.city
        lines += ["", f"{where}  {detail[0]}"]
        lines += [" " * (len(where) + 2) + line for line in detail[1:]]
    return lines


def workload_condition(workload: Json, found: Sequence[PlacementHealth]) -> Json:
    """The workload's own condition, if it is not available for a reason that no row has."""
    if (
        any(each.blocking_reason for each in found)
        or workload_health(workload, found).health is not states.WorkloadHealth.UNAVAILABLE
    ):
        return {}
    return states.condition(workload, "Available")


def workload_paragraph(cause: Json, now: datetime) -> list[str]:
    if not cause:
        return []
    seconds = seconds_since(str(cause.get("lastTransitionTime", "")), now) or 0
    detail = states.clean_message(str(cause.get("message", "")))
    return [
        "",
        *([detail] if detail else []),
        actor_advice(explain(str(cause.get("reason"))), seconds),
    ]


def suggested_commands(
    context: Context, found: Sequence[PlacementHealth], workload: Json, own: Json
) -> list[Suggestion | None]:
    """Commands that fit the causes; the last one is ``why``. ``own`` is the workload's own
    condition."""
    name = workload["metadata"]["name"]
    reasons = [
        each.blocking_reason.reason
        for each in found
        if each.blocking_reason is not None and each.blocking_reason.record.needs_action
    ]
    if own:
        reasons.append(str(own.get("reason")))
    stage = str(states.rollout_stage(workload).get("reason", ""))
    if lookup(stage).needs_action:
        reasons.append(stage)
    steps: list[Suggestion | None] = [
        explain(reason).next_command(name, queries.missing_data(context, reason, workload))
        for reason in dict.fromkeys(reasons)
    ]
    wrong = reasons or own or any(each.blocking_reason for each in found)
    if not wrong:
        return []
    cities = dict.fromkeys(each.row.city for each in found if each.blocking_reason)
    reconnect = [queries.reconnect_command(context, city) for city in cities]
    return [*reconnect, *steps, command("why", name)]
