"""How many stored writes an Instance costs from its creation until it is Available.

Everything counts: every revision on every plane, of every writer. A plane numbers its
revisions one by one, so the count is the distance between two of them.
"""

from __future__ import annotations

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.assembly.local.platform import LocalPlatform
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.controllers.planes import NAMESPACE, workload
from tests.support.objects import until

LIMIT = 20.0
"""The budget allows 28 and aims at 18. Two are Events, one on each plane where the Instance
is seen to serve; two more leave room for a counter that falls into another tenth of a second."""

PLANES = ("root", "hub", "project/demo", "cell/dfw")


async def revisions(platform: LocalPlatform) -> int:
    clients = [platform.client(plane, "local-admin") for plane in PLANES]
    return sum([int((await each.list(core.NAMESPACES)).resource_version) for each in clients])


async def test_an_instance_stays_within_the_budget_of_writes() -> None:
    platform = LocalPlatform(SimulatedEnvironment(), ":memory:", LocalSettings(cities=("DFW",)))
    async with platform.run(admin_token="admin"):
        client = platform.client("project/demo", "local-admin")

        def ready(count: int, obj: Object) -> bool:
            return bool(values(obj.status).get("readyReplicas") == count)

        await client.create(compute.WORKLOADS, workload("DFW"))
        await until(client, compute.WORKLOADS, "web", NAMESPACE, lambda obj: ready(1, obj))
        before = await revisions(platform)
        spec = workload("DFW", replicas=21)["spec"]
        await client.patch(compute.WORKLOADS, "web", merge({"spec": spec}), NAMESPACE)
        await until(client, compute.WORKLOADS, "web", NAMESPACE, lambda obj: ready(21, obj))

        spent = (await revisions(platform) - before) / 20
        assert 0 < spent <= LIMIT
