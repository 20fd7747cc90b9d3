"""Plans a deploy: the wanted workload, the server's dry run of it, and the summary that is printed
before anything is written."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.constants import (
    ANNOTATION_HTTP_PORT,
    ANNOTATION_ROLL_ON_CONFIG_CHANGE,
    ANNOTATION_ROLLOUT,
)
from datum_compute.api.compute.instance_types import INSTANCE_TYPES
from datum_compute.api.meta import Object
from datum_compute.cli.commands.deploy import preflight
from datum_compute.cli.commands.deploy.files import SERVER_ANNOTATIONS
from datum_compute.cli.commands.deploy.manifest import Workload
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, usage
from datum_compute.cli.explain import states
from datum_compute.cli.explain.client_errors import unknown_fields_error
from datum_compute.cli.explain.unknown_fields import unknown_fields
from datum_compute.cli.headroom import headroom, quota_lines, size
from datum_compute.cli.history.entries import CREATED
from datum_compute.cli.history.recorder import Recorder, revision_numbers
from datum_compute.cli.history.spec_patch import change_spec
from datum_compute.cli.names import NEW_WORKLOAD_LIMIT
from datum_compute.cli.render.output import NONE, count
from datum_compute.cli.render.spec_diff import (
    containers_of,
    describe_note,
    describe_sources,
    describe_variable,
    describe_volume,
    diff_metadata,
    diff_specs,
    summarize_changes,
)
from datum_compute.cli.rollout.waves import gate_lines, wave_lines
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.cli.workload import (
    CONFLICT_RETRIES,
    Updated,
    being_destroyed_error,
    conflict_error,
    interruption_lines,
    live_workload,
    print_fields,
    print_missing_data,
    print_secret_hint,
    read_updated,
    removal_lines,
    restarted_at,
    say_if_stopped,
    with_restart,
)
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.decisions.instances.revisions import template_hash


@dataclass(frozen=True)
class DesiredWorkload:
    """A workload by name, and what it becomes given its live state."""

    name: str
    describe: Callable[[Workload | None], Workload]


@dataclass(frozen=True)
class DeployPlan:
    """What is to be done: ``created`` and ``updated`` are writes, ``unchanged`` is none."""

    desired: DesiredWorkload
    action: str
    live: Workload | None
    wanted: Workload
    outcome: Workload
    """The workload as the server would store it."""
    changes: str
    """In one line, for the history."""
    removals: tuple[str, ...] = ()
    """What it removes that runs; the user is asked for it."""

    @property
    def writes(self) -> bool:
        return self.action != "unchanged"


async def make_plans(
    context: Context,
    client: ApiClient,
    workloads: Sequence[DesiredWorkload],
    *,
    absent: Sequence[str] = (),
) -> list[DeployPlan]:
    """A plan for each, in which those before it have their quota."""
    plans: list[DeployPlan] = []
    for desired in workloads:
        try:
            plans.append(await make_plan(context, client, desired, absent=absent, before=plans))
        except (CommandError, errors.ClientError):
            if plans:  # and printed
                context.say("No workload was created or changed.")
            raise
    return plans


async def make_plan(
    context: Context,
    client: ApiClient,
    desired: DesiredWorkload,
    *,
    absent: Sequence[str] = (),
    before: Sequence[DeployPlan] = (),
) -> DeployPlan:
    """Dry-run the change and print what changes. No dry run while networks are ``absent``: the
    server would refuse it. Plans ``before`` it are carried out first."""
    left = await headroom(client)
    for plan in before:
        held = size(plan.live)
        for name, amount in size(plan.outcome).items():
            if name in left:
                left[name] -= amount - held.get(name, 0)
    for _ in range(CONFLICT_RETRIES):
        try:
            return await _plan_once(context, client, desired, left, with_dry_run=not absent)
        except (errors.Conflict, errors.AlreadyExists):
            pass  # changed concurrently: plan again
    raise conflict_error("deploying", desired.name)


async def _plan_once(
    context: Context,
    client: ApiClient,
    desired: DesiredWorkload,
    left: Mapping[str, int],
    *,
    with_dry_run: bool,
) -> DeployPlan:
    live = await live_workload(client, desired.name)
    wanted = desired.describe(live)
    if live is None:
        return await _plan_create(context, client, desired, wanted, left, with_dry_run=with_dry_run)
    return await _plan_update(
        context, client, desired, live, wanted, left, with_dry_run=with_dry_run
    )


async def _plan_create(
    context: Context,
    client: ApiClient,
    desired: DesiredWorkload,
    wanted: Workload,
    left: Mapping[str, int],
    *,
    with_dry_run: bool,
) -> DeployPlan:
    if len(desired.name) > NEW_WORKLOAD_LIMIT:
        raise usage(f'name "{desired.name}" is too long: at most {NEW_WORKLOAD_LIMIT} characters')
    planned = wanted
    if with_dry_run:
        trial = client.create(compute.WORKLOADS, wanted, NAMESPACE, dry_run=True)
        planned = await _dry_run_result(wanted, trial)
    context.say(
        f'Workload "{desired.name}" does not exist in project {context.target.project}. '
        "This will create it:\n"
    )
    print_fields(context, [*summary(planned), *_quota_line(planned, left)])
    for line in [*quota_lines(planned, None, left), *gate_lines(planned)]:
        context.say(f"{line}\n")
    print_secret_hint(context, desired.name, planned["spec"])
    await print_missing_data(context, client, planned)
    return DeployPlan(desired, "created", None, wanted, planned, CREATED)


async def _plan_update(
    context: Context,
    client: ApiClient,
    desired: DesiredWorkload,
    live: Workload,
    wanted: Workload,
    left: Mapping[str, int],
    *,
    with_dry_run: bool,
) -> DeployPlan:
    if live["metadata"].get("deletionTimestamp"):
        raise being_destroyed_error(desired.name)
    planned = wanted
    if with_dry_run:
        labels, notes = (wanted["metadata"].get(kind) for kind in ("labels", "annotations"))
        trial = change_spec(
            client, live, wanted["spec"], labels=labels, annotations=notes, dry_run=True
        )
        planned = await _dry_run_result(wanted, trial)
    planned = {**planned, "metadata": wanted["metadata"]}
    found = [*diff_metadata(live, wanted), *diff_specs(live["spec"], planned["spec"])]
    if not found:
        context.say(f'Workload "{desired.name}": nothing to change.')
        say_if_stopped(context, live)
        return DeployPlan(desired, "unchanged", live, wanted, live, "")
    revisions = await Recorder(context, client).revisions(live)
    context.say(f'Changes to workload "{desired.name}" ({revision_numbers(revisions, live)}):\n')
    print_fields(
        context, [*((each.label, str(each)) for each in found), ("everything else", "unchanged")]
    )
    removals = removal_lines(planned, live)
    updated = await read_updated(client, planned, live)
    _print_effects(context, planned, live, removals, updated, left)
    say_if_stopped(context, planned)
    print_secret_hint(context, desired.name, planned["spec"], live["spec"])
    await print_missing_data(context, client, planned)
    changes = summarize_changes(found)
    return DeployPlan(desired, "updated", live, wanted, planned, changes, tuple(removals))


async def _dry_run_result(wanted: Workload, trial: Awaitable[Object]) -> Workload:
    """The workload as a dry run returns it. A refusal names unknown fields in its text alone, so
    they are searched in the body that was sent."""
    try:
        return to_dict(await trial)
    except errors.Invalid as refused:
        # Unknown fields are no fault of a field: a create has no cause then, and a patch itself.
        is_form = all(cause.field == "patch" for cause in refused.causes)
        unknown = unknown_fields(wanted) if is_form else []
        if unknown:
            raise unknown_fields_error(refused, unknown) from refused
        raise


def _print_effects(
    context: Context,
    planned: Workload,
    live: Workload,
    removals: Sequence[str],
    updated: Updated,
    left: Mapping[str, int],
) -> None:
    lines = [*removals, *quota_lines(planned, live, left)]
    if template_hash(planned["spec"]["template"]) != template_hash(live["spec"]["template"]):
        lines += interruption_lines(planned, live, updated, wave_lines(planned, updated))
    elif _policy(planned) != _policy(live):
        lines += gate_lines(planned)
    if lines:
        context.say("\n".join(lines) + "\n")


def _policy(workload: Workload) -> str | None:
    found: str | None = (workload["metadata"].get("annotations") or {}).get(ANNOTATION_ROLLOUT)
    return found


def summary(workload: Workload) -> list[tuple[str, str]]:
    """A workload in a few lines, before it is created."""
    spec = workload["spec"]
    lines = [("image", states.image(workload) or "—"), ("instance type", _type_in_full(workload))]
    placements = spec["placements"]
    for placement in placements:
        instances = count(placement["scaleSettings"]["minReplicas"], "instance")
        cities = placement["cityCodes"]
        which = "cities" if len(placements) == 1 else f"cities ({placement['name']})"
        each = " each" if len(cities) > 1 else ""
        lines.append((which, f"{', '.join(cities)} — {instances}{each}"))
    for container in containers_of(spec)[:1]:
        ports = container.get("ports") or []
        if ports:
            noun = "port" if len(ports) == 1 else "ports"
            lines.append((noun, ", ".join(_port(each) for each in ports)))
        for variable in container.get("env") or []:
            lines.append((f"env {variable['name']}", describe_variable(variable)))
        if container.get("envFrom"):
            lines.append(("env from", describe_sources(container["envFrom"]) or "references"))
        lines += _mounts(workload, container)
    sandbox = (spec["template"]["spec"].get("runtime") or {}).get("sandbox") or {}
    if sandbox.get("imagePullSecrets"):
        secrets = ", ".join(f"Secret {each['name']}" for each in sandbox["imagePullSecrets"])
        lines.append(("pull secrets", secrets))
    notes = workload["metadata"].get("annotations") or {}
    if notes.get(ANNOTATION_HTTP_PORT):
        lines.append(("http port", notes[ANNOTATION_HTTP_PORT]))
    policy = notes.get(ANNOTATION_ROLLOUT)
    if policy:
        lines.append(("waves", describe_note(ANNOTATION_ROLLOUT, policy)))
    annotations = (spec["template"].get("metadata") or {}).get("annotations") or {}
    if annotations.get(ANNOTATION_ROLL_ON_CONFIG_CHANGE):
        lines.append(("roll on config change", annotations[ANNOTATION_ROLL_ON_CONFIG_CHANGE]))
    if after := states.sleep_after(workload):
        lines.append(("sleep after", after))
    labels = workload["metadata"].get("labels") or {}
    return [*lines, *((f"label {key}", describe_note(key, labels[key])) for key in labels)]


def _mounts(workload: Workload, container: Mapping[str, Any]) -> list[tuple[str, str]]:
    volumes = {
        each["name"]: {key: value for key, value in each.items() if key != "name"}
        for each in workload["spec"]["template"]["spec"].get("volumes") or []
    }
    return [
        (f"mount {each['mountPath']}", describe_volume(volumes.get(each["name"])) or each["name"])
        for each in container.get("volumeAttachments") or []
        if each.get("mountPath")
    ]


def _port(port: Mapping[str, Any]) -> str:
    return f"{port['port']}/{str(port.get('protocol', 'TCP')).lower()}"


def _type_in_full(workload: Workload) -> str:
    name = preflight.instance_type(workload)
    known = INSTANCE_TYPES.get(name)
    if known is None:
        return name or NONE
    return f"{name} ({known.millicores / 1000:g} vCPU, {known.mebibytes / 1024:g} GiB)"


def _quota_line(planned: Workload, left: Mapping[str, int]) -> list[tuple[str, str]]:
    if "instances" not in left:
        return []
    free, needed = max(0, left["instances"]), states.instance_count(planned)
    if needed > free:
        return [("quota", f"needs {count(needed, 'instance')}, {free} left")]
    return [("quota", f"uses {needed} of the {count(free, 'instance')} left")]


def merge_live(live: Workload | None, wanted: Workload) -> Workload:
    """The manifest with the labels and annotations of the live workload added, and the time of its
    last restart, unless the manifest has its own."""
    merged = copy.deepcopy(wanted)
    if live is not None and restarted_at(live) and not restarted_at(wanted):
        merged["spec"] = with_restart(wanted["spec"], restarted_at(live))
    for kind in ("labels", "annotations"):
        there = live["metadata"].get(kind) or {} if live is not None else {}
        given = wanted["metadata"].get(kind) or {}
        # The file may be a copy of a stored workload, with annotations that programs added.
        new = {key: value for key, value in given.items() if key not in SERVER_ANNOTATIONS}
        if there or new:
            merged["metadata"][kind] = {**there, **new}
        else:
            merged["metadata"].pop(kind, None)
    return merged
