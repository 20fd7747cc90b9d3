"""The local API server's admission: the code of the webhooks, asked in process."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.platform.apiserver.admission import Admission
from datum_compute.webhooks.projects import ClientOf, Projects
from datum_compute.webhooks.workload import WorkloadReviews

NAME = "workloads.compute.datumapis.com"
USER = "compute-webhooks"
"""Who reads on behalf of the reviews."""


def build_admission(client_of: ClientOf) -> Admission:
    reviews = WorkloadReviews(Projects(client_of))
    resources = frozenset({compute.WORKLOADS.group_resource})
    return Admission(NAME, resources, reviews.mutate, reviews.validate)
