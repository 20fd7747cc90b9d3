"""The state of a rollout: one row per placement and city.

Reads JSON values as they come from the API, so that a plain read need not load the typed
kinds. Missing numbers are 0.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from datum_compute.api.compute import constants, reasons
from datum_compute.api.compute.instance_names import deployment_of
from datum_compute.cli.explain.reasons import FINALIZERS_REMAIN

if TYPE_CHECKING:
    from datum_compute.cli.rollout.waves import RowWave, Waves

BLOCKED_AFTER_SECONDS = 30.0
"""A row that has not changed for this long counts as blocked."""


class Phase(StrEnum):
    PENDING = "Pending"
    CREATING = "Creating"
    UPDATING = "Updating"
    STARTING = "Starting"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    BLOCKED = "Blocked"
    DONE = "Done"
    # Of a rollout in waves.
    WAITING = "Waiting"
    SOAKING = "Soaking"
    FAILED = "Failed"
    UNDONE = "Undone"
    SKIPPED = "Skipped"


class Stop(NamedTuple):
    """Who stopped a workload or a city of it, as far as that is recorded, and when."""

    actor: str = ""
    since: str = ""


class BlockingReason(NamedTuple):
    """Why a deployment is not complete, from its own conditions."""

    reason: str
    message: str
    since: str = ""
    """The condition's transition time."""
    condition: str = ""
    """The condition's type; empty where the deployment has none that explains it."""
    status: str = ""

    @property
    def record(self) -> reasons.Reason:
        return reasons.lookup(self.reason)


class Row(NamedTuple):
    """One deployment of a rollout, with its counters as reported."""

    placement: str
    city: str
    deployment: str = ""
    """Empty while it does not exist."""
    target: int = 0
    replicas: int = 0
    updated: int = 0
    settled: int = 0
    """How many have the template of their deployment, which may be older than the workload's."""
    ready: int = 0
    reported: bool = False
    """Whether the report is on the newest spec."""
    first: bool = False
    """Whether there was never another template, so that no Instance can be of an old one."""
    removing: bool = False
    """No longer part of the workload; listed until it is deleted."""
    stays_until: tuple[str, ...] = ()
    """The cities that must be Available before it is removed."""
    blocking_reason: BlockingReason | None = None
    unreported: int = 0
    """How many Instances of the current template have not reported it."""
    outdated: bool = False
    """Whether a rollout in waves has given it another template than the workload's."""
    wave: RowWave | None = None
    """Its part in a rollout in waves; None where all cities roll at once."""
    stop: Stop | None = None
    """Set where it is to be stopped, or to stay so."""
    stopped: bool = False
    """Whether nothing of it runs, as its cell reports."""

    @property
    def old(self) -> int:
        newest = max(self.updated, self.target) if self.first else self.updated
        return max(0, self.replicas - newest - self.unreported)

    @property
    def waits_for_wave(self) -> bool:
        """Whether it has an older template for now."""
        return self.wave is not None and self.wave.phase in (Phase.WAITING, Phase.UNDONE)

    @property
    def skipped(self) -> bool:
        """Whether the rollout does not wait for it."""
        return self.wave is not None and self.wave.phase is Phase.SKIPPED

    @property
    def done(self) -> bool:
        if self.stop is not None and not self.removing:
            return self.stopped
        if self.removing or not self.deployment or not self.reported:
            return False
        complete = self.updated >= self.target and self.ready >= self.target
        return complete and self.replicas <= self.target

    @property
    def at_size(self) -> bool:
        """Whether as many instances as asked for are ready, of the template that the city has."""
        sized = min(self.settled, self.ready) >= self.target and self.replicas <= self.target
        return self.done or (bool(self.deployment) and self.reported and sized)

    def phase(self, *, stalled: bool = False) -> Phase:
        """``stalled``: nothing has changed for :data:`BLOCKED_AFTER_SECONDS`."""
        if self.stop is not None:
            return Phase.STOPPED if self.stopped else Phase.STOPPING
        if (
            self.wave is not None
            and self.wave.phase not in (None, Phase.DONE)
            and not self.removing
        ):
            return self.wave.phase
        if self.done:
            return Phase.DONE
        blocking = self.blocking_reason
        if stalled or (blocking is not None and blocking.record.needs_action):
            return Phase.BLOCKED
        if not (self.replicas or self.updated or self.ready or self.removing):
            return Phase.PENDING
        if self.first and not self.old and self.ready < self.target:
            return Phase.CREATING
        updated = self.updated >= self.target and self.replicas <= self.target
        # Stopped so far, or all of the newest template: nothing is updated.
        starting = self.stopped or (self.reported and updated and not self.removing)
        return Phase.STARTING if starting else Phase.UPDATING


