"""Member clusters. Karmada serves them from an aggregated server, the local hub from a CRD."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.karmada import constants
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "CLUSTERS",
    "CLUSTER_CONDITIONS",
    "APIEnablement",
    "APIResource",
    "Cluster",
    "ClusterSpec",
    "ClusterStatus",
    "LocalSecretReference",
    "Taint",
]

CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)

CLUSTER_CONDITIONS = (
    DeclaredCondition(
        constants.CONDITION_READY,
        true=(constants.REASON_CLUSTER_READY,),
        false=(constants.REASON_CLUSTER_NOT_READY, constants.REASON_CLUSTER_NOT_REACHABLE),
    ),
    DeclaredCondition(
        constants.CONDITION_COMPLETE_API_ENABLEMENTS,
        true=(constants.REASON_COMPLETE,),
        false=(constants.REASON_PARTIAL,),
    ),
)


class LocalSecretReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: Annotated[str, described("Namespace of the Secret.")] = ""
    name: Annotated[str, described("Name of the Secret.")] = ""


class Taint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    key: Annotated[str, described("Key of the taint.", required=True)] = ""
    value: Annotated[str, described("Value of the taint.")] = ""
    effect: Annotated[
        str,
        described(
            "What it does to things that do not tolerate it.",
            required=True,
            enum=["NoSchedule", "PreferNoSchedule", "NoExecute"],
        ),
    ] = ""


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: Annotated[str, described("Identity of the cluster.")] = ""
    sync_mode: Annotated[
        str,
        described("How objects get to the cluster.", required=True, enum=["Push", "Pull"]),
    ] = "Push"
    api_endpoint: Annotated[str, described("Address of its API server.")] = ""
    secret_ref: Annotated[LocalSecretReference | None, described("Credential for it.")] = None
    impersonator_secret_ref: Annotated[
        LocalSecretReference | None, described("Credential for acting as others.")
    ] = None
    insecure_skip_tls_verification: Annotated[
        bool, described("Whether its certificate is not checked.")
    ] = msgspec.field(default=False, name="insecureSkipTLSVerification")
    provider: Annotated[str, described("Whose infrastructure it is.")] = ""
    region: Annotated[str, described("Region it is in.")] = ""
    taints: Annotated[tuple[Taint, ...], described("Taints that repel objects.")] = ()


class APIResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Plural name.", required=True)] = ""
    kind: Annotated[str, described("Kind.", required=True)] = ""


class APIEnablement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    group_version: Annotated[str, described("Group and version.", required=True)] = ""
    resources: Annotated[tuple[APIResource, ...], described("Kinds served in it.")] = ()


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    kubernetes_version: Annotated[str, described("Version of its API server.")] = ""
    api_enablements: Annotated[tuple[APIEnablement, ...], described("Kinds it serves.")] = ()
    conditions: Annotated[
        Conditions,
        described("Ready and CompleteAPIEnablements.", list_type="map", list_keys=["type"]),
    ] = ()


class Cluster(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A member cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()
