"""``rollout pause|resume|promote|abort|skip``: steers a rollout in waves by hand.

Each sets an annotation of the workload, which the workload controller reads. All but the pause name
the template by its hash, so that they end with its rollout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple

from datum_compute.api.compute import constants, reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, unknown
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.history.recorder import Recorder
from datum_compute.cli.render.results import result, show_results
from datum_compute.cli.rollout.state import Phase, Rollout, Row, decide_rollout
from datum_compute.cli.rollout.waves import Waves
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.cli.workload import require_workload
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge

Json = Mapping[str, Any]


class _Step(NamedTuple):
    """What a verb does: the annotations to set or, where None, to remove."""

    text: str
    action: str = "unchanged"
    annotations: Mapping[str, str | None] = {}


def control(context: Context) -> int:
    verb, name = context.args.action, context.args.name
    session = context.open_session()

    async def work(client: ApiClient) -> int:
        live = await require_workload(context, client)
        selector = f"{constants.LABEL_WORKLOAD_UID}={live['metadata']['uid']}"
        page = await client.list(compute.WORKLOAD_DEPLOYMENTS, NAMESPACE, label_selector=selector)
        rollout = decide_rollout(live, [to_dict(each) for each in page.items])
        if rollout.waves is None:
            raise CommandError(
                f'workload "{name}" has no waves: its cities are updated all at once',
                command("deploy", name, "--waves=each"),
                code="NoWaves",
            )
        if verb == "pause":
            step = _pause(live, await Recorder(context, client).actor(), context)
        elif verb == "resume":
            step = _resume(live)
        elif verb == "promote":
            step = _promote(name, live, rollout, rollout.waves)
        elif verb == "abort":
            step = _abort(name, live, rollout, rollout.waves)
        else:
            step = _skip(context, live, rollout, rollout.waves)
        if step.annotations:
            body = {"metadata": {"uid": live["metadata"]["uid"], "annotations": step.annotations}}
            written = await client.patch(compute.WORKLOADS, name, merge(body), NAMESPACE)
            live = to_dict(written)
        context.say(step.text)
        if context.args.output not in ("table", "wide"):
            show_results(context, [result(live, step.action)])
        return 0

    return session.run(work)


def _note(live: Json, annotation: str) -> str:
    return str((live["metadata"].get("annotations") or {}).get(annotation, ""))


def _unpaused(live: Json) -> str:
    """For a verb that ends a pause as well."""
    paused = _note(live, constants.ANNOTATION_ROLLOUT_PAUSED)
    return " The rollout is not paused any more." if paused else ""


def _pause(live: Json, actor: str, context: Context) -> _Step:
    name, paused = live["metadata"]["name"], _note(live, constants.ANNOTATION_ROLLOUT_PAUSED)
    if paused:
        return _Step(f'The rollout of "{name}" is paused already ({paused}).')
    now = context.env.now().astimezone(UTC).replace(tzinfo=None, microsecond=0)
    text = f"{actor or 'a user'}, {now.isoformat()}Z"
    resume = context.command("rollout", "resume", name)
    return _Step(
        f'The rollout of "{name}" is paused: no city gets another template. Resume with  {resume}',
        "paused",
        {constants.ANNOTATION_ROLLOUT_PAUSED: text},
    )


def _resume(live: Json) -> _Step:
    name = live["metadata"]["name"]
    if not _note(live, constants.ANNOTATION_ROLLOUT_PAUSED):
        return _Step(f'The rollout of "{name}" is not paused.')
    return _Step(
        f'The rollout of "{name}" goes on.',
        "resumed",
        {constants.ANNOTATION_ROLLOUT_PAUSED: None},
    )


def _promote(name: str, live: Json, rollout: Rollout, waves: Waves) -> _Step:
    _refuse_rolled_back(name, rollout)
    number = waves.next_closed
    if number is None:
        return _Step(f'Every wave of "{name}" is open.')
    cities = ", ".join(waves.order[number - 1])
    return _Step(
        f"Wave {number} of {len(waves.order)} opens: {cities}.{_unpaused(live)}",
        "promoted",
        {
            constants.ANNOTATION_ROLLOUT_PROMOTED: f"{waves.hash}/{number}",
            constants.ANNOTATION_ROLLOUT_PAUSED: None,
        },
    )


def _abort(name: str, live: Json, rollout: Rollout, waves: Waves) -> _Step:
    if rollout.done:
        raise CommandError(
            f'the rollout of "{name}" is complete',
            command("rollout", "undo", name),
            code="Complete",
        )
    if _is_rolled_back(rollout):
        return _Step(f'The rollout of "{name}" was rolled back already.')
    opened = [
        row.city
        for row in rollout.rows
        if row.wave is not None
        and row.wave.phase is not Phase.WAITING
        and not (row.skipped and row.outdated)
    ]
    back = f"{', '.join(dict.fromkeys(opened))} back to what ran there before"
    back = back if opened else "no city had the template"
    return _Step(
        f'The rollout of "{name}" is undone: {back}.{_unpaused(live)}',
        "aborted",
        {
            constants.ANNOTATION_ROLLOUT_ABORTED: waves.hash,
            constants.ANNOTATION_ROLLOUT_PAUSED: None,
        },
    )


def _skip(context: Context, live: Json, rollout: Rollout, waves: Waves) -> _Step:
    name, asked = context.args.name, context.args.city
    _refuse_rolled_back(name, rollout)
    cities: Sequence[str] = [city for wave in waves.order for city in wave]
    city = next((each for each in cities if each.lower() == asked.lower()), None)
    if city is None:
        where = f' in workload "{name}"'
        raise unknown("city", asked, cities, command("rollout", "status", name), where)
    if rollout.done:
        return _Step(f'The rollout of "{name}" is complete.')
    hash, _, value = _note(live, constants.ANNOTATION_ROLLOUT_SKIPPED).partition("/")
    skipped = [each for each in value.split(",") if each] if hash == waves.hash else []
    if city.lower() in (each.lower() for each in skipped):
        return _Step(f"The rollout already skips {city}.")
    own = [row for row in rollout.rows if row.city.lower() == city.lower()]
    left = [row for row in rollout.rows if row not in own and not _is_settled(row)]
    phases = {row.wave.phase for row in own if row.wave is not None}
    if phases <= {Phase.DONE, Phase.SOAKING}:
        promote = context.command("rollout", "promote", name)
        then = f"; the next wave opens after its soak, or now with  {promote}"
        opens = Phase.SOAKING in phases and waves.next_closed
        return _Step(f"{city} is updated already{then if opens else '.'}")
    if not left and not any(_is_unreachable(row) for row in own):
        raise CommandError(
            f'{city} is the last city of the rollout of "{name}": no other is left to wait for',
            command("rollout", "promote", name)
            if waves.next_closed
            else command("rollout", "abort", name),
            code="LastCity",
        )
    text = "it is updated once the other cities are complete and its cell answers"
    if Phase.WAITING not in phases:
        text = "it keeps the newest template, and is not waited for"
    return _Step(
        f"The rollout skips {city}: {text}.",
        "skipped",
        {constants.ANNOTATION_ROLLOUT_SKIPPED: f"{waves.hash}/{','.join([*skipped, city])}"},
    )


def _is_settled(row: Row) -> bool:
    """Whether a rollout in waves does not wait for it, or not any more."""
    return row.wave is None or row.wave.phase in (Phase.DONE, Phase.SKIPPED)


def _is_unreachable(row: Row) -> bool:
    blocking = row.blocking_reason
    return blocking is not None and blocking.reason == reasons.REASON_CELL_UNREACHABLE


def _is_rolled_back(rollout: Rollout) -> bool:
    return rollout.stage is not None and rollout.stage.reason == reasons.REASON_ROLLED_BACK


def _refuse_rolled_back(name: str, rollout: Rollout) -> None:
    if _is_rolled_back(rollout):
        raise CommandError(
            f'the rollout of "{name}" was rolled back; deploy another template',
            command("deploy", name, "--image=IMAGE"),
            code=reasons.REASON_ROLLED_BACK,
        )
