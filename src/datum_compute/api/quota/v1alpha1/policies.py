"""Policies that give every new consumer its first grant.

A policy names a kind to watch and a grant to make for each object of it. In the grant's
texts ``{{ }}`` holds a CEL expression over ``trigger``, that object; amounts are fixed.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.name_patterns import DNS_SUBDOMAIN
from datum_compute.api.quota.v1alpha1.allowances import (
    GROUP,
    REASON_VALIDATION_FAILED,
    ResourceGrantSpec,
)
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "CONDITION_PARENT_CONTEXT_READY",
    "CONDITION_READY",
    "GRANT_CREATION_POLICIES",
    "GRANT_CREATION_POLICY_CONDITIONS",
    "REASON_PARENT_CONTEXT_FAILED",
    "REASON_PARENT_CONTEXT_READY",
    "REASON_POLICY_DISABLED",
    "REASON_POLICY_READY",
    "GrantCreationPolicy",
    "GrantCreationPolicySpec",
    "GrantCreationPolicyStatus",
    "GrantTarget",
    "GrantTemplate",
    "GrantTemplateMetadata",
    "GrantTrigger",
    "ParentContext",
    "TriggerConstraint",
    "TriggerResource",
]

GRANT_CREATION_POLICIES = Resource(
    GROUP, "v1alpha1", "grantcreationpolicies", "GrantCreationPolicy", namespaced=False
)

CONDITION_READY = "Ready"
"""The policy is well formed and makes grants."""
CONDITION_PARENT_CONTEXT_READY = "ParentContextReady"
"""The control plane that grants go to can be found."""
REASON_POLICY_READY = "PolicyReady"
"""Grants are made."""
REASON_POLICY_DISABLED = "PolicyDisabled"
"""The policy is disabled."""
REASON_PARENT_CONTEXT_READY = "ParentContextReady"
"""The name of that control plane can be resolved."""
REASON_PARENT_CONTEXT_FAILED = "ParentContextFailed"
"""The name of that control plane cannot be resolved."""

GRANT_CREATION_POLICY_CONDITIONS = (
    DeclaredCondition(
        CONDITION_READY,
        true=(REASON_POLICY_READY,),
        false=(REASON_VALIDATION_FAILED, REASON_POLICY_DISABLED),
    ),
    DeclaredCondition(
        CONDITION_PARENT_CONTEXT_READY,
        true=(REASON_PARENT_CONTEXT_READY,),
        false=(REASON_PARENT_CONTEXT_FAILED,),
    ),
)

_KIND = {"minLength": 1, "maxLength": 63, "pattern": r"^[A-Z][a-zA-Z0-9]*$"}


class TriggerResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: Annotated[
        str,
        described(
            "Group and version of the kind.",
            required=True,
            pattern=rf"^({DNS_SUBDOMAIN}/)?v[0-9]+((alpha|beta)[0-9]*)?$",
        ),
    ] = ""
    kind: Annotated[str, described("The kind.", required=True, **_KIND)] = ""


class TriggerConstraint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    expression: Annotated[
        str,
        described(
            "CEL over trigger that must be true.", required=True, minLength=1, maxLength=1024
        ),
    ] = ""
    message: Annotated[str, described("What it requires, for people.", maxLength=256)] = ""


class GrantTrigger(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource: Annotated[
        TriggerResource, described("Kind whose objects get a grant.", required=True)
    ] = TriggerResource()
    constraints: Annotated[
        tuple[TriggerConstraint, ...],
        described(
            "What else must hold of the object: every one of these.",
            maxItems=10,
            list_type="atomic",
        ),
    ] = ()


class ParentContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_group: Annotated[
        str,
        described(
            "API group of the object that has the control plane.",
            required=True,
            maxLength=253,
            pattern=rf"^{DNS_SUBDOMAIN}$",
        ),
    ] = ""
    kind: Annotated[str, described("Kind of that object.", required=True, **_KIND)] = ""
    name_expression: Annotated[
        str,
        described(
            "CEL over trigger that gives its name.", required=True, minLength=1, maxLength=512
        ),
    ] = ""


class GrantTemplateMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the grant.")] = ""
    generate_name: Annotated[str, described("Start of its name, when name is unset.")] = ""
    namespace: Annotated[str, described("Namespace of the grant.")] = ""
    labels: Annotated[dict[str, str], described("Labels of the grant, taken literally.")] = {}
    annotations: Annotated[dict[str, str], described("Annotations of the grant.")] = {}


class GrantTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: Annotated[
        GrantTemplateMetadata, described("Metadata of the grant.", required=True)
    ] = GrantTemplateMetadata()
    spec: Annotated[
        ResourceGrantSpec, described("The consumer that receives it, and how much.", required=True)
    ] = ResourceGrantSpec()


class GrantTarget(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    parent_context: Annotated[
        ParentContext | None,
        described("Control plane of the grant; the policy's own when unset."),
    ] = None
    resource_grant_template: Annotated[
        GrantTemplate, described("The grant to make.", required=True)
    ] = GrantTemplate()


class GrantCreationPolicySpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    trigger: Annotated[GrantTrigger, described("What triggers a grant.", required=True)] = (
        GrantTrigger()
    )
    target: Annotated[GrantTarget, described("The grant and its plane.", required=True)] = (
        GrantTarget()
    )
    disabled: Annotated[bool, described("Whether the policy is disabled.", default=False)] = False


class GrantCreationPolicyStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0
    conditions: Annotated[
        Conditions,
        described("Ready and ParentContextReady.", list_type="map", list_keys=["type"]),
    ] = ()


class GrantCreationPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A grant for every new object of a kind."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GrantCreationPolicySpec = GrantCreationPolicySpec()
    status: GrantCreationPolicyStatus = GrantCreationPolicyStatus()
