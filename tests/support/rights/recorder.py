"""The calls of all scenarios, by process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from datum_compute.assembly import rights
from datum_compute.standins.milo_projects.purge import EXCLUDED_KINDS
from datum_compute.testing import loop
from datum_compute.testing.calls import RecordedCall
from tests.support.rights import late_watches, pod_provider, single_manager
from tests.support.rights.scenarios import SCENARIOS, RecordedScenario

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
PURGE = ("standin-projects", "project")
"""The process that purges the plane of a deleted project, of every kind that the plane serves.
These are not known beforehand, so its role names every kind, and only for this."""
PURGE_VERBS = ("list", "delete")


def record() -> set[RecordedCall]:
    """Every call of every process, over all scenarios."""
    found: set[RecordedCall] = set()
    for scenario in (*SCENARIOS, *map(RecordedScenario, late_watches.LATE_SCENARIOS)):
        found |= loop.run(scenario.record(), seed=1)
    for single in (single_manager.run_everything, *late_watches.LATE_SCENARIOS_SINGLE_CLUSTER):
        found |= loop.run(single_manager.record(single), seed=1)
    found |= loop.run(pod_provider.record(), seed=1)
    return {by_process(call) for call in found}


def by_process(call: RecordedCall) -> RecordedCall:
    process = call.user
    for each in rights.IN_CELLS:
        if call.user.startswith(f"{each}-"):
            process = each
    call = replace(call, user=process)
    return replace(call, group="*", resource="*") if is_of_purge(call) else call


def is_of_purge(call: RecordedCall) -> bool:
    """Whether it is a step of purging a plane. A purge leaves out the objects that every plane
    has, so a call on those is recorded like any other."""
    kind = f"{call.resource}.{call.group}" if call.group else call.resource
    return (
        (call.user, call.plane) == PURGE
        and call.verb in PURGE_VERBS
        and "/" not in call.resource
        and kind not in EXCLUDED_KINDS
    )


def lines(calls: Iterable[RecordedCall]) -> list[str]:
    """One for each process, plane and resource, with its verbs."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for call in calls:
        what = f"{call.group or rights.CORE}/{call.resource}"
        verbs.setdefault((call.user, call.plane, what), set()).add(call.verb)
    return [
        f"{' '.join(key)} {','.join(sorted(found, key=VERBS.index))}"
        for key, found in sorted(verbs.items())
    ]
