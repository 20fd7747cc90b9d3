"""From a workload's placements to the deployments it wants, one per placement and city.

A city counts as served when an available LocationBinding of the project names it. A city
that none serves gets no new deployment and is reported; an existing one stays and is kept up
to date, because a lost binding is no reason to stop what runs.

A deployment that the spec no longer names stays until every city that was added with the removal,
or after it, is Available. What it waits for is recorded on it before anything is created, so that
a city without a deployment is one that was added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking

_Identity = tuple[str, str]
"""Placement, and city in lower case: codes are unique ignoring case."""


@dataclass(frozen=True, slots=True)
class WantedDeployment:
    name: str
    placement: str
    city: str
    """As the LocationBinding spells it, since clusters are found by this value."""


@dataclass(frozen=True, slots=True)
class UnservedCity:
    placement: str
    city: str


@dataclass(frozen=True, slots=True)
class KeptDeployment:
    """One that the spec no longer names, and that stays until what replaces it is Available."""

    deployment: compute.WorkloadDeployment
    awaited: tuple[tuple[str, str], ...]
    """Placement and city of each replacement that has not been Available yet."""

    @property
    def replaced_by(self) -> str:
        """The annotation that records it."""
        return ",".join(f"{placement}/{city}" for placement, city in self.awaited)


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    wanted: tuple[WantedDeployment, ...] = ()
    """To be created, or updated where they exist."""
    blocked: tuple[WantedDeployment, ...] = ()
    """Wanted, but a predecessor of the same name is still being deleted."""
    orphans: tuple[compute.WorkloadDeployment, ...] = ()
    """To be deleted: their placement and city are no longer named, and nothing is awaited."""
    unserved: tuple[UnservedCity, ...] = ()
    kept: tuple[KeptDeployment, ...] = ()


def decide_placement(
    *,
    workload: compute.Workload,
    bindings: Sequence[networking.LocationBinding],
    deployments: Sequence[compute.WorkloadDeployment],
) -> PlacementPlan:
    """The plan for a workload. ``deployments`` are its own and those of others that hold one of
    its :func:`derived_names`."""
    served = _served_cities(bindings)
    named = _named_cities(workload)
    own, orphans = _own(workload, deployments, named)
    holders = {each.metadata.name: each for each in deployments}
    wanted: list[WantedDeployment] = []
    blocked: list[WantedDeployment] = []
    unserved: list[UnservedCity] = []
    for identity, city in named.items():
        existing = own.get(identity)
        if identity[1] not in served:
            unserved.append(UnservedCity(identity[0], city))
            if existing is None:
                continue
        if existing is not None and existing.spec.city_code.lower() == identity[1]:
            city = existing.spec.city_code
        spelled = served.get(identity[1], city)
        name = existing.metadata.name if existing else _name(workload, identity)
        one = WantedDeployment(name, identity[0], spelled)
        holder = holders.get(name)
        leaving = holder is not None and (holder is not existing or holder.metadata.deleting)
        (blocked if leaving else wanted).append(one)
    kept = [] if workload.metadata.deleting else _kept(workload, named, own, orphans)
    return PlacementPlan(
        tuple(wanted),
        tuple(blocked),
        tuple(each for each in orphans if all(each is not one.deployment for one in kept)),
        tuple(unserved),
        tuple(kept),
    )


def _kept(
    workload: compute.Workload,
    named: Mapping[_Identity, str],
    own: Mapping[_Identity, compute.WorkloadDeployment],
    orphans: Sequence[compute.WorkloadDeployment],
) -> list[KeptDeployment]:
    empty = {
        each.name for each in workload.spec.placements if each.scale_settings.min_replicas <= 0
    }
    pending = {
        identity
        for identity in named
        if identity[0] not in empty and not (identity in own and _serves(own[identity]))
    }
    added = {
        identity for identity in pending if identity not in own or own[identity].metadata.deleting
    }
    kept = []
    for orphan in orphans:
        if orphan.metadata.deleting or _identity(orphan) in named:
            continue  # the second of two for one city is replaced already
        recorded = compute.replacements(orphan.metadata.annotations)
        awaited = pending & (added | {(placement, city.lower()) for placement, city in recorded})
        if awaited:
            cities = tuple((each[0], city) for each, city in named.items() if each in awaited)
            kept.append(KeptDeployment(orphan, cities))
    return kept


def _serves(deployment: compute.WorkloadDeployment) -> bool:
    """Whether it is known to: not by the last report of a cell that does not answer."""
    found = deployment.status.conditions
    reachable = conditions.find(found, compute.CONDITION_CELL_REACHABLE)
    return (
        not deployment.metadata.deleting
        and conditions.is_true(found, compute.CONDITION_AVAILABLE)
        and (reachable is None or reachable.status != conditions.FALSE)
    )


def derived_names(workload: compute.Workload) -> list[str]:
    """The names under which its deployments are created."""
    return [_name(workload, identity) for identity in _named_cities(workload)]


def _own(
    workload: compute.Workload,
    deployments: Sequence[compute.WorkloadDeployment],
    named: Mapping[_Identity, str],
) -> tuple[dict[_Identity, compute.WorkloadDeployment], list[compute.WorkloadDeployment]]:
    """The workload's deployments by placement and city, and the orphans. A derived name tells
    which one it is, whatever its spec says; a name that older rules derived is kept. Of two for
    one city, the one with the derived name stays."""
    own: dict[_Identity, compute.WorkloadDeployment] = {}
    orphans = []
    derived = {_name(workload, identity): identity for identity in named}
    mine = [each for each in deployments if _is_of(each, workload)]
    for deployment in sorted(
        mine, key=lambda each: (each.metadata.name not in derived, each.metadata.name)
    ):
        identity = derived.get(deployment.metadata.name) or _identity(deployment)
        if identity in named and identity not in own:
            own[identity] = deployment
        else:
            orphans.append(deployment)
    return own, orphans


def _is_of(deployment: compute.WorkloadDeployment, workload: compute.Workload) -> bool:
    owner = deployment.metadata.controller()
    uids = (deployment.spec.workload_ref.uid, owner.uid if owner is not None else "")
    return workload.metadata.uid in uids


def _name(workload: compute.Workload, identity: _Identity) -> str:
    meta = workload.metadata
    return names.deployment_name(meta.name, meta.uid, *identity)


def _served_cities(bindings: Sequence[networking.LocationBinding]) -> dict[str, str]:
    """Each served city in lower case, and how its binding spells it."""
    return {
        binding.city_code.lower(): binding.city_code
        for binding in sorted(bindings, key=lambda each: each.metadata.name, reverse=True)
        if binding.city_code
        and conditions.is_true(binding.status.conditions, networking.CONDITION_LOCATION_AVAILABLE)
    }


def _named_cities(workload: compute.Workload) -> dict[_Identity, str]:
    """(placement, city in lower case) -> the city as written, each once, in order."""
    named: dict[_Identity, str] = {}
    for placement in sorted(workload.spec.placements, key=lambda each: each.name):
        for city in placement.city_codes:
            named.setdefault((placement.name, city.lower()), city)
    return named


def _identity(deployment: compute.WorkloadDeployment) -> _Identity:
    return deployment.spec.placement_name, deployment.spec.city_code.lower()


def build_deployment_spec(
    *,
    workload_name: str,
    workload_uid: str,
    workload_spec: Mapping[str, Any],
    wanted: WantedDeployment,
    template: Mapping[str, Any],
) -> dict[str, Any]:
    """The spec of a wanted deployment: template and scale settings verbatim, so that unknown
    fields reach the cell too."""
    scale = next(
        placement.get("scaleSettings", {})
        for placement in workload_spec["placements"]
        if placement.get("name", "") == wanted.placement
    )
    return {
        "workloadRef": {"name": workload_name, "uid": workload_uid},
        "placementName": wanted.placement,
        "cityCode": wanted.city,
        "template": template,
        "scaleSettings": scale,
    }