class Rollout(NamedTuple):
    rows: tuple[Row, ...]
    observed: bool
    """Whether the workload's controller has written all deployments of the newest spec."""

    stage: BlockingReason | None = None
    """What a rollout in waves is at, by the workload's condition ``Progressing``; None when it is
    complete, and without a policy."""
    waves: Waves | None = None
    """None without a policy that can be read."""
    removal: BlockingReason | None = None
    """What alone keeps a workload that is being deleted, where that is known."""

    @property
    def done(self) -> bool:
        complete = self.observed and self.stage is None
        return complete and all(row.done or row.skipped for row in self.rows)

    @property
    def held(self) -> bool:
        """Whether no more cities get the newest template unless a person does something."""
        return self.observed and self.stage is not None and self.stage.record.needs_action

    @property
    def at_size(self) -> bool:
        """Whether only a template that is held back is missing."""
        return self.held and all(row.at_size for row in self.rows)

    @property
    def outlives_failure(self) -> bool:
        """Whether the rollout goes on, or back, when a city fails."""
        return self.waves is not None and self.waves.outlives_failure

    @property
    def needs_instances(self) -> bool:
        """Whether only the Instances tell old ones from those that have not reported yet."""
        return any(row.reported and row.old for row in self.rows)

    @property
    def stopped(self) -> bool:
        """Whether all of it is to be stopped, so that no change takes effect."""
        rows = [row for row in self.rows if not row.removing]
        return bool(rows) and all(row.stop is not None for row in rows)

    @property
    def stopped_cities(self) -> list[str]:
        return sorted({row.city for row in self.rows if row.stop is not None})


def decide_rollout(
    workload: Mapping[str, Any],
    deployments: Sequence[Mapping[str, Any]],
    instances: Sequence[Mapping[str, Any]] = (),
    rolling: Collection[str] = (),
) -> Rollout:
    """The rollout of a workload; ``deployments`` and ``instances`` are those that name it, in any
    order. ``rolling`` are deployments that have had an Instance of an older template.
    A workload that is being deleted has rows only for what is left to remove."""
    destroyed = bool(_at(workload, "metadata", "deletionTimestamp"))
    expected = {} if destroyed else _expected(workload)
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    leaving = []
    for deployment in sorted(deployments, key=lambda each: str(_at(each, "metadata", "name"))):
        key = _key(deployment)
        deleting = bool(_at(deployment, "metadata", "deletionTimestamp"))
        if key in expected and key not in found and not deleting:
            found[key] = deployment
        else:
            leaving.append(deployment)
    observed = _observed(workload) and not destroyed
    progress = _progress(workload)
    newest = _at(workload, "spec", "template") or {} if progress is not None else None
    first = observed or _generation(workload) == 1
    rows = [
        _row(key, city, found[key], None if observed else target, first, instances, rolling, newest)
        if key in found
        else Row(
            key[0],
            city,
            target=target,
            blocking_reason=_absence_reason(workload, key[0], city),
            stopped=True,
        )
        for key, (city, target) in expected.items()
    ]
    rows = [_with_stop(row, workload, found.get((row.placement, row.city.lower()))) for row in rows]
    rows += [_leaving_row(deployment, destroyed) for deployment in leaving]
    if progress is None or destroyed:
        return Rollout(tuple(rows), observed, removal=held_deletion(workload))
    from datum_compute.cli.rollout.waves import decide_waves  # rarely needed, and slow to load

    waves = decide_waves(workload, deployments)
    rows = [
        row if waves is None or row.removing else row._replace(wave=waves.rows.get(_row_key(row)))
        for row in rows
    ]
    rows.sort(key=lambda row: row.wave.number if row.wave else len(rows))
    stage = None
    if progress.get("reason") != reasons.REASON_COMPLETE:
        stage = _from_condition(progress or {"reason": reasons.REASON_WAVE_IN_PROGRESS})
    return Rollout(tuple(rows), observed, stage, waves)


def _row_key(row: Row) -> tuple[str, str]:
    return row.placement, row.city.lower()


