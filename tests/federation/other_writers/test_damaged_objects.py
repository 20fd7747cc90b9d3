"""Objects that cannot be read, on every plane.

They are written past the server into its store, as an older release, another writer with another
schema or a restored backup would leave them.
"""

from __future__ import annotations

import msgspec

from datum_compute.api.compute import v1alpha as compute
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import stage
from tests.support.simulation.commit_checker import NoRules
from tests.support.simulation.damage import damage, stored_objects
from tests.support.simulation.platform import apply
from tests.support.simulation.random_operations import DesiredWorkload
from tests.support.simulation.settled import unsettled

WEB = DesiredWorkload("web", "acme/web:1", 1, ("DFW",))
BIGGER = DesiredWorkload("web", "acme/web:2", 2, ("DFW",))


async def test_a_status_with_a_fraction_stops_no_workload_and_is_put_back() -> None:
    async with stage(cities=("DFW",), commit_checker=NoRules(), permissive=True) as on:
        await apply(on, WEB.to_create())
        await eventually("deployed", lambda: unsettled(on, {"web": WEB}))
        store = on.platform.store
        for plane in ("project/demo", "hub", "cell/dfw"):
            for resource in (compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
                for stored in stored_objects(store, plane, resource):
                    damage(
                        store,
                        plane,
                        resource,
                        stored,
                        lambda obj: obj["status"].update(conditions=7.5, replicas=7.5),
                    )
        await store.wait_durable()
        await apply(on, BIGGER.to_create())

        await eventually("changed", lambda: unsettled(on, {"web": BIGGER}), within=120)


async def test_a_stray_instance_with_a_label_that_no_server_accepts_holds_up_no_roll() -> None:
    async with stage(cities=("DFW",), commit_checker=NoRules(), permissive=True) as on:
        await apply(on, WEB.to_create())
        await eventually("deployed", lambda: unsettled(on, {"web": WEB}))
        store = on.platform.store
        [stored] = stored_objects(store, "cell/dfw", compute.INSTANCES)
        stray = msgspec.json.decode(stored.raw)
        stray["metadata"] |= {"name": "web-default-dfw-stray", "uid": on.env.new_uid()}
        stray["metadata"]["labels"][compute.LABEL_INSTANCE_INDEX] = "not a value!"
        store.planes["cell/dfw"].put(compute.INSTANCES.group_resource, stray, None)
        await store.wait_durable()
        await apply(on, BIGGER.to_create())

        await eventually("changed", lambda: unsettled(on, {"web": BIGGER}), within=120)
