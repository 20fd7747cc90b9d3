"""Denied claims that admission created are deleted; those a user created stay.

A user reads the answer and deletes the claim. A claim that admission created has no such
reader, so it is deleted once it is denied.
"""

from __future__ import annotations

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.watches.predicates import matches
from datum_compute.runtime.writes import patch

LABEL_AUTO_CREATED = "quota.miloapis.com/auto-created"
ANNOTATION_CREATED_BY = "quota.miloapis.com/created-by"
CLAIM_CREATION = "claim-creation-plugin"


def cleanup_controller(projects: Fleet) -> Controller:
    async def reconcile(project: Cluster, claim: Object) -> None:
        if is_denied_auto_created(claim):
            await patch.delete_if_present(project.client, quota.RESOURCE_CLAIMS, claim)

    return Controller(
        "quota-claim-cleanup",
        projects,
        for_object(projects, quota.RESOURCE_CLAIMS, reconcile),
        watches=[
            Watch.each(projects, quota.RESOURCE_CLAIMS, predicate=matches(is_denied_auto_created))
        ],
    )


def is_denied_auto_created(claim: Object) -> bool:
    """Whether a claim was created by admission, and denied."""
    if (
        claim.metadata.labels.get(LABEL_AUTO_CREATED) != "true"
        or claim.metadata.annotations.get(ANNOTATION_CREATED_BY) != CLAIM_CREATION
    ):
        return False
    granted = conditions.find(
        claim.view(quota.ResourceClaim).status.conditions, quota.CONDITION_GRANTED
    )
    return (
        granted is not None
        and granted.status == conditions.FALSE
        and granted.reason == quota.REASON_QUOTA_EXCEEDED
    )
