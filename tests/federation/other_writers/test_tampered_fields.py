"""Whatever another writer changes, removes or deletes of what our processes wrote is put back."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec.structs import replace

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse
from datum_compute.testing.expectations import eventually
from tests.support.client.intercepted_transport import Rule, has_method
from tests.support.federation.stage import NAMESPACE
from tests.support.federation.tampered_stage import OURS, tampered_stage, tamperer
from tests.support.simulation.platform import leftovers
from tests.support.simulation.tampered_fields import Outcome

LEAST = {"cell": 80, "hub": 100, "project": 150}
"""Tamperings that were put back, by plane type: fewer would mean that fields are not found."""


async def tampered(*bugs: Rule, kind: str = "") -> Outcome:
    """Tamper with all that our processes wrote, of this kind if given, and destroy it then."""
    async with tampered_stage(*bugs) as (on, written):
        meddler = tamperer(on)
        for place, owned in written.owned_by(OURS).items():
            if kind in str(place):
                deletes = written.creators[place].startswith(OURS)
                await meddler.tamper(place, owned, deletes=deletes)
        if not bugs:
            await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
            await eventually("gone", partial(leftovers, on))
    return meddler.outcome


async def test_every_field_that_another_writer_changes_of_ours_is_put_back() -> None:
    outcome = await tampered()

    assert outcome.faults == []
    counts = {plane: outcome.restored[plane] for plane in LEAST}
    assert all(counts[plane] >= least for plane, least in LEAST.items()), counts
    assert outcome.left["the claim says that it is another's"] == 1


async def test_a_writer_that_does_not_put_back_one_of_its_labels_is_found() -> None:
    async def forget(request: HttpRequest, forward: Handler) -> HttpResponse:
        body = msgspec.json.decode(request.body)
        labels = body.get("metadata", {}).get("labels") or {}
        labels.pop(compute.LABEL_WORKLOAD_UID, None)
        return await forward(replace(request, body=msgspec.json.encode(body)))

    outcome = await tampered(Rule(forget, has_method("PATCH")), kind="project/demo workloaddeploy")

    assert any(compute.LABEL_WORKLOAD_UID in fault for fault in outcome.faults)