def _progress(workload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition ``Progressing``, empty while it is not there; None without a policy."""
    policy = (_at(workload, "metadata", "annotations") or {}).get(constants.ANNOTATION_ROLLOUT)
    if policy is None or policy.strip() == "{}":
        return None
    return _find(workload.get("status") or {}, constants.CONDITION_PROGRESSING)


def _has_template(deployment: Mapping[str, Any], newest: Mapping[str, Any]) -> bool:
    """Whether it has the workload's template, or that with a later restart of its own."""
    from datum_compute.decisions.instances.revisions import TEMPLATE_DEFAULTS, without_defaults
    from datum_compute.decisions.references import without_data_hash
    from datum_compute.decisions.restarts import keep_restart

    own = without_data_hash(_at(deployment, "spec", "template") or {})
    newest = keep_restart(newest, own)
    return without_defaults(own, TEMPLATE_DEFAULTS) == without_defaults(newest, TEMPLATE_DEFAULTS)


def _expected(workload: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, int]]:
    """(placement, city in lower case) -> the city as written, and its replicas."""
    expected: dict[tuple[str, str], tuple[str, int]] = {}
    for placement in _at(workload, "spec", "placements") or ():
        minimum = int(_at(placement, "scaleSettings", "minReplicas") or 0)
        for city in placement.get("cityCodes") or ():
            expected.setdefault((placement.get("name", ""), city.lower()), (city, minimum))
    return expected


def _key(deployment: Mapping[str, Any]) -> tuple[str, str]:
    spec = deployment.get("spec") or {}
    return spec.get("placementName", ""), spec.get("cityCode", "").lower()


def _absence_reason(
    workload: Mapping[str, Any], placement: str, city: str
) -> BlockingReason | None:
    """Why a city has no deployment: the placement's condition for the city, or else that of
    the placement or the workload."""
    if not _observed(workload):
        return None
    status = workload.get("status") or {}
    own = [each for each in status.get("placements") or () if each.get("name") == placement]
    in_city = [_find(each, constants.scheduled_in_city(city)) for each in own]
    available = [_find(each, constants.CONDITION_AVAILABLE) for each in (*own, status)]
    blockers = [
        _from_condition(each)._replace(condition="", status="")  # not the deployment's own
        for each in (*in_city, *available)
        if each.get("status") == "False"
    ]
    return max(blockers, key=lambda each: each.record.severity, default=None)


def _row(
    key: tuple[str, str],
    city: str,
    deployment: Mapping[str, Any],
    outdated_for: int | None,
    first: bool,
    instances: Sequence[Mapping[str, Any]],
    rolling: Collection[str],
    newest: Mapping[str, Any] | None,
) -> Row:
    """``newest`` is the workload's template where a rollout policy may hold it back, and
    ``outdated_for`` the number the workload wants while the controller has not observed
    it, so that the deployment may be of an older spec; ``first`` rules that out."""
    status = deployment.get("status") or {}
    reported = outdated_for is None and _observed(deployment)
    waits = newest is not None and not _has_template(deployment, newest)
    own = int(_at(deployment, "spec", "scaleSettings", "minReplicas") or 0)
    own = own if outdated_for is None else outdated_for
    settled = int(status.get("updatedReplicas") or 0) if reported else 0
    return Row(
        placement=key[0],
        city=city,
        deployment=str(_at(deployment, "metadata", "name")),
        # Until the cell has observed the newest spec, it reports the desired number of an older.
        target=int(status.get("desiredReplicas") or 0) if reported else own,
        replicas=int(status.get("replicas") or 0),
        updated=settled if not waits else 0,
        settled=settled,
        ready=int(status.get("readyReplicas") or 0),
        reported=reported,
        first=first and not waits and _generation(deployment) == 1,
        blocking_reason=_blocking_reason(status.get("conditions") or (), reported=reported),
        unreported=0 if waits else _count_unreported(deployment, instances, rolling),
        outdated=waits,
        stopped=bool(status.get("suspended")),
    )


def _count_unreported(
    deployment: Mapping[str, Any],
    instances: Sequence[Mapping[str, Any]],
    rolling: Collection[str],
) -> int:
    """How many of its replicas are of its template without having reported it: all of those that
    the counters miss, if there never was another."""
    name = _at(deployment, "metadata", "name")
    own = [
        each
        for each in instances
        if deployment_of(_at(each, "metadata", "labels") or {}, each["metadata"]["name"]) == name
    ]
    if not own:
        return 0
    from datum_compute.decisions.instances.revisions import template_hash

    newest = template_hash(_at(deployment, "spec", "template") or {})
    current = [each for each in own if _at(each, "spec", "controller", "templateHash") == newest]
    if len(current) == len(own) and name not in rolling:
        return int(_at(deployment, "status", "replicas") or 0)
    return sum(
        _at(each, "status", "controller", "observedTemplateHash") != newest for each in current
    )


