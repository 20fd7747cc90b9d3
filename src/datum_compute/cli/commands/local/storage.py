"""Looking after the stored state of a local platform: check, repair, backup and restore.

They read and write the files directly. A check and a backup may run beside the platform: the
engine gives them a consistent view. A repair and a restore refuse while it runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from datum_compute.api.planes import PROJECT, plane_type
from datum_compute.apiserver.storage import find_engine
from datum_compute.apiserver.storage.protocol import Damage, Engine, StoreDamaged, StoreRefused
from datum_compute.assembly.local.state import AlreadyRunning, LocalSettings, StateDirectory
from datum_compute.cli.commands.local.paths import abbreviate_home
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.render.output import NONE, count, show, table
from datum_compute.cli.tables import WORKLOAD_DEPLOYMENTS


def check(context: Context, state: StateDirectory) -> int:
    engine, where = _engine(state), _where(context, state)
    with _refusals():
        damages = engine.check(str(state.database))
    show(
        context,
        [_view(each) for each in damages],
        as_table=lambda _: _table(context, damages) if damages else "",
        names=[each.subject for each in damages],
    )
    if not damages:
        stored = engine.exists(str(state.database))
        context.say(f"No damage in {where}." if stored else f"Nothing is stored in {where}.")
        return int(Exit.DONE)
    if context.tables and not context.args.no_headers:
        context.say(f"\n{count(len(damages), 'damage')} in {where}.")
    context.suggest(command("local", "repair"))
    return int(Exit.FAILED)


def repair(context: Context, state: StateDirectory) -> int:
    engine, where = _engine(state), _where(context, state)
    with _held(state), _refusals(command("local", "restore", "FILE"), command("local", "reset")):
        damages = engine.check(str(state.database))
        if not damages:
            context.say(f"No damage in {where}.")
            return 0
        context.say(f"A repair of {where}:\n")
        for each in damages:
            context.say(f"  {each}\n    → {each.remedy}")
        context.say("\nAll else stays. The files are copied first.\n")
        context.confirm("Repair the stored state?")
        kept = state.kept_damage(context.env.now())
        engine.repair(context.env, str(state.database), str(kept))
    context.say(f"Repaired. The files as they were: {abbreviate_home(kept, context.env)}")
    return 0


def back_up(context: Context, state: StateDirectory) -> int:
    engine, target = _engine(state), context.args.file
    if not engine.exists(str(state.database)):
        raise CommandError(
            f"nothing is stored in {_where(context, state)}",
            command("local", "up", "--detach"),
            exit_code=Exit.NOT_FOUND,
            code="NotFound",
        )
    with _refusals(command("local", "check")):
        try:
            engine.back_up(str(state.database), target)
        except FileExistsError:
            raise usage(
                f'FILE "{target}": already exists; expected the name of a new file'
            ) from None
    context.say(f"Backed up to {target}: {_size(os.path.getsize(target))}.")
    return 0


def restore(context: Context, state: StateDirectory) -> int:
    engine, source = _engine(state), context.args.file
    if not os.path.isfile(source):
        raise CommandError(
            f'FILE "{source}": there is no such file', exit_code=Exit.NOT_FOUND, code="NotFound"
        )
    state.create()
    with _held(state), _refusals():
        if damages := engine.check(source, is_backup=True):
            raise StoreDamaged(source, damages)
        if engine.exists(str(state.database)):
            context.say(f"This will replace every object in {_where(context, state)}.\n")
            context.confirm(f"Restore {source}?")
        engine.restore(context.env, str(state.database), source)
    context.say(f"Restored from {source}.\n")
    context.say("Try:  " + context.command("local", "up", "--detach"))
    return 0


def workloads_by_city(context: Context, state: StateDirectory) -> dict[str, list[str]]:
    """The stored workloads that run in each city; empty where the state cannot be read now."""
    found: dict[str, set[str]] = {}
    path = str(state.database)
    engine = _engine(state)
    if not engine.exists(path):
        return {}
    try:
        with state.hold(), closing(engine.open_store(context.env, path)) as store:
            for name, plane in store.planes.items():
                if plane_type(name) is not PROJECT:
                    continue
                for each in plane.table(WORKLOAD_DEPLOYMENTS.group_resource).in_order(None):
                    spec = json.loads(plane.value(each)).get("spec") or {}
                    workload = (spec.get("workloadRef") or {}).get("name") or each.name
                    found.setdefault(str(spec.get("cityCode", "")).upper(), set()).add(workload)
    except (AlreadyRunning, StoreRefused):  # the start says what is wrong
        return {}
    return {city: sorted(names) for city, names in found.items()}


def _engine(state: StateDirectory) -> Engine:
    return find_engine((state.settings() or LocalSettings()).storage)


def _where(context: Context, state: StateDirectory) -> str:
    return abbreviate_home(state.database, context.env)


@contextmanager
def _held(state: StateDirectory) -> Iterator[None]:
    """Hold the directory, so that no platform starts meanwhile."""
    try:
        with state.hold():
            yield
    except AlreadyRunning:
        raise CommandError(
            "the local platform is running; stop it first",
            command("local", "down"),
            exit_code=Exit.CONFLICT,
            code="Conflict",
        ) from None


@contextmanager
def _refusals(*suggestions: Any) -> Iterator[None]:
    """Refusals of the engine as errors; ``suggestions`` are for damage."""
    try:
        yield
    except StoreDamaged as error:
        raise CommandError(str(error), *suggestions, code="Damaged") from error
    except StoreRefused as error:
        raise CommandError(str(error), code="StateUnusable") from error


def _view(damage: Damage) -> dict[str, str | None]:
    return {
        "plane": damage.plane or None,
        "resource": damage.resource or None,
        "namespace": damage.namespace or None,
        "name": damage.name or None,
        "problem": damage.problem,
        "remedy": damage.remedy,
    }


def _table(context: Context, damages: Sequence[Damage]) -> str:
    rows = [
        (
            each.plane or NONE,
            each.resource.partition(".")[0] or NONE,
            f"{each.namespace}/{each.name}" if each.namespace else each.name or NONE,
            each.problem,
            each.remedy,
        )
        for each in damages
    ]
    header = ("PLANE", "RESOURCE", "OBJECT", "PROBLEM", "REPAIR")
    return table(header, rows, headers=not context.args.no_headers, width=context.width())


def _size(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"
