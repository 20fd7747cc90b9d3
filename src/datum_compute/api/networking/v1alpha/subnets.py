"""Ranges of addresses of a network at a location."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.networking.v1alpha.networks import GROUP
from datum_compute.api.references import LocationReference
from datum_compute.api.scheme import Resource
from datum_compute.api.structural import described

__all__ = [
    "CONDITION_ALLOCATED",
    "CONDITION_PROGRAMMED",
    "REASON_NOT_PROGRAMMED",
    "REASON_PREFIX_ALLOCATED",
    "REASON_PROGRAMMED",
    "REASON_PROGRAMMING_IN_PROGRESS",
    "REASON_SUBNET_NOT_READY",
    "REASON_SUBNET_READY",
    "SUBNETS",
    "SUBNET_CLAIMS",
    "Subnet",
    "SubnetClaim",
    "SubnetClaimSpec",
    "SubnetClaimStatus",
    "SubnetContext",
    "SubnetReference",
    "SubnetSpec",
    "SubnetStatus",
]

SUBNET_CLAIMS = Resource(GROUP, "v1alpha", "subnetclaims", "SubnetClaim")
SUBNETS = Resource(GROUP, "v1alpha", "subnets", "Subnet")

CONDITION_ALLOCATED = "Allocated"
CONDITION_PROGRAMMED = "Programmed"

REASON_PREFIX_ALLOCATED = "PrefixAllocated"
REASON_NOT_PROGRAMMED = "NotProgrammed"
REASON_PROGRAMMING_IN_PROGRESS = "ProgrammingInProgress"
REASON_PROGRAMMED = "Programmed"
REASON_SUBNET_NOT_READY = "SubnetNotReady"
REASON_SUBNET_READY = "SubnetReady"


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
    """The wish for a range of addresses."""

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
