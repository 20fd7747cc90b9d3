"""The same controllers as processes of their own, over HTTPS: management, and each cell.

The test runs the rest: an API server with all planes, the stand-ins and the
providers. What is deployed must come up and go exactly as on the platform of one process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.testing.expectations import eventually
from tests.support.processes.managers import federation
from tests.support.simulation.platform import (
    NAMESPACE,
    apply,
    leftovers,
    missing_for_image,
    workload,
)

pytestmark = [pytest.mark.long, pytest.mark.realtime]

WITHIN = 60.0


async def test_managers_deploy_update_and_destroy_over_https(tmp_path: Path) -> None:
    async with federation(tmp_path) as place:
        await apply(place, workload("acme/web:1", 2))
        await eventually(
            "deployed", lambda: missing_for_image(place, "acme/web:1", 4), within=WITHIN
        )
        await apply(place, workload("acme/web:2", 1))
        await eventually(
            "updated", lambda: missing_for_image(place, "acme/web:2", 2), within=WITHIN
        )
        await place.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("destroyed", lambda: leftovers(place), within=WITHIN)
