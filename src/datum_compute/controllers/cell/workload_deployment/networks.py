"""The networks of a deployment, from its city to a subnet.

For each interface a NetworkBinding requests its Network at the Location of the city; network
services create a NetworkContext for it; in that a SubnetClaim requests addresses, and network
services create a Subnet. Each object is created when the one before it is ready, and each change
triggers a reconcile. The deployments of a city share contexts and claims, whose names are
deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

from datum_compute.api import conditions
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, owner_reference
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.references import LocationReference
from datum_compute.runtime.cache.quarantine import readable
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import is_live
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_if_absent
from datum_compute.runtime.writes.ownership import ensure_owner
from datum_compute.runtime.writes.patch import values
from datum_compute.runtime.writes.spec_copies import is_subset, restoring_patch

READY = networking.CONDITION_READY
SUBNET_CLASS = "private"
IP_FAMILY = "IPv4"


@dataclass(frozen=True, slots=True)
class NetworkState:
    ready: bool
    location: LocationReference | None
    """The Location of the city, if the cell has one."""
    located: bool
    """False when networks wait for a Location that does not exist."""


NO_NETWORKING = NetworkState(ready=True, location=None, located=True)
"""For a cell without network services: no Instance waits for networks."""


LOCATIONS_BY_CITY = "city"

_READ = (
    networking.LOCATIONS,
    networking.NETWORK_BINDINGS,
    networking.NETWORK_CONTEXTS,
    networking.SUBNET_CLAIMS,
    networking.SUBNETS,
)


def find_location(cell: Cluster, city: str) -> Object | None:
    """The Location of this city; the first by name where there are several."""
    key = city.upper()
    found = cell.cache(networking.LOCATIONS).by_index(LOCATIONS_BY_CITY, key)
    return found[0] if found else None


def city_of_location(location: Object) -> list[str]:
    """The city of a Location, as an index key."""
    city = location.view(networking.Location).city_code
    return [city.upper()] if city else []


def location_name(obj: Object) -> str:
    """The Location of a NetworkContext, SubnetClaim or Subnet."""
    location = values(obj.spec).get("location")
    return str(location.get("name") or "") if isinstance(location, dict) else ""


def content_read(cell: Cluster) -> tuple[int, ...]:
    """Changes when the content of a cache that :func:`ensure_networks` reads does."""
    return tuple(cell.cache(each).changes for each in _READ)


async def ensure_networks(cell: Cluster, deployment: Object) -> NetworkState:
    spec = deployment.view(compute.WorkloadDeployment).spec
    found = find_location(cell, spec.city_code)
    if found is None:
        return NetworkState(ready=False, location=None, located=False)
    location = LocationReference(name=found.name, namespace=found.namespace)
    interfaces = spec.template.spec.network_interfaces
    contexts = []
    for index, interface in enumerate(interfaces):
        binding = await _ensure_binding(cell, deployment, index, interface.network.name, location)
        contexts.append(_context_of(cell, binding) if binding is not None else None)
    await _delete_surplus_bindings(cell, deployment, len(interfaces))
    ready = True
    for context in _unique(contexts):
        ready = context is not None and await _has_subnet(cell, context, location) and ready
    return NetworkState(ready=ready, location=location, located=True)


async def _ensure_binding(
    cell: Cluster, deployment: Object, index: int, network: str, location: LocationReference
) -> Object | None:
    """The binding of an interface; None while an earlier one of its name is being deleted."""
    name = names.binding_name(deployment.name, index)
    binding = cell.cache(networking.NETWORK_BINDINGS).get(name, deployment.namespace)
    if binding is not None:
        matches, another = _matches(binding, network, location), _is_of_another(binding, deployment)
        if matches and not another and not binding.metadata.deleting:
            return await ensure_owner(
                cell.client, networking.NETWORK_BINDINGS, binding, deployment, controller=True
            )
        if matches or another:
            return binding
        await patch.delete_if_present(cell.client, networking.NETWORK_BINDINGS, binding)
    body = {
        "metadata": {
            "name": name,
            "namespace": deployment.namespace,
            "ownerReferences": [owner_reference(deployment, controller=True)],
        },
        "spec": {
            # A Workload uses only networks of its own namespace, which is this one in the cell.
            "network": {"name": network, "namespace": deployment.namespace},
            "location": _to_wire(location),
        },
    }
    bindings = networking.NETWORK_BINDINGS
    created = await create_if_absent(cell.client, bindings, body, deployment.namespace)
    if created is not None:
        return created
    found = await cell.client.get(bindings, name, deployment.namespace)
    return found if _matches(found, network, location) else None


async def _delete_surplus_bindings(cell: Cluster, deployment: Object, index: int) -> None:
    """Delete the bindings from this interface on, which the template no longer has."""
    bindings = cell.cache(networking.NETWORK_BINDINGS)
    while binding := bindings.get(names.binding_name(deployment.name, index), deployment.namespace):
        if not _is_of_another(binding, deployment) and not binding.metadata.deleting:
            await patch.delete_if_present(cell.client, networking.NETWORK_BINDINGS, binding)
        index += 1


def _matches(binding: Object, network: str, location: LocationReference) -> bool:
    spec = binding.view(networking.NetworkBinding).spec
    return (spec.network.name, spec.location.name) == (network, location.name)


def _is_of_another(binding: Object, deployment: Object) -> bool:
    """Whether it is of a predecessor, with which it is deleted; not one that lost its owner."""
    owners = {each.uid for each in binding.metadata.owner_references}
    return bool(owners) and deployment.metadata.uid not in owners


def _context_of(cell: Cluster, binding: Object) -> Object | None:
    """The ready context a ready binding points to."""
    status = binding.view(networking.NetworkBinding).status
    reference = status.network_context_ref
    if reference is None or not conditions.is_true(status.conditions, READY):
        return None
    namespace = reference.namespace or binding.namespace
    context = cell.cache(networking.NETWORK_CONTEXTS).get(reference.name, namespace)
    if context is None:
        return None
    view = context.view(networking.NetworkContext)
    return context if conditions.is_true(view.status.conditions, READY) else None


def _unique(contexts: list[Object | None]) -> list[Object | None]:
    """Each context once: two interfaces may be on one network."""
    seen: dict[str, Object | None] = {}
    for context in contexts:
        seen[context.metadata.uid if context else ""] = context
    return list(seen.values())


async def _has_subnet(cell: Cluster, context: Object, location: LocationReference) -> bool:
    claim = await _ensure_claim(cell, context, location)
    if claim is None:
        return False
    status = claim.view(networking.SubnetClaim).status
    if not conditions.is_true(status.conditions, READY) or status.subnet_ref is None:
        return False
    subnet = cell.cache(networking.SUBNETS).get(status.subnet_ref.name, claim.namespace)
    if subnet is None:
        return False
    return conditions.is_true(subnet.view(networking.Subnet).status.conditions, READY)


async def _ensure_claim(
    cell: Cluster, context: Object, location: LocationReference
) -> Object | None:
    """A claim of any name that asks for the subnet, or ours; None while there is none."""
    name = names.subnet_claim_name(context.name)
    spec = {
        "subnetClass": SUBNET_CLASS,
        "networkContext": {"name": context.name},
        "location": _to_wire(location),
        "ipFamily": IP_FAMILY,
    }
    resource, cache = networking.SUBNET_CLAIMS, cell.cache(networking.SUBNET_CLAIMS)
    claim = cache.get(name, context.namespace)
    if claim is None or not is_subset(spec, values(claim.spec)):
        found = readable(cache.list(context.namespace), networking.SubnetClaim)
        others = [each for each in found if is_subset(spec, values(each.spec))]
        claim = others[0] if others else claim
    if claim is None:
        # A claim under a deleted context would be garbage-collected, and created again for as long
        # as the cache is stale.
        if await is_live(cell.client, networking.NETWORK_CONTEXTS, context):
            references = [owner_reference(context, controller=False)]
            metadata = {"name": name, "namespace": context.namespace, "ownerReferences": references}
            # All deployments of a city create the same claim.
            body = {"metadata": metadata, "spec": spec}
            await create_if_absent(cell.client, resource, body, context.namespace)
        return None
    if claim.name != name or claim.metadata.deleting:
        return claim
    claim = await ensure_owner(cell.client, resource, claim, context, controller=False)
    change = restoring_patch(values(claim.spec), spec)
    return await patch.ensure_metadata(cell.client, resource, claim, spec=change)


def _to_wire(location: LocationReference) -> dict[str, str]:
    return {"name": location.name, "namespace": location.namespace}
