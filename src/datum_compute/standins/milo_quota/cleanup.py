"""Denied claims that a policy made go by themselves; those somebody made by hand stay.

Whoever made a claim by hand reads the answer and deletes it. A claim that admission made for
somebody else has no such reader, so it is removed once it is denied.
"""

from __future__ import annotations

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch

LABEL_AUTO_CREATED = "quota.miloapis.com/auto-created"
ANNOTATION_CREATED_BY = "quota.miloapis.com/created-by"
CLAIM_CREATION = "claim-creation-plugin"


def cleanup_controller(projects: Fleet) -> Controller:
    async def reconcile(request: Request) -> Result:
        project = projects.get(request.cluster)
        if project is None:
            return DONE
        claim = project.cache(quota.RESOURCE_CLAIMS).get(request.name, request.namespace)
        if claim is not None and not claim.metadata.deleting and is_leftover(claim):
            await patch.delete_if_present(project.client, quota.RESOURCE_CLAIMS, claim)
        return DONE

    def concerns(old: Object | None, new: Object | None) -> bool:
        return new is not None and is_leftover(new)

    watches = [Watch(projects, quota.RESOURCE_CLAIMS, itself, predicate=concerns)]
    return Controller("quota-claim-cleanup", projects, reconcile, watches=watches)


def is_leftover(claim: Object) -> bool:
    """Whether a claim was made by admission, and denied."""
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
