"""Ranges of addresses of a network at a location."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.networking.v1alpha import constants
from datum_compute.api.networking.v1alpha.networks import unknown_status
from datum_compute.api.references import LocationReference
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "SUBNETS",
    "SUBNET_CLAIMS",
    "SUBNET_CLAIM_CONDITIONS",
    "SUBNET_CONDITIONS",
    "Subnet",
    "SubnetClaim",
    "SubnetClaimSpec",
    "SubnetClaimStatus",
    "SubnetContext",
    "SubnetReference",
    "SubnetSpec",
    "SubnetStatus",
    "default_subnet_status",
]

SUBNET_CLAIMS = Resource(constants.GROUP, "v1alpha", "subnetclaims", "SubnetClaim")
SUBNETS = Resource(constants.GROUP, "v1alpha", "subnets", "Subnet")

SUBNET_CLAIM_CONDITIONS = (
    DeclaredCondition(
        constants.CONDITION_ALLOCATED,
        true=(constants.REASON_PREFIX_ALLOCATED,),
        false=(
            constants.REASON_RANGE_OCCUPIED,
            constants.REASON_RANGE_UNSUPPORTED,
            constants.REASON_POOL_EXHAUSTED,
        ),
        unknown=(constants.REASON_PENDING,),
    ),
    DeclaredCondition(
        constants.CONDITION_PROGRAMMED,
        true=(constants.REASON_PROGRAMMED,),
        false=(constants.REASON_NOT_PROGRAMMED, constants.REASON_PROGRAMMING_IN_PROGRESS),
        unknown=(constants.REASON_PENDING,),
    ),
    DeclaredCondition(
        constants.CONDITION_READY,
        true=(constants.REASON_SUBNET_READY,),
        false=(constants.REASON_SUBNET_NOT_READY,),
        unknown=(constants.REASON_PENDING,),
    ),
)
SUBNET_CONDITIONS = (
    DeclaredCondition(
        constants.CONDITION_ALLOCATED,
        true=(constants.REASON_PREFIX_ALLOCATED,),
        unknown=(constants.REASON_PENDING,),
    ),
    DeclaredCondition(
        constants.CONDITION_PROGRAMMED,
        true=(constants.REASON_PROGRAMMED,),
        false=(constants.REASON_NOT_PROGRAMMED, constants.REASON_PROGRAMMING_IN_PROGRESS),
        unknown=(constants.REASON_PENDING,),
    ),
    DeclaredCondition(
        constants.CONDITION_READY,
        true=(constants.REASON_READY,),
        unknown=(constants.REASON_PENDING,),
    ),
)


class SubnetContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the NetworkContext.", required=True)] = ""


class SubnetClaimSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    subnet_class: Annotated[str, described("Class of subnet, as in private.", required=True)] = ""
    network_context: Annotated[
        SubnetContext, described("Presence of the network it is for.", required=True)
    ] = SubnetContext()
    location: Annotated[LocationReference, described("Where it is.", required=True)] = (
        LocationReference()
    )
    ip_family: Annotated[
        str, described("Address family.", required=True, enum=["IPv4", "IPv6"])
    ] = ""
    start_address: Annotated[str | None, described("First address; chosen when unset.")] = None
    prefix_length: Annotated[int | None, described("Prefix length; chosen when unset.")] = None


class SubnetReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the Subnet.", required=True)] = ""


class SubnetClaimStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    subnet_ref: Annotated[SubnetReference | None, described("The Subnet that fulfils it.")] = None
    start_address: Annotated[str | None, described("First address.")] = None
    prefix_length: Annotated[int | None, described("Prefix length.")] = None
    conditions: Annotated[
        Conditions,
        described("Allocated, Programmed, Ready.", list_type="map", list_keys=["type"]),
    ] = ()


class SubnetClaim(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request for a range of addresses."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SubnetClaimSpec = SubnetClaimSpec()
    status: SubnetClaimStatus = SubnetClaimStatus()


class SubnetSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    subnet_class: Annotated[str, described("Class of subnet, as in private.", required=True)] = ""
    network_context: Annotated[
        SubnetContext, described("Presence of the network it is for.", required=True)
    ] = SubnetContext()
    location: Annotated[LocationReference, described("Where it is.", required=True)] = (
        LocationReference()
    )
    ip_family: Annotated[
        str, described("Address family.", required=True, enum=["IPv4", "IPv6"])
    ] = ""
    start_address: Annotated[str, described("First address.", required=True)] = ""
    prefix_length: Annotated[int, described("Prefix length.", required=True)] = 0


class SubnetStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    start_address: Annotated[str | None, described("First address.")] = None
    prefix_length: Annotated[int | None, described("Prefix length.")] = None
    conditions: Annotated[
        Conditions,
        described("Allocated, Programmed, Ready.", list_type="map", list_keys=["type"]),
    ] = ()


class Subnet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A range of addresses of a network at a location."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SubnetSpec = SubnetSpec()
    status: SubnetStatus = SubnetStatus()


def default_subnet_status() -> dict[str, Any]:
    """What the server puts into the status of a new SubnetClaim or Subnet."""
    return unknown_status(
        constants.CONDITION_ALLOCATED, constants.CONDITION_PROGRAMMED, constants.CONDITION_READY
    )
