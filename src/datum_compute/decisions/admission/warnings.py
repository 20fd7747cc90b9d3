"""Warnings about what is accepted but has no effect, or not the expected one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from datum_compute.api.compute import constants
from datum_compute.api.fields import FieldPath
from datum_compute.decisions.admission.offer import Offer
from datum_compute.decisions.findings import FieldValue, Findings
from datum_compute.decisions.rollout.policy import read_policy
from datum_compute.decisions.routing import http_port
from datum_compute.decisions.sleep import read_policy as read_sleep_policy

MOST_NAMES = 3
"""A warning travels in a header, where room is scarce."""


def decide_warnings(
    workload: Any, offer: Offer, networks: Iterable[str], *, sleeps: bool = True
) -> tuple[str, ...]:
    """One sentence for each cause. ``networks`` are those this write adds, ``sleeps`` says
    whether Instances can sleep on this platform."""
    spec = FieldValue(workload, FieldPath()).child("spec")
    found = []
    if scaled := [*_autoscaled(spec.child("placements"))]:
        found.append(
            "autoscaling is not active: maxReplicas and metrics of"
            f" {_listed(scaled, 'placement', 'placements')} have no effect, and minReplicas"
            " instances run in each city"
        )
    known = offer.networks
    # Whether a network exists is not revealed to a user who may not use it.
    open_to_all = [name for name in networks if name not in offer.denied]
    if missing := [name for name in open_to_all if known is not None and name not in known]:
        found.append(
            f"{_listed(missing, 'network', 'networks')}"
            f" {'does' if len(missing) == 1 else 'do'} not exist in the workload's namespace:"
            f" nothing starts until {'it does' if len(missing) == 1 else 'they do'}"
        )
    annotations = spec.child("template").child("metadata").child("annotations")
    rolls = annotations.entry(constants.ANNOTATION_ROLL_ON_CONFIG_CHANGE)
    if not offer.delivers_data and rolls.value == "true":
        found.append(
            f"{constants.ANNOTATION_ROLL_ON_CONFIG_CHANGE} has no effect on a cluster without a"
            " hub: a change of a ConfigMap or Secret replaces no instance"
        )
    if not sleeps and read_sleep_policy(Findings(), annotations) is not None:
        found.append("sleep is not active on this platform yet: instances stay awake")
    return tuple(found)


def unnamed_cities(workload: Any) -> tuple[str, ...]:
    """The warning about cities of a rollout's waves that no placement names."""
    root = FieldValue(workload, FieldPath())
    place = root.child("metadata").child("annotations").entry(constants.ANNOTATION_ROLLOUT)
    policy = read_policy(Findings(), place)
    placements = Findings().items(root.child("spec").child("placements"))
    cities = {
        str(city.value).lower()
        for placement in placements
        for city in Findings().items(placement.child("cityCodes"))
    }
    waves = policy.waves if policy is not None else ()
    unnamed = [city.upper() for wave in waves for city in wave if city not in cities]
    if not unnamed:
        return ()
    be = "is" if len(unnamed) == 1 else "are"
    return (f"{_listed(unnamed, 'city', 'cities')} of the rollout's waves {be} in no placement",)


def undeclared_port(workload: Any) -> tuple[str, ...]:
    """The warning about an HTTP port that no container declares: providers open no other."""
    root = FieldValue(workload, FieldPath())
    annotations = root.child("metadata").child("annotations").value
    port = http_port(annotations) if isinstance(annotations, dict) else None
    runtime = root.child("spec").child("template").child("spec").child("runtime")
    containers = Findings().items(runtime.child("sandbox").child("containers"))
    declared = [
        each.child("port").value  # whatever it is: this warns, and does not judge
        for container in containers
        for each in Findings().items(container.child("ports"))
    ]
    if port is None or not containers or port in declared:
        return ()
    return (f"HTTP port {port} is declared by no container, so it may not be reachable",)


def _autoscaled(placements: FieldValue) -> Iterator[str]:
    for placement in Findings().items(placements):
        scale = placement.child("scaleSettings")
        if scale.child("maxReplicas").given or scale.child("metrics").value:
            yield str(placement.child("name").value)


def _listed(names: Sequence[str], one: str, many: str) -> str:
    kind = one if len(names) == 1 else many
    shown = ", ".join(f'"{name}"' for name in names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{kind} {shown} and {more} more" if more > 0 else f"{kind} {shown}"
