"""The policy ``OrderedReady``: which Instances to create, replace, remove or wait for.

Each Instance holds the slot of its ordinal from its creation until it is deleted. Each slot that
is not as wanted needs a step, and the steps are queued:

1. strays, which hold no slot;
2. replacements of stale Instances that are not ready, highest ordinal first, unless
   a slot is being emptied already: a bad image must be fixable by deploying a good one;
3. creates, starts of stopped ones and waits, lowest ordinal first, but no create above an Instance
   of step 2;
4. replacements of stale Instances that serve, highest ordinal first;
5. removal of ordinals no longer wanted, highest first.

Only the first step is carried out. Hence one step at a time, no ordinal before the one below is
ready, no removal before what stays is ready and current. At desired 0 there is
nothing to protect, and all are deleted at once. Labels are corrected outside the queue, at any
time, because they change nothing that runs.

While the deployment is stopped, every Instance is marked at once and the queue rests: what was
changed meanwhile happens when it is started. Then one of an older template is replaced instead of
started, except while replacements are held.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from datum_compute.api.compute import instance_names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances.plan import (
    Create,
    Delete,
    DeleteReason,
    HeldStep,
    InstancePlan,
    PatchLabels,
    Resume,
    Step,
    Suspend,
    Wait,
    WaitReason,
)


def decide_instances(
    *,
    deployment_name: str,
    desired: int,
    template_hash: str,
    labels_for: Callable[[int], Mapping[str, str]],
    instances: Sequence[compute.Instance],
    hold_rolls: str = "",
    suspended: bool = False,
) -> InstancePlan:
    """The policy ``OrderedReady``."""
    if desired <= 0:
        return InstancePlan(actions=tuple(_drain(instances, deployment_name)))

    slots, strays = _slots(instances, deployment_name)
    kept = {ordinal: slots[ordinal] for ordinal in sorted(slots) if ordinal < desired}
    surplus = [slots[ordinal] for ordinal in sorted(slots, reverse=True) if ordinal >= desired]
    patches = _label_patches(kept, labels_for)
    if suspended:
        return InstancePlan(actions=(*_suspends(instances), *patches))

    # A stopped one of an older template is as good as one of the newest if it may not be replaced.
    startable = {
        ordinal: each
        for ordinal, each in kept.items()
        if each.suspended and (hold_rolls or each.template_hash == template_hash)
    }
    leaving = {ordinal for ordinal, each in kept.items() if each.metadata.deleting}
    replace_unready, recreate = _replacements(kept, template_hash, leaving | startable.keys())
    fill, later = _fill(kept, deployment_name, desired, template_hash, startable, leaving)
    stray = _removals(strays, deployment_name, DeleteReason.STRAY)
    scale_down = _removals(surplus, deployment_name, DeleteReason.SCALE_DOWN)

    held: list[HeldStep] = []
    if hold_rolls:
        held = [HeldStep(step, hold_rolls) for step in (*replace_unready, *later, *recreate)]
        replace_unready, later, recreate = [], [], []
    if leaving:
        # One at a time: fill the slot that is being emptied before emptying another.
        line = [*stray, *fill, *replace_unready, *later, *recreate, *scale_down]
    else:
        line = [*stray, *replace_unready, *fill, *later, *recreate, *scale_down]

    return InstancePlan(
        actions=(*line[:1], *patches),
        queued=tuple(line[1:]),
        held=tuple(held),
    )


def _identity(instance: compute.Instance) -> tuple[str, str]:
    return instance.metadata.name, instance.metadata.uid


def _slots(
    instances: Sequence[compute.Instance], deployment: str
) -> tuple[dict[int, compute.Instance], list[compute.Instance]]:
    """The Instances by slot, and the strays, which hold none.

    The name must be the slot's own: under any other, the slot could never be filled again.
    Names are unique, so of two with one ordinal at most one holds the slot.
    """
    slots: dict[int, compute.Instance] = {}
    strays = []
    for instance in instances:
        meta = instance.metadata
        label = meta.labels.get(compute.LABEL_INSTANCE_INDEX, "")
        ordinal = _slot(label, meta.name, deployment)
        if ordinal is None:
            strays.append(instance)
        else:
            slots[ordinal] = instance
    return slots, sorted(strays, key=_identity)


@lru_cache(maxsize=8192)  # of the same Instances in every reconcile
def _slot(label: str, name: str, deployment: str) -> int | None:
    """The ordinal whose slot an Instance with this label and name holds."""
    ordinal = instance_names.ordinal(label, name, deployment)
    if ordinal is None or name != instance_names.instance_name(deployment, ordinal):
        return None
    return ordinal


def _replacements(
    kept: Mapping[int, compute.Instance], template_hash: str, others: Container[int]
) -> tuple[list[Step], list[Step]]:
    """Deletes of stale Instances but ``others``: those not ready, those ready; highest ordinal
    first. ``kept`` is in the order of its ordinals."""
    unready: list[Step] = []
    ready: list[Step] = []
    for ordinal, instance in kept.items():
        if instance.template_hash == template_hash or ordinal in others:
            continue
        if instance.ready:
            ready.append(_delete(instance, ordinal, DeleteReason.RECREATE))
        else:
            unready.append(_delete(instance, ordinal, DeleteReason.REPLACE_UNREADY))
    return unready[::-1], ready[::-1]


def _fill(
    kept: Mapping[int, compute.Instance],
    deployment: str,
    desired: int,
    template_hash: str,
    startable: Container[int],
    leaving: Container[int],
) -> tuple[list[Step], list[Step]]:
    """Creates of empty slots, starts of stopped ones and waits for slots in progress, lowest
    ordinal first; besides them the creates that come only after a stale Instance below has been
    replaced."""
    steps: list[Step] = []
    later: list[Step] = []
    creates = steps
    for ordinal in range(desired):
        instance = kept.get(ordinal)
        if instance is None:
            creates.append(_create(deployment, ordinal))
        elif ordinal in leaving:
            steps.append(Wait(instance.metadata.name, ordinal, WaitReason.BEING_DELETED))
        elif ordinal in startable:
            steps.append(Resume(instance.metadata.name, instance.metadata.uid, ordinal))
        elif not instance.ready and instance.template_hash == template_hash:
            steps.append(Wait(instance.metadata.name, ordinal, WaitReason.NOT_READY))
        elif not instance.ready:
            creates = later
    return steps, later


@lru_cache(maxsize=8192)  # the same slots are empty in many reconciles
def _create(deployment: str, ordinal: int) -> Create:
    return Create(ordinal, instance_names.instance_name(deployment, ordinal))


def _removals(
    instances: Sequence[compute.Instance], deployment: str, reason: DeleteReason
) -> list[Step]:
    """One removal each, in the order given; those already being deleted first."""
    ordered = sorted(instances, key=lambda each: not each.metadata.deleting)
    return [_removal(instance, deployment, reason) for instance in ordered]


def _removal(instance: compute.Instance, deployment: str, reason: DeleteReason) -> Step:
    meta = instance.metadata
    ordinal = instance_names.ordinal_of(meta.labels, meta.name, deployment)
    if meta.deleting:
        return Wait(meta.name, ordinal, WaitReason.BEING_DELETED)
    return _delete(instance, ordinal, reason)


def _delete(instance: compute.Instance, ordinal: int | None, reason: DeleteReason) -> Delete:
    return Delete(instance.metadata.name, instance.metadata.uid, ordinal, reason)


def _drain(instances: Sequence[compute.Instance], deployment: str) -> list[Step]:
    ordered = sorted(instances, key=_identity)
    return [_removal(instance, deployment, DeleteReason.DRAIN) for instance in ordered]


def _suspends(instances: Sequence[compute.Instance]) -> list[Suspend]:
    return [
        Suspend(each.metadata.name, each.metadata.uid)
        for each in sorted(instances, key=_identity)
        if not each.suspended and not each.metadata.deleting
    ]


def _label_patches(
    kept: Mapping[int, compute.Instance], labels_for: Callable[[int], Mapping[str, str]]
) -> list[PatchLabels]:
    patches = []
    for ordinal, instance in kept.items():
        meta = instance.metadata
        wanted = labels_for(ordinal)
        if wanted.items() <= meta.labels.items() or meta.deleting:
            continue
        wrong = {k: v for k, v in wanted.items() if meta.labels.get(k) != v}
        patches.append(PatchLabels(meta.name, meta.uid, MappingProxyType(wrong)))
    return patches