def _with_stop(row: Row, workload: Mapping[str, Any], deployment: Mapping[str, Any] | None) -> Row:
    """With the stop of the workload, or else that of the city alone. What the controller wrote on
    the deployment for the workload counts for nothing: it follows the workload."""
    by = (_at(deployment, "metadata", "annotations") or {}).get(constants.ANNOTATION_SUSPENDED)
    stop = find_stop(workload)
    if stop is None and deployment is not None and by != constants.SUSPENDED_BY_WORKLOAD:
        stop = find_stop(deployment)
    blocking = row.blocking_reason
    of_stop = blocking is not None and blocking.reason in _STOPS
    if stop is None:  # and where it was stopped, it is about to start
        return row._replace(blocking_reason=None) if of_stop else row
    if blocking is not None and of_stop and not stop.since:
        stop = stop._replace(since=blocking.since)
    elif blocking is not None and blocking.condition == constants.CONDITION_REPLICAS_READY:
        blocking = None  # of a deployment that is being stopped nothing else counts
    return row._replace(stop=stop, blocking_reason=blocking)


_STOPS = (reasons.REASON_SUSPENDED, reasons.REASON_PROJECT_SUSPENDED)


def find_stop(obj: Mapping[str, Any]) -> Stop | None:
    """The stop of a workload or a deployment; None where it is to run."""
    notes = _at(obj, "metadata", "annotations") or {}
    by = notes.get(constants.ANNOTATION_SUSPENDED)
    if not by:
        return None
    try:
        written = json.loads(notes.get(constants.ANNOTATION_SUSPENDED_BY) or "{}")
    except ValueError:
        written = {}
    if by == constants.SUSPENDED_BY_PROJECT or not isinstance(written, dict):
        written = {}
    return Stop(str(written.get("actor") or ""), str(written.get("timestamp") or ""))


def _leaving_row(deployment: Mapping[str, Any], destroyed: bool) -> Row:
    status = deployment.get("status") or {}
    going = destroyed or bool(_at(deployment, "metadata", "deletionTimestamp"))
    awaited = constants.replacements(_at(deployment, "metadata", "annotations") or {})
    return Row(
        placement=str(_at(deployment, "spec", "placementName") or ""),
        city=str(_at(deployment, "spec", "cityCode") or ""),
        deployment=str(_at(deployment, "metadata", "name")),
        replicas=int(status.get("replicas") or 0),
        ready=int(status.get("readyReplicas") or 0),
        removing=True,
        stays_until=() if going else tuple(city for _, city in awaited),
        blocking_reason=held_deletion(deployment) or _removal_reason(status),
    )


_OWN_FINALIZERS = ("foregroundDeletion", "orphan")


def held_deletion(obj: Mapping[str, Any]) -> BlockingReason | None:
    """Set where only finalizers of other programs keep an object that is being deleted."""
    found = _at(obj, "metadata", "finalizers") or ()
    since = _at(obj, "metadata", "deletionTimestamp")
    ours = [
        each
        for each in found
        if each in _OWN_FINALIZERS or each.partition("/")[0].endswith(constants.GROUP)
    ]
    if not since or not found or ours:
        return None
    noun = "finalizer" if len(found) == 1 else "finalizers"
    return BlockingReason(FINALIZERS_REMAIN, f"held by the {noun} {', '.join(found)}", str(since))


def _removal_reason(status: Mapping[str, Any]) -> BlockingReason | None:
    """What the deletion of a deployment waits for, where it has said so."""
    found = _find(status, constants.CONDITION_REMOVED)
    return _from_condition(found) if found.get("status") == "False" else None


def _blocking_reason(
    conditions: Sequence[Mapping[str, Any]], *, reported: bool
) -> BlockingReason | None:
    """What blocks a deployment, by its own conditions.

    A cell that has not observed the newest spec (not ``reported``) reports on Instances of the
    one before, whose failure the new spec may well fix.
    """
    by_type = {condition.get("type"): condition for condition in conditions}
    for type, statuses in reasons.DEPLOYMENT_BLOCKING_CONDITIONS.items():
        found = by_type.get(type, {})
        stale = type == constants.CONDITION_REPLICAS_READY and not reported
        if found.get("status") in statuses and not stale:
            return _from_condition(found)
    return None


def _from_condition(condition: Mapping[str, Any]) -> BlockingReason:
    return BlockingReason(
        str(condition.get("reason", "")),
        str(condition.get("message", "")),
        str(condition.get("lastTransitionTime", "")),
        str(condition.get("type", "")),
        str(condition.get("status", "")),
    )


def _find(status: Mapping[str, Any], type: str) -> Mapping[str, Any]:
    conditions = status.get("conditions") or ()
    return next((each for each in conditions if each.get("type") == type), {})


def _observed(obj: Mapping[str, Any]) -> bool:
    return int(_at(obj, "status", "observedGeneration") or 0) >= _generation(obj)


def _generation(obj: Mapping[str, Any]) -> int:
    return int(_at(obj, "metadata", "generation") or 0)


def _at(value: Any, *path: str) -> Any:
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
