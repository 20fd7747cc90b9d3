"""Lesson 20: claims counted Instances only, whatever their size.

So: the size comes from the limits of all containers, else from what is requested, else from the
catalogue; an Instance of unknown size is only counted.
"""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from tests.support.controllers.cell_instances import (
    claim_of,
    controller,
    create_prerequisites,
    instance,
)
from tests.support.controllers.planes import controller_planes

TYPE = "datumcloud/d1-standard-2"


def _spec(kind: str, requests: dict[str, str], *limits: dict[str, str]) -> dict[str, Any]:
    return {
        "resources": {"instanceType": kind, **({"requests": requests} if requests else {})},
        "sandbox": {
            "containers": [
                {
                    "name": f"c{i}",
                    "image": "a:1",
                    **({"resources": {"limits": each}} if each else {}),
                }
                for i, each in enumerate(limits)
            ]
        },
    }


BOTH = {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("runtime", "vcpus", "memory"),
    [
        (_spec(TYPE, {"cpu": "4", "memory": "8Gi"}, BOTH, BOTH), 1000, 2048),
        (_spec(TYPE, {"cpu": "4", "memory": "8Gi"}, BOTH, {"cpu": "1"}), 4000, 8192),
        (_spec(TYPE, {"cpu": "4"}, {}), 1000, 2048),
        (_spec("datumcloud/unheard-of", {}, {}), None, None),
    ],
    ids=["limits", "requests", "catalogue", "unknown"],
)
async def test_lesson_20_a_claim_requests_the_size_of_its_instance(
    runtime: dict[str, Any], vcpus: int | None, memory: int | None
) -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        body = instance()
        body["spec"]["runtime"] = runtime
        async with w.running(controller(w)):
            await w.cell.create(compute.INSTANCES, body, w.hub_namespace)
            claim = (await claim_of(w)).view(quota.ResourceClaim)

        asked = {each.resource_type.rpartition("/")[2]: each.amount for each in claim.spec.requests}
        sized = {"vcpus": vcpus, "memory": memory}
        assert asked == {"instances": 1, **{k: v for k, v in sized.items() if v is not None}}
