"""Which objects go to which clusters."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.selectors import LabelSelectorSpec
from datum_compute.api.structural_schema import described

__all__ = [
    "PROPAGATION_POLICIES",
    "ClusterAffinity",
    "PolicyPlacement",
    "PropagationPolicy",
    "PropagationPolicySpec",
    "ResourceSelector",
    "SpreadConstraint",
    "Toleration",
]

PROPAGATION_POLICIES = Resource(
    "policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy"
)


class ResourceSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: Annotated[str, described("Group and version of the objects.", required=True)] = ""
    kind: Annotated[str, described("Kind of the objects.", required=True)] = ""
    namespace: Annotated[str, described("Their namespace; the policy's when unset.")] = ""
    name: Annotated[str, described("Name of one object; any when unset.")] = ""
    label_selector: Annotated[
        LabelSelectorSpec | None, described("Labels of the objects; any when unset.")
    ] = None


class ClusterAffinity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    label_selector: Annotated[
        LabelSelectorSpec | None, described("Labels of the clusters; any when unset.")
    ] = None
    cluster_names: Annotated[tuple[str, ...], described("Names of clusters; any when empty.")] = ()
    exclude: Annotated[tuple[str, ...], described("Names of clusters left out.")] = ()


class SpreadConstraint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    spread_by_field: Annotated[
        str,
        described(
            "Field of the Cluster to group by.",
            enum=["cluster", "region", "zone", "provider"],
        ),
    ] = "cluster"
    spread_by_label: Annotated[str, described("Label of the Cluster to group by.")] = ""
    min_groups: Annotated[int, described("Fewest groups.")] = 0
    max_groups: Annotated[int, described("Most groups.")] = 0


class Toleration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    key: Annotated[str, described("Key of the taint; every one when unset.")] = ""
    operator: Annotated[str, described("How value is compared.")] = ""
    value: Annotated[str, described("Value of the taint.")] = ""
    effect: Annotated[str, described("Effect of the taint; every one when unset.")] = ""
    toleration_seconds: Annotated[
        int | None, described("For how long a taint is tolerated.", format="int64")
    ] = None


class PolicyPlacement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    cluster_affinity: Annotated[ClusterAffinity | None, described("Eligible clusters.")] = None
    cluster_tolerations: Annotated[
        tuple[Toleration, ...], described("Taints that are tolerated.")
    ] = ()
    spread_constraints: Annotated[
        tuple[SpreadConstraint, ...], described("Over how many clusters.")
    ] = ()


class PropagationPolicySpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_selectors: Annotated[
        tuple[ResourceSelector, ...], described("Which objects.", required=True, minItems=1)
    ] = ()
    placement: Annotated[PolicyPlacement, described("Which clusters.")] = PolicyPlacement()
    priority: Annotated[int, described("Which policy wins; higher does.", default=0)] = 0
    preemption: Annotated[
        str,
        described(
            "Whether it takes objects from other policies.",
            default="Never",
            enum=["Always", "Never"],
        ),
    ] = "Never"
    conflict_resolution: Annotated[
        str,
        described(
            "What happens to an object the member already has.",
            default="Abort",
            enum=["Abort", "Overwrite"],
        ),
    ] = "Abort"
    scheduler_name: Annotated[
        str, described("The scheduler that picks the clusters.", default="default-scheduler")
    ] = "default-scheduler"
    propagate_deps: Annotated[bool, described("Whether dependencies follow them.")] = False
    preserve_resources_on_deletion: Annotated[
        bool, described("Whether members keep their objects when the template is deleted.")
    ] = False


class PropagationPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which objects go to which clusters. It has no status."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PropagationPolicySpec = PropagationPolicySpec()
