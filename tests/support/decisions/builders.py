"""Objects for decisions, with only the fields that a test names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
DEPLOYMENT = "web-default-dfw"


def condition(type: str, status: str, reason: str = "Because", message: str = "") -> Condition:
    return Condition(
        type=type, status=status, reason=reason, message=message, last_transition_time=NOW
    )


def instance(
    ordinal: int | None,
    *,
    ready: bool = True,
    hash: str | None = "new",
    deleting: bool = False,
    name: str | None = None,
    labels: Mapping[str, str] | None = None,
    gates: Sequence[str] = (),
    conditions: Sequence[Condition] = (),
    observed: str | None = None,
    generation: int = 1,
    uid: str = "",
    suspended: bool = False,
    stopped: bool = False,
) -> compute.Instance:
    """``hash=None`` leaves the controller's part of the spec away; ``suspended`` marks it to be
    stopped, and with ``stopped`` its provider reports that it is."""
    name = name if name is not None else f"{DEPLOYMENT}-{ordinal}"
    own = {} if ordinal is None else {compute.LABEL_INSTANCE_INDEX: str(ordinal)}
    given = tuple(conditions) or (
        condition("Ready", "True" if ready else "False", "Available" if ready else "Pending"),
    )
    controller = None
    if hash is not None:
        controller = compute.InstanceController(
            template_hash=hash,
            scheduling_gates=tuple(compute.SchedulingGate(name=gate) for gate in gates),
        )
    return compute.Instance(
        metadata=ObjectMeta(
            name=name,
            uid=uid or f"uid-of-{name}",
            generation=generation,
            labels=dict(own if labels is None else labels),
            annotations={compute.ANNOTATION_SUSPENDED: "true"} if suspended else {},
            deletion_timestamp=NOW if deleting else None,
        ),
        spec=compute.InstanceSpec(controller=controller),
        status=compute.InstanceStatus(
            conditions=given,
            controller=compute.InstanceControllerStatus(observed_template_hash=observed)
            if observed is not None
            else None,
            suspended=stopped,
        ),
    )


def workload(
    name: str = "web",
    uid: str = "w-1",
    generation: int = 1,
    minimum: int = 1,
    **placements: Sequence[str],
) -> compute.Workload:
    """``workload(default=["DFW", "IAD"])``: each placement and its cities."""
    return compute.Workload(
        metadata=ObjectMeta(name=name, uid=uid, generation=generation),
        spec=compute.WorkloadSpec(
            placements=tuple(
                compute.Placement(
                    name=placement,
                    city_codes=tuple(cities),
                    scale_settings=compute.ScaleSettings(min_replicas=minimum),
                )
                for placement, cities in placements.items()
            )
        ),
    )


def deployment(
    city: str = "DFW",
    *,
    placement: str = "default",
    name: str | None = None,
    uid: str = "w-1",
    generation: int = 1,
    deleting: bool = False,
    minimum: int = 1,
    annotations: Mapping[str, str] | None = None,
    conditions: Sequence[Condition] = (),
    **counters: Any,
) -> compute.WorkloadDeployment:
    return compute.WorkloadDeployment(
        metadata=ObjectMeta(
            name=name or f"web-{placement}-{city.lower()}",
            generation=generation,
            annotations=dict(annotations or {}),
            deletion_timestamp=NOW if deleting else None,
        ),
        spec=compute.WorkloadDeploymentSpec(
            workload_ref=compute.WorkloadReference(name="web", uid=uid),
            placement_name=placement,
            city_code=city,
            scale_settings=compute.ScaleSettings(min_replicas=minimum),
        ),
        status=compute.WorkloadDeploymentStatus(conditions=tuple(conditions), **counters),
    )


def binding(city: str, *, available: str = "True", name: str = "") -> networking.LocationBinding:
    return networking.LocationBinding(
        metadata=ObjectMeta(name=name or city.lower()),
        spec=networking.LocationBindingSpec(topology={networking.TOPOLOGY_CITY_CODE: city}),
        status=networking.LocationBindingStatus(conditions=(condition("Available", available),)),
    )


def bucket(
    resource: str, available: int, project: str = "demo", *, kind: str = "Project"
) -> quota.AllowanceBucket:
    """``bucket("vcpus", 1000)``: what is left of one of our resources."""
    return quota.AllowanceBucket(
        metadata=ObjectMeta(name=f"bucket-{resource}"),
        spec=quota.AllowanceBucketSpec(
            consumer_ref=quota.ConsumerReference(kind=kind, name=project),
            resource_type=f"compute.datumapis.com/{resource}",
        ),
        status=quota.AllowanceBucketStatus(available=available),
    )
