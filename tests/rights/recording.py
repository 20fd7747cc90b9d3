"""From the calls of all scenarios to the lines of ``recorded_rights``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from datum_compute.assembly import rights
from datum_compute.testing import loop
from datum_compute.testing.calls import Call
from tests.rights import alone
from tests.rights.scenarios import SCENARIOS

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
WRITES = frozenset({"create", "update", "patch", "delete"})
PLANES = {rights.SINGLE: "single", rights.ELECTION: "host"}
"""Of managers alone: not the plane they are recorded on."""
PURGE = "standin-projects"
"""It empties the plane of a project that goes, of every kind the plane says it serves."""


def record() -> set[Call]:
    """Every call of every process, over all scenarios."""
    found: set[Call] = set()
    for scenario in SCENARIOS:
        found |= loop.run(scenario.record(), seed=1)
    found |= loop.run(alone.record(), seed=1)
    return {by_process(call) for call in found}


def by_process(call: Call) -> Call:
    process = call.user
    for each in rights.IN_CELLS:
        if call.user.startswith(f"{each}-"):
            process = each
    call = replace(call, user=process, plane=PLANES.get(process, call.plane))
    if process == PURGE and call.plane == "project" and call.verb in ("list", "delete"):
        call = replace(call, group="*", resource="*")
    return call


def live_reads(calls: Iterable[Call]) -> set[Call]:
    """What a process watches and writes it also reads: after five seconds in which its watch
    did not show what it has written. That happens in no scenario for certain, and to every
    kind at some time."""
    calls = set(calls)
    watched = {(c.user, c.plane, c.group, c.resource) for c in calls if c.verb == "watch"}
    written = {
        (c.user, c.plane, c.group, c.resource.partition("/")[0]) for c in calls if c.verb in WRITES
    }
    return {Call(*each, "get") for each in watched & written}


def lines(calls: Iterable[Call]) -> list[str]:
    """As they stand in the table: a process, a plane, a resource, its verbs."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for call in calls:
        what = f"{call.group or rights.CORE}/{call.resource}"
        verbs.setdefault((call.user, call.plane, what), set()).add(call.verb)
    return [
        f"{' '.join(key)} {','.join(sorted(found, key=VERBS.index))}"
        for key, found in sorted(verbs.items())
    ]


def sections(table: Iterable[str]) -> str:
    """The table as it is kept: process and plane once, then what they need there."""
    found: dict[str, list[str]] = {}
    for line in table:
        process, plane, rest = line.split(" ", 2)
        found.setdefault(f"{process} {plane}", []).append(rest)
    return "\n\n".join("\n".join([head, *rest]) for head, rest in found.items())
