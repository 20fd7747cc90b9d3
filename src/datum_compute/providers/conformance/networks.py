"""Addresses, ports and readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.protocol import merge
from datum_compute.providers.conformance.harness import (
    STEP_SECONDS,
    Body,
    Capability,
    Harness,
    addresses,
    available,
    condition,
    create,
    expect,
    patch,
    promise,
    read,
    remove,
    run,
    settle,
    shell,
    wait,
    wait_available,
    wait_failure,
)

ADDRESSES, SUBNETS = Capability.ADDRESSES, Capability.SUBNETS
PROCESSES, PUBLISHED = Capability.PROCESSES, Capability.PUBLISHED
DEPLOYMENT = "networked"
LABELS = {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: DEPLOYMENT}


def serves(*ports: int) -> Body:
    """A container that declares these TCP ports."""
    return {
        "ports": [{"name": f"p{port}", "port": port, "protocol": "TCP"} for port in ports],
    }


async def join(cell: Harness, *, prefix: int | None = None) -> None:
    """The network that Instances with :data:`LABELS` are on, where the cell has networks."""
    if SUBNETS in cell.lacks:
        return
    if cell.subnet is None:
        raise ValueError("a harness with subnets names a range")
    range_ = IPv4Network((cell.subnet.network_address, prefix or cell.subnet.prefixlen))
    where = {"name": "here", "namespace": ""}
    subnet = {
        "subnetClass": "private",
        "ipFamily": "IPv4",
        "networkContext": {"name": "context"},
        "location": where,
    }
    start = {"startAddress": str(range_[0]), "prefixLength": range_.prefixlen}
    await _make(cell, networking.SUBNETS, "subnet", {**subnet, **start})
    await _make(cell, networking.SUBNET_CLAIMS, "claim", subnet, {"subnetRef": {"name": "subnet"}})
    await _make(
        cell,
        networking.NETWORK_BINDINGS,
        names.binding_name(DEPLOYMENT, 0),
        {"network": {"name": "default"}, "location": where},
        {"networkContextRef": {"namespace": cell.namespace, "name": "context"}},
    )
    # The provider may see an Instance before its network: gates order that in a real cell.
    await asyncio.sleep(2 * STEP_SECONDS)


async def _make(
    cell: Harness, kind: Any, name: str, spec: Body, status: Body | None = None
) -> None:
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": cell.namespace},
        "spec": spec,
    }
    await cell.client.create(kind, body, cell.namespace)
    if status is not None:
        await cell.client.patch(
            kind, name, merge({"status": status}), cell.namespace, subresource="status"
        )


async def start(cell: Harness, name: str, **details: Any) -> Object:
    return await run(cell, name, labels=LABELS, **details)


def unique(found: Sequence[str]) -> bool:
    return all(found) and len(set(found)) == len(found)


# Addresses.


@promise(ADDRESSES)
async def a_running_instance_reports_its_address(cell: Harness) -> None:
    await join(cell)
    network_ip, _ = addresses(await start(cell, "addressed-0"))

    expect(bool(network_ip), "no networkIP")
    IPv4Address(network_ip)


@promise(ADDRESSES)
async def each_instance_has_an_address_of_its_own(cell: Harness) -> None:
    await join(cell)
    found = [addresses(await start(cell, f"apart-{number}"))[0] for number in range(4)]

    expect(unique(found), f"the addresses are {found}")


@promise(ADDRESSES)
async def an_address_stays_over_a_restart_of_the_provider(cell: Harness) -> None:
    await join(cell)
    before = addresses(await start(cell, "same-0"))
    await cell.restart()
    await settle(cell)
    other = addresses(await start(cell, "other-0"))

    expect(addresses(await read(cell, "same-0")) == before, "its address changed")
    expect(other[0] != before[0], "an address was given twice after a restart")


@promise(ADDRESSES)
async def a_wiped_address_is_reported_again(cell: Harness) -> None:
    await join(cell)
    before = addresses(await start(cell, "wiped-0"))
    await patch(cell, "wiped-0", {"status": {"networkInterfaces": None}}, "status")

    async def restored() -> bool:
        return addresses(await read(cell, "wiped-0")) == before

    await wait(cell, restored, "a wiped address is not reported again")


@promise(SUBNETS)
async def addresses_are_of_the_subnet(cell: Harness) -> None:
    await join(cell)
    found = IPv4Address(addresses(await start(cell, "inside-0"))[0])

    expect(cell.subnet is not None and found in cell.subnet, f"{found} is not of the subnet")


@promise(SUBNETS)
async def the_address_of_a_deleted_instance_is_free_again(cell: Harness) -> None:
    await join(cell)
    first, _ = addresses(await start(cell, "first-0"))
    await start(cell, "second-0")
    await remove(cell, "first-0")

    third, _ = addresses(await start(cell, "third-0"))
    expect(third == first, f"{third} was given while {first} is free")


@promise(SUBNETS, slow=True)
async def a_full_subnet_is_reported_until_an_address_is_free(cell: Harness) -> None:
    await join(cell, prefix=29)
    room = 5  # eight less the network's own address, its gateway and the broadcast address
    for number in range(room):
        await start(cell, f"full-{number}")
    await create(cell, f"full-{room}", labels=LABELS)
    await wait_failure(cell, f"full-{room}", compute.REASON_INSUFFICIENT_CAPACITY)
    await remove(cell, "full-0")

    await wait_available(cell, f"full-{room}")


# Ports and readiness.


@promise(PROCESSES, ADDRESSES)
async def an_available_instance_answers_on_its_address(cell: Harness) -> None:
    await join(cell)
    network_ip, _ = addresses(await start(cell, "answering-0", container=serves(80)))

    expect("hello" in await cell.answer(network_ip, 80), "it answers something else")


@promise(PROCESSES, ADDRESSES)
async def an_instance_is_available_when_its_port_accepts_connections(cell: Harness) -> None:
    await join(cell)
    script = (
        "mkdir -p /tmp/www; echo hello late > /tmp/www/index.html; sleep 4;"
        " exec httpd -f -p 80 -h /tmp/www"
    )
    network_ip, _ = addresses(
        await start(cell, "late-0", container={**shell(script), **serves(80)})
    )

    expect("hello late" in await cell.answer(network_ip, 80), "Available before it listened")


@promise(PROCESSES, ADDRESSES)
async def an_instance_whose_port_is_closed_is_not_available(cell: Harness) -> None:
    await join(cell)
    await create(cell, "closed-0", labels=LABELS, container=serves(81))

    async def programmed() -> bool:
        found = condition(await read(cell, "closed-0"), compute.CONDITION_PROGRAMMED)
        return found.status == conditions.TRUE

    await wait(cell, programmed, "not Programmed")
    await settle(cell)
    state = available(await read(cell, "closed-0"))
    expect(state.status != conditions.TRUE, "Available although nothing listens")
    expect("81" in state.message, f"the port is not named: {state.message!r}")


@promise(PROCESSES, ADDRESSES, slow=True)
async def an_instance_whose_port_closes_is_not_available_any_more(cell: Harness) -> None:
    await join(cell)
    script = "httpd -f -p 80 & sleep 8; kill $!; while :; do sleep 1; done"
    await start(cell, "shut-0", container={**shell(script), **serves(80)})

    async def withdrawn() -> bool:
        return available(await read(cell, "shut-0")).status != conditions.TRUE

    await wait(cell, withdrawn, "Available although nothing listens any more")


@promise(PROCESSES)
async def an_instance_without_a_port_is_available_when_it_has_run_a_while(cell: Harness) -> None:
    await create(cell, "portless-0", container=shell("sleep 0.3; exit 1"))
    deadline = asyncio.get_running_loop().time() + cell.settle_seconds
    while asyncio.get_running_loop().time() < deadline:
        status = available(await read(cell, "portless-0")).status
        expect(status != conditions.TRUE, "Available although it ends at once")
        await asyncio.sleep(0.05)


@promise(PROCESSES)
async def a_port_of_another_protocol_is_not_waited_for(cell: Harness) -> None:
    await join(cell)
    container = {"ports": [{"name": "dns", "port": 5353, "protocol": "UDP"}]}

    await start(cell, "datagrams-0", container=container)


@promise(PROCESSES, ADDRESSES)
async def an_address_stays_when_a_process_is_started_again(cell: Harness) -> None:
    await join(cell)
    found = await start(cell, "healed-0", container=serves(80))
    before = addresses(found)
    await cell.kill(found.metadata.uid, "app")

    async def withdrawn() -> bool:
        return available(await read(cell, "healed-0")).status != conditions.TRUE

    await wait(cell, withdrawn, "Available although its process was killed")
    after = addresses(await wait_available(cell, "healed-0"))
    expect(after == before, f"addresses went from {before} to {after}")
    expect("hello" in await cell.answer(after[0], 80), "it answers something else")


@promise(PUBLISHED)
async def declared_ports_answer_at_the_external_address(cell: Harness) -> None:
    await join(cell)
    script = (
        "mkdir -p /tmp/www; echo hello > /tmp/www/index.html;"
        " httpd -p 8081 -h /tmp/www; exec httpd -f -p 8080 -h /tmp/www"
    )
    found = await start(cell, "outside-0", container={**shell(script), **serves(8080, 8081)})
    _, external_ip = addresses(found)

    expect(bool(external_ip), "no externalIP")
    for port in (8080, 8081):
        expect("hello" in await cell.answer(external_ip, port), f"port {port} does not answer")


@promise(PUBLISHED)
async def instances_with_the_same_port_have_external_addresses_of_their_own(cell: Harness) -> None:
    await join(cell)
    found = [
        addresses(await start(cell, f"equal-{number}", container=serves(80)))[1]
        for number in range(3)
    ]

    expect(unique(found), f"the external addresses are {found}")
    for number, address in enumerate(found):
        expect(f"equal-{number}" in await cell.answer(address, 80), "another Instance answers")


@promise(PUBLISHED)
async def an_instance_without_ports_has_no_external_address(cell: Harness) -> None:
    await join(cell)
    _, external_ip = addresses(await start(cell, "inner-0"))

    expect(not external_ip, f"externalIP is {external_ip}")


@promise(PUBLISHED)
async def the_external_address_of_a_deleted_instance_does_not_answer(cell: Harness) -> None:
    await join(cell)
    _, external_ip = addresses(await start(cell, "silent-0", container=serves(80)))
    await cell.answer(external_ip, 80)
    await remove(cell, "silent-0")

    try:
        found = await cell.answer(external_ip, 80)
    except OSError:
        return
    expect(False, f"{external_ip} still answers {found!r}")
