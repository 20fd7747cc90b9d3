"""Finds the subnets of an Instance's interfaces, through the objects of its cell.

A deployment's NetworkBinding names the network context; the context has a SubnetClaim, and
that names the Subnet. Without bindings the cell has no networking.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.providers.errors import NotReady
from datum_compute.runtime.cluster import Cluster

CLAIMS_BY_CONTEXT = "provider/context"

RETRY_SECONDS = 0.25
"""How long to wait for a stale cache: all objects exist once the gates are removed."""


@dataclass(frozen=True, slots=True)
class SubnetKey:
    cluster: str
    namespace: str
    name: str


def context_key_of(claim: Object) -> Iterable[str]:
    context = claim.view(networking.SubnetClaim).spec.network_context.name
    return [f"{claim.namespace}/{context}"]


def is_bound(cell: Cluster, instance: compute.Instance, interface: int) -> bool:
    """Whether the deployment's binding is for the network of this interface. It is not when the
    deployment's networks have changed since the Instance was created."""
    binding = _binding(cell, instance, interface)
    if binding is None:
        return False
    wanted = instance.spec.network_interfaces[interface].network.name
    return binding.view(networking.NetworkBinding).spec.network.name == wanted


def _binding(cell: Cluster, instance: compute.Instance, interface: int) -> Object | None:
    metadata = instance.metadata
    deployment = metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
    return cell.cache(networking.NETWORK_BINDINGS).get(
        names.binding_name(deployment, interface), metadata.namespace
    )


def find_subnet(
    cell: Cluster, instance: compute.Instance, interface: int
) -> tuple[SubnetKey, IPv4Network] | None:
    """The subnet an interface is on; None where there is no networking.

    Raises ``NotReady`` when the network is there but not all of it is known yet.
    """
    binding = _binding(cell, instance, interface)
    if binding is None:
        return None
    if not is_bound(cell, instance, interface):
        raise NotReady(f"interface {interface} has no binding yet", delay=RETRY_SECONDS)
    reference = binding.view(networking.NetworkBinding).status.network_context_ref
    context = f"{reference.namespace}/{reference.name}" if reference else ""
    for claim in cell.cache(networking.SUBNET_CLAIMS).by_index(CLAIMS_BY_CONTEXT, context):
        subnet_reference = claim.view(networking.SubnetClaim).status.subnet_ref
        if subnet_reference is None:
            continue
        subnet = cell.cache(networking.SUBNETS).get(subnet_reference.name, claim.namespace)
        spec = subnet.view(networking.Subnet).spec if subnet else None
        if subnet is not None and spec is not None and spec.start_address:
            key = SubnetKey(cell.name, subnet.namespace, subnet.name)
            return key, IPv4Network((IPv4Address(spec.start_address), spec.prefix_length))
    raise NotReady(f"the subnet of interface {interface} is not known yet", delay=RETRY_SECONDS)
