"""What a federation ends in, so that one on real engines can be compared with a local platform.

Both are looked at by clients, kind by kind. What is dropped here differs for a reason that
docs/develop/stand-ins.md names.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.scheme import Resource
from datum_compute.testing import loop
from tests.support.federation.crashes import SETTLED_AFTER, Scenario, plain
from tests.support.federation.stage import NAMESPACE, stage
from tests.support.federation.upstream_suites import FederationPlanes

Objects = dict[str, Any]

PROJECT_KINDS: Sequence[Resource] = (
    compute.WORKLOADS,
    compute.WORKLOAD_DEPLOYMENTS,
    compute.INSTANCES,
    quota.RESOURCE_CLAIMS,
)
HUB_KINDS: Sequence[Resource] = (
    compute.WORKLOAD_DEPLOYMENTS,
    compute.INSTANCES,
    karmada.PROPAGATION_POLICIES,
    karmada.RESOURCE_BINDINGS,
    core.CONFIG_MAPS,
    core.SECRETS,
)
CELL_KINDS: Sequence[Resource] = (
    compute.WORKLOAD_DEPLOYMENTS,
    compute.INSTANCES,
    networking.NETWORKS,
    networking.NETWORK_BINDINGS,
    networking.NETWORK_CONTEXTS,
    networking.SUBNET_CLAIMS,
    networking.SUBNETS,
    core.CONFIG_MAPS,
    core.SECRETS,
)
ROOT_AUTHORITY = "kube-root-ca.crt"
"""A ConfigMap that kube-controller-manager puts into every namespace."""
OF_KARMADA_ALONE = frozenset({"work.karmada.io/conflict-resolution"})
"""Annotations that only the real engine writes."""
AVAILABLE = re.compile(r"of \d+ available")
"""Which of two claims comes first is chance."""


async def objects_of(on: FederationPlanes) -> Objects:
    """Every object of the project by plane, kind and name, without what differs between runs."""
    found: Objects = {}
    names: dict[str, str] = {}
    places = [("project", on.project, NAMESPACE, PROJECT_KINDS)]
    places.append(("hub", on.hub, on.hub_namespace, HUB_KINDS))
    for city in on.settings.cities:
        places.append((f"cell/{city.lower()}", on.cell(city), on.hub_namespace, CELL_KINDS))
    for plane, client, namespace, kinds in places:
        for kind in kinds:
            for obj in (await client.list(kind, namespace)).items:
                if obj.name == ROOT_AUTHORITY:
                    continue
                wire = json.loads(obj.to_wire())
                if kind == karmada.RESOURCE_BINDINGS:
                    if obj.name.endswith("-workloaddeployment"):
                        found[f"{plane} {kind.plural} {obj.name}"] = _routing(wire)
                    continue
                for each in wire.get("status", {}).get("allocations") or ():
                    each["message"] = AVAILABLE.sub("of <left> available", each["message"])
                for key in OF_KARMADA_ALONE:
                    wire["metadata"].get("annotations", {}).pop(key, None)
                found[f"{plane} {kind.plural} {obj.name}"] = wire
                names[obj.metadata.uid] = f"<uid of {kind.plural} {obj.name}>"
                # Its end is a hash of the namespace, whose name is a uid.
                if work := obj.metadata.annotations.get(karmada.ANNOTATION_WORK_NAME):
                    names[work] = f"<Work of {kind.plural} {obj.name}>"
    names[on.hub_namespace.removeprefix("ns-")] = "<uid of the namespace>"
    return {key: plain(wire, names) for key, wire in found.items()}


def _routing(binding: Any) -> Any:
    """Where it goes and whether it arrived; the rest of a binding is Karmada's own."""
    conditions = binding.get("status", {}).get("conditions", [])
    stated = {each["type"]: each["status"] for each in conditions}
    return {"clusters": binding["spec"].get("clusters", []), "conditions": stated}


def objects_on_local_platform(scenario: Scenario) -> tuple[Objects, Objects]:
    """Before the operation, and after it."""

    async def run() -> tuple[Objects, Objects]:
        async with stage() as on:
            await scenario.before(on)
            await asyncio.sleep(SETTLED_AFTER)
            before = await objects_of(on)
            await scenario.act(on)
            await asyncio.sleep(SETTLED_AFTER)
            return before, await objects_of(on)

    return loop.run(run(), seed=1)
