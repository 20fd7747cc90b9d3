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
from datum_compute.cli.rollout.state import Phase, Rollout, decide_rollout
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
            step = _skip(name, live, rollout, rollout.waves, context.args.city)
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
        if row.wave is not None and row.wave.phase is not Phase.WAITING
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


def _skip(name: str, live: Json, rollout: Rollout, waves: Waves, asked: str) -> _Step:
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
    return _Step(
        f"The rollout skips {city}: it is updated once the other cities are complete and its cell"
        " answers.",
        "skipped",
        {constants.ANNOTATION_ROLLOUT_SKIPPED: f"{waves.hash}/{','.join([*skipped, city])}"},
    )


def _is_rolled_back(rollout: Rollout) -> bool:
    return rollout.stage is not None and rollout.stage.reason == reasons.REASON_ROLLED_BACK


def _refuse_rolled_back(name: str, rollout: Rollout) -> None:
    if _is_rolled_back(rollout):
        raise CommandError(
            f'the rollout of "{name}" was rolled back; deploy another template',
            command("deploy", name, "--image=IMAGE"),
            code=reasons.REASON_ROLLED_BACK,
        )
