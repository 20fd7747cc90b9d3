"""Checks that every plane of a platform matches the specs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import IPv4Network

from datum_compute.api import conditions, core, karmada
from datum_compute.api.compute import instance_names, names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.scheme import Resource
from datum_compute.decisions.instances import revisions
from datum_compute.runtime.writes import patch
from tests.support.simulation.platform import RunningPlatform, cell_planes, list_on_planes
from tests.support.simulation.random_operations import DesiredWorkload

DesiredWorkloads = Mapping[str, DesiredWorkload]


async def unsettled(platform: RunningPlatform, wanted: DesiredWorkloads) -> str:
    """What does not match yet, or an empty text."""
    looks = (_workloads, _deployments, _instances, _claims, _data, _hub, _networks, _subnets)
    for look in looks:
        if problem := await look(platform, wanted):
            return problem
    return ""


def _deployments_of(desired: DesiredWorkload) -> dict[str, str]:
    """Name -> city."""
    return {
        names.deployment_name(desired.name, "", "default", city): city for city in desired.cities
    }


def _in_city(wanted: DesiredWorkloads, cell: str) -> dict[str, DesiredWorkload]:
    return {
        deployment: desired
        for desired in wanted.values()
        for deployment, city in _deployments_of(desired).items()
        if city.lower() == cell
    }


def _all(platform: RunningPlatform, wanted: DesiredWorkloads) -> dict[str, DesiredWorkload]:
    return {k: v for cell in platform.settings.cells for k, v in _in_city(wanted, cell).items()}


def _project(platform: RunningPlatform) -> str:
    return f"project/{platform.settings.project}"


async def _named(platform: RunningPlatform, resource: Resource, plane: str) -> dict[str, Object]:
    return {obj.name: obj for obj in await list_on_planes(platform, resource, plane)}


def _compare(what: str, found: Mapping[str, object], wanted: Mapping[str, object]) -> str:
    missing, surplus = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    return f"{what}: missing {missing}, surplus {surplus}" if missing or surplus else ""


async def _workloads(platform: RunningPlatform, wanted: DesiredWorkloads) -> str:
    found = await _named(platform, compute.WORKLOADS, _project(platform))
    if problem := _compare("workloads", found, wanted):
        return problem
    for name, desired in wanted.items():
        obj = found[name]
        status = obj.view(compute.Workload).status
        count = desired.minimum * len(desired.cities)
        counters = (
            status.replicas,
            status.current_replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.desired_replicas,
        )
        if obj.metadata.deleting or status.observed_generation != obj.metadata.generation:
            return f"workload {name}: observed generation {status.observed_generation}"
        if counters != (count,) * 5:
            return f"workload {name}: counters {counters}, not {count}"
        stage = conditions.find(status.conditions, compute.CONDITION_PROGRESSING)
        if desired.rollout and (stage is None or stage.reason != compute.REASON_COMPLETE):
            return f"workload {name}: its rollout is not complete: {stage}"
        if count and not conditions.is_true(status.conditions, "Available"):
            return f"workload {name} is not Available"
        if count == 0 and conditions.is_true(status.conditions, "Available"):
            return f"workload {name} is Available with nothing"
    return ""


async def _deployments(platform: RunningPlatform, wanted: DesiredWorkloads) -> str:
    everything = _all(platform, wanted)
    planes = [(_project(platform), everything), ("hub", everything)]
    planes += [(f"cell/{cell}", _in_city(wanted, cell)) for cell in platform.settings.cells]
    specs: dict[str, object] = {}
    statuses: dict[str, object] = {}
    for plane, here in planes:
        found = await _named(platform, compute.WORKLOAD_DEPLOYMENTS, plane)
        if problem := _compare(f"deployments on {plane}", found, here):
            return problem
        for name, desired in here.items():
            obj = found[name]
            view = obj.view(compute.WorkloadDeployment)
            sandbox = view.spec.template.spec.runtime.sandbox
            if obj.metadata.deleting:
                return f"{plane}: deployment {name} is being deleted"
            if sandbox is None or sandbox.containers[0].image != desired.image:
                return f"{plane}: deployment {name} has another image"
            if specs.setdefault(name, patch.values(obj.spec)) != patch.values(obj.spec):
                return f"{plane}: the spec of deployment {name} differs"
            status = view.status
            counters = (
                status.observed_generation,
                status.replicas,
                status.current_replicas,
                status.updated_replicas,
                status.ready_replicas,
                status.desired_replicas,
            )
            if counters[1:] != (desired.minimum,) * 5:
                return f"{plane}: deployment {name} counts {counters}"
            if statuses.setdefault(name, counters) != counters:
                return f"{plane}: the counters of {name} differ: {counters}"
            if plane == _project(platform):
                if status.observed_generation != obj.metadata.generation:
                    return f"{plane}: {name} was observed at {status.observed_generation}"
                for condition in ("CellReachable", "Scheduled"):
                    if not conditions.is_true(status.conditions, condition):
                        return f"{plane}: {name} is not {condition}"
    return ""


def _instances_of(deployments: Mapping[str, DesiredWorkload]) -> dict[str, DesiredWorkload]:
    return {
        instance_names.instance_name(deployment, ordinal): desired
        for deployment, desired in deployments.items()
        for ordinal in range(desired.minimum)
    }


async def _instances(platform: RunningPlatform, wanted: DesiredWorkloads) -> str:
    everything = _instances_of(_all(platform, wanted))
    planes = [(_project(platform), everything), ("hub", everything)]
    for cell in platform.settings.cells:
        planes.append((f"cell/{cell}", _instances_of(_in_city(wanted, cell))))
    hashes = {
        obj.name: revisions.template_hash(patch.values(obj.spec)["template"])
        for obj in await list_on_planes(
            platform, compute.WORKLOAD_DEPLOYMENTS, *cell_planes(platform)
        )
    }
    uids = {
        obj.name: obj.metadata.uid
        for obj in await list_on_planes(platform, compute.INSTANCES, *cell_planes(platform))
    }
    statuses: dict[str, object] = {}
    for plane, here in planes:
        found = await _named(platform, compute.INSTANCES, plane)
        if problem := _compare(f"instances on {plane}", found, here):
            return problem
        for name, desired in here.items():
            obj = found[name]
            view = obj.view(compute.Instance)
            sandbox = view.spec.runtime.sandbox
            if obj.metadata.deleting:
                return f"{plane}: {name} is being deleted"
            if sandbox is None or sandbox.containers[0].image != desired.image:
                return f"{plane}: {name} has another image"
            if view.template_hash != hashes.get(name.rpartition("-")[0]):
                return f"{plane}: {name} has another template"
            if not view.ready or not view.programmed or view.gates:
                return f"{plane}: {name} is not Ready: {view.status.conditions}"
            if statuses.setdefault(name, patch.values(obj.status)) != patch.values(obj.status):
                return f"{plane}: the status of {name} differs"
            if not obj.metadata.owner_references:
                return f"{plane}: {name} has no owner"
            copied = obj.metadata.annotations.get(compute.ANNOTATION_INSTANCE_UID)
            if not plane.startswith("cell/") and copied != uids.get(name):
                return f"{plane}: {name} is a copy of {copied}, not of {uids.get(name)}"
    return ""


async def _claims(platform: RunningPlatform, wanted: DesiredWorkloads) -> str:
    everything = _instances_of(_all(platform, wanted))
    claims = await _named(platform, quota.RESOURCE_CLAIMS, _project(platform))
    by_claim = {names.claim_name(name): desired for name, desired in everything.items()}
    if problem := _compare("claims", claims, by_claim):
        return problem
    for name, obj in claims.items():
        if not conditions.is_true(obj.view(quota.ResourceClaim).status.conditions, "Granted"):
            return f"claim {name} is not granted"
    for obj in await list_on_planes(platform, quota.ALLOWANCE_BUCKETS, _project(platform)):
        bucket = obj.view(quota.AllowanceBucket)
        size = {"instances": 1, "vcpus": 1000, "memory": 2048}
        amount = size.get(bucket.spec.resource_type.rpartition("/")[2], 0)
        counts = (bucket.status.allocated, bucket.status.claim_count)
        if counts != (len(claims) * amount, len(claims) if amount else 0):
            return f"bucket {bucket.spec.resource_type}: {bucket.status}"
    return ""


async def _data(platform: RunningPlatform, wanted: DesiredWorkloads) -> str:
    """Every city that names data has it as the project has it, and nothing is there beyond."""
    planes = [("hub", _all(platform, wanted))]
    planes += [(f"cell/{cell}", _in_city(wanted, cell)) for cell in platform.settings.cells]
    for resource in (core.CONFIG_MAPS, core.SECRETS):
        sources = await _named(platform, resource, _project(platform))
        for plane, here in planes:
            users: dict[str, list[str]] = {}
            for deployment, desired in sorted(here.items()):
                for kind, _, name in (entry.partition("/") for entry in desired.data):
                    if kind == resource.kind:
                        users.setdefault(name, []).append(f"default/{deployment}")
            found = {
                name: obj
                for name, obj in (await _named(platform, resource, plane)).items()
                # A cluster's own: Kubernetes puts its authority into every namespace.
                if not obj.namespace.startswith("kube-") and name != "kube-root-ca.crt"
            }
            if problem := _compare(f"{resource} on {plane}", found, users):
                return problem
            for name, obj in found.items():
                if patch.values(obj.data) != patch.values(sources[name].data):
                    return f"{plane}: {obj!r} differs from its source"
                counted = obj.metadata.annotations.get(compute.ANNOTATION_REFERENCED_BY, "")
                if plane == "hub" and json.loads(counted) != users[name]:
                    return f"{plane}: {obj!r} is used by {counted}, not by {users[name]}"
    for held in await list_on_planes(platform, compute.WORKLOAD_DEPLOYMENTS, _project(platform)):
        marked = compute.FINALIZER_REFERENCED_DATA in held.metadata.finalizers
        named = bool(_all(platform, wanted)[held.name].data)
        if marked != named:
            return f"{held!r} names data: {named}, has the finalizer: {marked}"
    return ""


async def _hub(platform: RunningPlatform, wanted: DesiredWorkloads) -> str:
    cities = {city for desired in wanted.values() for city in desired.cities}
    policies = await _named(platform, karmada.PROPAGATION_POLICIES, "hub")
    if problem := _compare("policies", policies, {names.policy_name(c): 1 for c in cities}):
        return problem
    deployments = _all(platform, wanted)
    bindings = await _named(platform, karmada.RESOURCE_BINDINGS, "hub")
    expected = {f"{name}-workloaddeployment": 1 for name in deployments}
    entries = [entry for desired in deployments.values() for entry in desired.data]
    expected |= {
        karmada.binding_name(name, kind): 1
        for kind, _, name in (entry.partition("/") for entry in entries)
    }
    if problem := _compare("bindings", bindings, expected):
        return problem
    works = [
        work
        for work in await list_on_planes(platform, karmada.WORKS, "hub")
        if not any(o.kind == "Namespace" for o in work.metadata.owner_references)
    ]
    carried = len(deployments) + sum(
        len({entry for desired in _in_city(wanted, cell).values() for entry in desired.data})
        for cell in platform.settings.cells
    )
    if len(works) != carried:
        return f"{len(works)} works for {carried} deployments and companions"
    for obj in (*policies.values(), *bindings.values(), *works):
        if obj.metadata.deleting:
            return f"{obj!r} is being deleted"
    return ""


async def _networks(platform: RunningPlatform, wanted: DesiredWorkloads) -> str:
    for cell in platform.settings.cells:
        plane, here = f"cell/{cell}", _in_city(wanted, cell)
        bindings = await _named(platform, networking.NETWORK_BINDINGS, plane)
        expected = {names.binding_name(name, 0): 1 for name in here}
        if problem := _compare(f"network bindings on {plane}", bindings, expected):
            return problem
        ready: list[Object] = list(bindings.values())
        for resource in (
            networking.NETWORKS,
            networking.NETWORK_CONTEXTS,
            networking.SUBNET_CLAIMS,
            networking.SUBNETS,
        ):
            found = await list_on_planes(platform, resource, plane)
            if len(found) != bool(here):
                return f"{plane}: {len(found)} {resource} for {sorted(here)}"
            if resource != networking.NETWORKS:
                ready += found
        for obj in ready:
            stated = obj.view(networking.SubnetClaim).status.conditions
            if obj.metadata.deleting or not conditions.is_true(stated, "Ready"):
                return f"{plane}: {obj!r} is not Ready"
    return ""


async def _subnets(platform: RunningPlatform, wanted: DesiredWorkloads) -> str:
    ranges: list[IPv4Network] = []
    for plane in cell_planes(platform):
        for obj in await list_on_planes(platform, networking.SUBNETS, plane):
            spec = obj.view(networking.Subnet).spec
            ranges.append(IPv4Network(f"{spec.start_address}/{spec.prefix_length}"))
        addresses = [
            interface.assignments.network_ip
            for obj in await list_on_planes(platform, compute.INSTANCES, plane)
            for interface in obj.view(compute.Instance).status.network_interfaces
        ]
        if None in addresses or len(set(addresses)) != len(addresses):
            return f"{plane}: addresses {addresses}"
    overlaps = [(a, b) for a in ranges for b in ranges if a is not b and a.overlaps(b)]
    return f"ranges overlap: {overlaps}" if overlaps else ""
