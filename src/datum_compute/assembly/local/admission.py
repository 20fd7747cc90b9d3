"""The local API server's admission: the webhooks, called in process."""

from __future__ import annotations

from collections.abc import Callable

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.apiserver.request.admission import Admission
from datum_compute.client.protocol import Client
from datum_compute.standins.milo_quota import ClaimReviews
from datum_compute.webhooks.projects import ClientOf, OfferReader
from datum_compute.webhooks.workload import WorkloadReviews

NAME = "workloads.compute.datumapis.com"
CLAIMS_NAME = "resourceclaims.quota.miloapis.com"


def build_admission(client_of: ClientOf) -> Admission:
    reviews = WorkloadReviews(OfferReader(client_of))
    resources = frozenset({compute.WORKLOADS.group_resource})
    return Admission(NAME, resources, reviews.mutate, reviews.validate)


def build_claim_admission(root_client: Callable[[], Client]) -> Admission:
    """New claims are validated against the registrations of the root plane."""
    reviews = ClaimReviews(root_client)
    resources = frozenset({quota.RESOURCE_CLAIMS.group_resource})
    return Admission(
        CLAIMS_NAME, resources, reviews.mutate, reviews.validate, frozenset({"create"})
    )
