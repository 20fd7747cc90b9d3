"""Every derived name, in one place; those of Instances are in :mod:`.instance_names`.

UIDs differ from plane to plane, so a name must follow from what it names and from nothing
else: every plane derives the same name.
"""

from __future__ import annotations

import re
from hashlib import sha256

from datum_compute.api import name_patterns

_LONGEST_DEPLOYMENT = 52
"""A DNS label has 63: a dash, an ordinal and what others append must still fit."""

_DNS_LABEL = re.compile(name_patterns.DNS_LABEL)
_FEDERATION_PREFIX = "ns-"
_CLUSTER_PREFIX = "cluster-"
_CLAIM_PREFIX = "instance-"


def deployment_name(workload_name: str, workload_uid: str, placement: str, city: str) -> str:
    """The WorkloadDeployment of a workload's placement in a city.

    Readable where that cannot be ambiguous: a dash in placement or city could belong to
    either neighbour, so those get the form with a digest of the whole identity.
    """
    city = city.lower()
    readable = f"{workload_name}-{placement}-{city}".lower()
    joinable = "-" not in placement and "-" not in city and _DNS_LABEL.fullmatch(readable)
    if joinable and len(readable) <= _LONGEST_DEPLOYMENT:
        return readable
    digest = sha256("\0".join((workload_uid, placement, city)).encode()).hexdigest()
    return f"{workload_name[:30].rstrip('-')}-{digest[:10]}"


def claim_name(instance: str) -> str:
    """The ResourceClaim of an Instance, and of its successors in the ordinal."""
    return _CLAIM_PREFIX + instance


def instance_of_claim(claim: str) -> str:
    """The Instance a claim is for; empty when it is not for an Instance."""
    return claim.removeprefix(_CLAIM_PREFIX) if claim.startswith(_CLAIM_PREFIX) else ""


def binding_name(deployment: str, interface: int) -> str:
    """The NetworkBinding of a deployment's network interface."""
    return f"{deployment}-net-{interface}"


def subnet_claim_name(network_context: str) -> str:
    """One fixed name per context: a stale cache cannot make a second claim."""
    return f"{network_context}-0"


def policy_name(city: str) -> str:
    """The PropagationPolicy of a city, in each namespace."""
    return f"city-{city.lower().replace(' ', '-')}"


def federation_namespace(namespace_uid: str) -> str:
    """Where a project's namespace lives on the hub and in the cells."""
    return _FEDERATION_PREFIX + namespace_uid


def is_federation_namespace(name: str) -> bool:
    """Whether the federator creates namespaces of this name."""
    return name.startswith(_FEDERATION_PREFIX)


def encode_cluster(name: str) -> str:
    """A cluster name as a label value, which may not hold a slash."""
    return _CLUSTER_PREFIX + name.replace("/", "_")


def decode_project(label: str) -> str:
    """The project in a label value, without the path before it; empty when there is none."""
    if not label.startswith(_CLUSTER_PREFIX):
        return ""
    return label.removeprefix(_CLUSTER_PREFIX).rpartition("_")[2]
