"""Networks, their presence at a location, and requests to be on one there."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from datum_compute.api import conditions as conditions_
from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Condition, Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.networking.v1alpha import constants
from datum_compute.api.references import LocationReference
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "NETWORKS",
    "NETWORK_BINDINGS",
    "NETWORK_BINDING_CONDITIONS",
    "NETWORK_CONDITIONS",
    "NETWORK_CONTEXTS",
    "NETWORK_CONTEXT_CONDITIONS",
    "BoundNetwork",
    "ContextNetwork",
    "Network",
    "NetworkBinding",
    "NetworkBindingSpec",
    "NetworkBindingStatus",
    "NetworkContext",
    "NetworkContextReference",
    "NetworkContextSpec",
    "NetworkIPAM",
    "NetworkSpec",
    "ReadinessStatus",
    "default_network_status",
]

NETWORKS = Resource(constants.GROUP, "v1alpha", "networks", "Network")
NETWORK_CONTEXTS = Resource(constants.GROUP, "v1alpha", "networkcontexts", "NetworkContext")
NETWORK_BINDINGS = Resource(constants.GROUP, "v1alpha", "networkbindings", "NetworkBinding")

NETWORK_CONDITIONS = (
    DeclaredCondition(
        constants.CONDITION_READY,
        true=(constants.REASON_READY,),
        false=(
            constants.REASON_PROJECT_NAMESPACE_NOT_FOUND,
            constants.REASON_PROJECT_UNRESOLVED,
            constants.REASON_RANGE_OCCUPIED,
            constants.REASON_RANGE_UNSUPPORTED,
        ),
        unknown=(constants.REASON_PENDING,),
    ),
    DeclaredCondition(constants.CONDITION_IPAM_ALLOCATED),
)
NETWORK_CONTEXT_CONDITIONS = (
    DeclaredCondition(constants.CONDITION_READY, true=(constants.REASON_READY,)),
    DeclaredCondition(constants.CONDITION_PROGRAMMED),
    DeclaredCondition(constants.CONDITION_IPAM_ALLOCATED),
)
NETWORK_BINDING_CONDITIONS = (
    DeclaredCondition(
        constants.CONDITION_READY,
        true=(constants.REASON_NETWORK_CONTEXT_READY,),
        false=(
            constants.REASON_NETWORK_NOT_FOUND,
            constants.REASON_NETWORK_CONTEXT_NOT_READY,
            constants.REASON_NETWORK_FAILED_TO_CREATE,
            constants.REASON_PROJECT_UNRESOLVED,
            constants.REASON_LOCATION_NOT_AVAILABLE,
        ),
        unknown=(constants.REASON_PENDING,),
    ),
)


class ReadinessStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of a kind that reports nothing but conditions."""

    conditions: Annotated[
        Conditions, described("Ready, and what leads to it.", list_type="map", list_keys=["type"])
    ] = ()


class NetworkIPAM(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    mode: Annotated[
        str,
        described("How the ranges are chosen.", required=True, enum=["Auto", "Policy"]),
    ] = "Auto"
    ipv4_range: Annotated[str | None, described("IPv4 range of the network.")] = None
    ipv6_range: Annotated[str | None, described("IPv6 range of the network.")] = None


class NetworkSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    ipam: Annotated[NetworkIPAM, described("Address management.", required=True)] = NetworkIPAM()
    ip_families: Annotated[
        tuple[str, ...],
        described(
            "Address families of the network.",
            default=["IPv6"],
            list_type="set",
        ),
    ] = ()
    mtu: Annotated[int, described("Largest packet.", default=1460, minimum=1300, maximum=8856)] = (
        1460
    )


class Network(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A private network of a project."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkSpec = NetworkSpec()
    status: ReadinessStatus = ReadinessStatus()


class ContextNetwork(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the Network.", required=True)] = ""


class NetworkContextSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    network: Annotated[ContextNetwork, described("The Network.", required=True)] = ContextNetwork()
    location: Annotated[LocationReference, described("Where it is present.", required=True)] = (
        LocationReference()
    )


class NetworkContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Network's presence at one location."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkContextSpec = NetworkContextSpec()
    status: ReadinessStatus = ReadinessStatus()


class BoundNetwork(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the Network.", required=True)] = ""
    namespace: Annotated[str, described("Its namespace; the binding's own when unset.")] = ""


class NetworkBindingSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    network: Annotated[
        BoundNetwork,
        described(
            "The Network to be on.",
            required=True,
            rules=[{"rule": "self == oldSelf", "message": "network is immutable"}],
        ),
    ] = BoundNetwork()
    location: Annotated[
        LocationReference,
        described(
            "Where to be on it.",
            required=True,
            rules=[{"rule": "self == oldSelf", "message": "location is immutable"}],
        ),
    ] = LocationReference()


class NetworkContextReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: Annotated[str, described("Namespace of the context.", required=True)] = ""
    name: Annotated[str, described("Name of the context.", required=True)] = ""


class NetworkBindingStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    network_context_ref: Annotated[
        NetworkContextReference | None, described("The context that serves the binding.")
    ] = None
    conditions: Annotated[Conditions, described("Ready.", list_type="map", list_keys=["type"])] = ()


class NetworkBinding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request to be on a Network at a location."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkBindingSpec = NetworkBindingSpec()
    status: NetworkBindingStatus = NetworkBindingStatus()


def default_network_status() -> dict[str, Any]:
    """What the server puts into the status of a new Network."""
    return unknown_status(constants.CONDITION_READY)


def unknown_status(*types: str) -> dict[str, Any]:
    """A status with every condition Unknown since 1970: no controller has reconciled it."""
    waiting = [
        Condition(type=type, reason=constants.REASON_PENDING, message="Waiting for controller")
        for type in types
    ]
    return {"conditions": conditions_.to_wire(waiting)}
