"""A Secret's bytes are not given to who may not read it, and appear nowhere but in the Secret."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Iterator

import pytest

from datum_compute.api import core, karmada, planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.request.access import PolicyRule
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.assembly import rights
from datum_compute.assembly.logs import JsonFormatter
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import Client, merge
from datum_compute.log import get_logger
from tests.support.federation.data import (
    KEYS,
    PLANTED,
    create_sources,
    deploy,
    named,
    redeploy,
    secret,
    until_deployment,
    until_running,
)
from tests.support.federation.stage import NAMESPACE, Stage, deployment, stage
from tests.support.objects import exists, until_gone

WRITES_WORKLOADS = [
    PolicyRule("compute.datumapis.com", "workloads", ("get", "create", "patch")),
    PolicyRule("networking.datumapis.com", "networks", ("get", "use")),
    PolicyRule("", "configmaps", ("get",)),
]


def client_with(on: Stage, *rules: PolicyRule) -> Client:
    """A client of the project for a user with these rights."""
    plane = f"project/{on.settings.project}"
    server = on.platform.server
    server.add_user("guest", (), "token-of-guest")
    on.platform._roles.grant("guest", plane, rules)
    return ApiClient(
        InProcessTransport(server.handle),
        cluster="project",
        prefix=planes.plane_prefix(plane),
        token="token-of-guest",
    )


async def test_who_may_write_workloads_but_not_read_secrets_gets_no_bytes_by_naming_one() -> None:
    async with stage(cities=("DFW",)) as on:
        await create_sources(on)
        guest = client_with(on, *WRITES_WORKLOADS)
        denied = 'permission to read Secret "keys" was denied'
        with pytest.raises(errors.Invalid, match=denied):
            await guest.create(compute.WORKLOADS, named(cities=("DFW",)), NAMESPACE)

        open_ = named(keys="", cities=("DFW",))
        await guest.create(compute.WORKLOADS, open_, NAMESPACE)
        with pytest.raises(errors.Invalid, match=denied):
            body = merge({"spec": named(cities=("DFW",))["spec"]})
            await guest.patch(compute.WORKLOADS, "web", body, NAMESPACE)
        await until_running(on, "DFW")
        assert not await exists(on.hub, core.SECRETS, KEYS, on.hub_namespace)

        # Of a workload of another author that names it: the guest may scale it, and not choose
        # the image that gets the bytes.
        await deploy(on, named("api", cities=("DFW",)))
        scaled = named("api", minimum=2, cities=("DFW",))["spec"]["placements"]
        body = merge({"spec": {"placements": scaled}})
        await guest.patch(compute.WORKLOADS, "api", body, NAMESPACE)
        with pytest.raises(errors.Invalid, match=denied):
            body = merge({"spec": named("api", image="guest/printer:1")["spec"]})
            await guest.patch(compute.WORKLOADS, "api", body, NAMESPACE)
        assert {call.user for call in on.calls.denied} == {"guest"}
        on.calls.denied.clear()


async def test_a_deployment_gets_no_data_that_its_workload_does_not_name() -> None:
    async with stage(cities=("DFW",)) as on:
        await create_sources(on)
        await deploy(on, named(keys="", cities=("DFW",)))
        await until_running(on, "DFW")
        body = deployment("by-hand-dfw")
        body["spec"]["template"] = named()["spec"]["template"]
        await on.project.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)
        await asyncio.sleep(60)
        assert not await exists(on.hub, core.SECRETS, KEYS, on.hub_namespace)


def test_no_role_that_is_shipped_for_a_cell_lets_others_than_the_provider_read_companions() -> None:
    may_get = {
        process
        for process, rules in rights.recorded().items()
        for rule in rules.get("cell", ())
        if (rule.group, rule.resource) == ("", "secrets") and "get" in rule.verbs
    }

    assert may_get == {rights.PROVIDER, "standin-propagation"}


class _Leaks:
    """Where a planted value was written, outside Secrets and the Works that carry them."""

    def __init__(self, *planted: str) -> None:
        self.found: list[str] = []
        self.looked_at = 0
        encoded = [base64.b64encode(each.encode()).decode() for each in planted]
        # Without the end, which depends on what follows.
        self._texts = [*planted, *(each.rstrip("=")[:-2] for each in encoded)]

    def look(self, where: str, text: str) -> None:
        self.looked_at += 1
        if any(each in text for each in self._texts):
            self.found.append(where)

    def changed(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        text = bytes(event.after.raw).decode()
        kind = table.resource
        carries = kind == karmada.WORKS.group_resource and '"kind":"Secret"' in text
        if kind != core.SECRETS.group_resource and not carries:
            self.look(f"{kind} {event.after.namespace}/{event.after.name} on {plane.name}", text)


@pytest.fixture
def leaks() -> Iterator[_Leaks]:
    found = _Leaks(PLANTED, "another-planted-value")
    formatter = JsonFormatter()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.look(f"log {record.getMessage()}", formatter.format(record))

    handler, root = Handler(logging.DEBUG), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


async def test_a_planted_secret_is_in_no_status_event_log_metric_or_instance_log(
    leaks: _Leaks,
) -> None:
    async with stage() as on:
        on.platform.store.subscribe(leaks.changed)
        await deploy(on, named())
        await until_deployment(on, compute.REASON_SOURCE_NOT_FOUND)
        await create_sources(on)
        for city in ("DFW", "LHR"):
            await until_running(on, city)
        other = secret(token="another-planted-value")
        await on.project.patch(core.SECRETS, KEYS, merge({"data": other["data"]}), NAMESPACE)
        await on.restart("compute-management", "compute-cell-dfw", "provider-dfw")
        await on.hub.delete(core.SECRETS, KEYS, on.hub_namespace)
        large = secret(token=PLANTED * 20_000)
        await on.project.patch(core.SECRETS, KEYS, merge({"data": large["data"]}), NAMESPACE)
        await until_deployment(on, compute.REASON_SOURCE_TOO_LARGE)
        # A key that the Instance needs is missing, and another value is there.
        renamed = {"token": None, "other": secret()["data"]["token"]}
        await on.project.patch(core.SECRETS, KEYS, merge({"data": renamed}), NAMESPACE)
        await redeploy(on, named(image="acme/web:2"))
        await asyncio.sleep(120)
        leaks.look("metrics", (await on.client("root").raw("/metrics")).decode())
        for instance in (await on.project.list(compute.INSTANCES)).items:
            path = compute.INSTANCES.path(NAMESPACE, instance.name, "log")
            leaks.look(f"log of {instance.name}", (await on.project.raw(path)).decode())
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await until_gone(on.project, compute.WORKLOADS, "web", NAMESPACE)
    assert leaks.looked_at > 500
    assert leaks.found == []


async def test_the_search_for_planted_values_finds_them(leaks: _Leaks) -> None:
    get_logger("datum_compute").warning("value", value=PLANTED)
    leaks.look("encoded", f'{{"token":"{secret()["data"]["token"]}"}}')

    assert len(leaks.found) == 2


async def test_a_deployment_that_names_no_data_has_no_mark_of_it_at_any_time() -> None:
    marked: list[str] = []
    marks = (
        compute.FINALIZER_REFERENCED_DATA,
        compute.ANNOTATION_EXPECTED_REFERENCED_DATA,
        compute.CONDITION_REFERENCED_DATA_READY,
        f'"{compute.GATE_REFERENCED_DATA}"',
    )

    def changed(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        text = bytes(event.after.raw).decode()
        if table.resource.endswith(compute.GROUP) and any(mark in text for mark in marks):
            marked.append(f"{table.resource} {event.after.name} on {plane.name}")

    async with stage(cities=("DFW",)) as on:
        on.platform.store.subscribe(changed)
        await deploy(on, named(keys="", settings="", cities=("DFW",)))
        await until_running(on, "DFW")
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await until_gone(on.project, compute.WORKLOADS, "web", NAMESPACE)
    assert marked == []
