"""A cell's deployment asks for the networks of its template before an Instance starts in them.

The network service is played by hand.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.runtime.writes.patch import values
from tests.support.controllers.cell_deployments import (
    NAME,
    ONE,
    ZERO,
    change,
    controller,
    given,
    given_location,
    status,
)
from tests.support.controllers.planes import (
    ControllerPlanes,
    controller_planes,
    remove_finalizers,
    report_serving,
    set_condition,
    settle,
)
from tests.support.objects import condition, until, until_names


async def bind(w: ControllerPlanes, network: str = "default") -> None:
    """The network service answers the binding with a ready context."""
    reference = {"name": "dfw", "namespace": ""}
    context = {
        "metadata": {"name": f"{network}-dfw"},
        "spec": {"network": {"name": network}, "location": reference},
    }
    made = await w.cell.create(networking.NETWORK_CONTEXTS, context, w.hub_namespace)
    await set_condition(w, w.cell, networking.NETWORK_CONTEXTS, made, "Ready")
    name = f"{NAME}-net-0"
    binding = await until(
        w.cell,
        networking.NETWORK_BINDINGS,
        name,
        w.hub_namespace,
        lambda obj: obj.view(networking.NetworkBinding).spec.network.name == network,
    )
    await set_condition(
        w,
        w.cell,
        networking.NETWORK_BINDINGS,
        binding,
        "Ready",
        networkContextRef={"namespace": w.hub_namespace, "name": f"{network}-dfw"},
    )


async def give_subnet(w: ControllerPlanes, network: str = "default") -> None:
    """The network service fulfils the claim with a ready subnet."""
    claim = await until(
        w.cell, networking.SUBNET_CLAIMS, f"{network}-dfw-0", w.hub_namespace, lambda obj: True
    )
    spec = {**values(claim.spec), "startAddress": "10.128.0.0", "prefixLength": 20}
    body = {"metadata": {"name": claim.name}, "spec": spec}
    subnet = await w.cell.create(networking.SUBNETS, body, w.hub_namespace)
    await set_condition(w, w.cell, networking.SUBNETS, subnet, "Ready")
    await set_condition(
        w, w.cell, networking.SUBNET_CLAIMS, claim, "Ready", subnetRef={"name": claim.name}
    )


async def test_networks_are_requested_and_their_gate_is_removed_when_they_are_ready() -> None:
    async with controller_planes() as w:
        await given_location(w)
        made = await given(w, 2)
        async with w.running(controller(w, with_networks=True)):
            first = await until(w.cell, compute.INSTANCES, ZERO, w.hub_namespace, lambda o: True)
            view = first.view(compute.Instance)
            assert view.gates == (compute.GATE_NETWORK,)
            assert view.spec.location is not None
            assert view.spec.location.name == "dfw"
            found = await status(w, (1, 0, 0, 2))
            assert condition(found, "Available") == ("False", "ProvisioningNetwork")
            assert values(found.status)["location"]["name"] == "dfw"

            await bind(w)
            await give_subnet(w)
            await until(
                w.cell,
                compute.INSTANCES,
                ZERO,
                w.hub_namespace,
                lambda obj: obj.view(compute.Instance).gates == (),
            )
            await report_serving(w, ZERO)
            second = await until(w.cell, compute.INSTANCES, ONE, w.hub_namespace, lambda o: True)
            assert second.view(compute.Instance).gates == ()

        binding = await w.cell.get(networking.NETWORK_BINDINGS, f"{NAME}-net-0", w.hub_namespace)
        spec = binding.view(networking.NetworkBinding).spec
        assert (spec.network.name, spec.network.namespace) == ("default", w.hub_namespace)
        owner = binding.metadata.controller()
        assert owner is not None
        assert owner.uid == made.metadata.uid
        claim = await w.cell.get(networking.SUBNET_CLAIMS, "default-dfw-0", w.hub_namespace)
        assert claim.metadata.controller() is None
        assert [each.kind for each in claim.metadata.owner_references] == ["NetworkContext"]
        asked = claim.view(networking.SubnetClaim).spec
        assert (asked.subnet_class, asked.ip_family) == ("private", "IPv4")


def on_networks(*names: str) -> dict[str, Any]:
    """The part of a spec with the networks of its Instances."""
    return {"spec": {"networkInterfaces": [{"network": {"name": name}} for name in names]}}


async def bound_networks(w: ControllerPlanes) -> list[str]:
    found = (await w.cell.list(networking.NETWORK_BINDINGS)).items
    return [obj.view(networking.NetworkBinding).spec.network.name for obj in found]


async def test_a_new_network_is_bound_before_an_instance_starts_in_it() -> None:
    async with controller_planes() as w:
        await given_location(w)
        await given(w, 1)
        async with w.running(controller(w, with_networks=True)):
            await bind(w)
            await give_subnet(w)
            await report_serving(w, ZERO)
            await change(w, template=on_networks("blue"))
            await until(
                w.cell, compute.INSTANCES, ZERO, w.hub_namespace, lambda obj: obj.metadata.deleting
            )
            await remove_finalizers(w.cell, compute.INSTANCES, ZERO, w.hub_namespace)
            found = await until(
                w.cell,
                compute.INSTANCES,
                ZERO,
                w.hub_namespace,
                lambda obj: not obj.view(compute.Instance).ready,
            )
            view = found.view(compute.Instance)
            assert view.gates == (compute.GATE_NETWORK,)
            assert await bound_networks(w) == ["blue"]

            await bind(w, "blue")
            await give_subnet(w, "blue")
            await until(
                w.cell,
                compute.INSTANCES,
                ZERO,
                w.hub_namespace,
                lambda obj: obj.view(compute.Instance).gates == (),
            )


async def test_bindings_follow_the_interfaces_of_the_template() -> None:
    async with controller_planes() as w:
        await given_location(w)
        await given(w, 1)
        theirs = {
            "metadata": {"name": f"{NAME}-net-1"},
            "spec": {"network": {"name": "red"}, "location": {"name": "dfw", "namespace": ""}},
        }
        async with w.running(controller(w, with_networks=True)):
            for wanted in (["a", "b", "c"], ["c", "b"], ["b"], ["b", "a", "c"], ["c", "c"]):
                await change(w, template=on_networks(*wanted))
                await settle(5)
                assert await bound_networks(w) == wanted

            await change(w, template=on_networks("c"))
            await settle(5)
            await w.cell.create(networking.NETWORK_BINDINGS, theirs, w.hub_namespace)
            await settle(5)
            assert await bound_networks(w) == ["c", "red"], "objects of another origin stay"


async def test_an_unknown_location_is_reported_and_blocks_no_instance() -> None:
    async with controller_planes() as w:
        await given(w, 1)
        async with w.running(controller(w, with_networks=True)):
            await until_names(w.cell, compute.INSTANCES, ZERO)
            found = await status(w, (1, 0, 0, 1))
            assert condition(found, "Available") == ("False", "NoMatchingLocation")

            await given_location(w)
            name = f"{NAME}-net-0"
            await until(w.cell, networking.NETWORK_BINDINGS, name, w.hub_namespace, lambda o: True)


async def test_networks_that_were_ready_and_are_deleted_are_requested_again() -> None:
    async with controller_planes() as w:
        await given_location(w)
        await given(w, 1)
        async with w.running(controller(w, with_networks=True)):
            await bind(w)
            await give_subnet(w)
            await report_serving(w, ZERO)
            await status(w, (1, 1, 1, 1))

            for kind, name in (
                (networking.SUBNET_CLAIMS, "default-dfw-0"),
                (networking.NETWORK_BINDINGS, f"{NAME}-net-0"),
            ):
                old = await w.cell.get(kind, name, w.hub_namespace)
                await w.cell.delete(kind, name, w.hub_namespace)
                await settle(5)
                again = await w.cell.get(kind, name, w.hub_namespace)
                assert again.metadata.uid != old.metadata.uid
