"""Instances as Pods of a real kubelet: the kit of providers, and a whole cell.

A machine that cannot run a kubelet leaves these tests out and says why.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, WireObject
from datum_compute.api.scheme import Resource
from datum_compute.client import connect, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.client.remote_command import CommandRequest
from datum_compute.env import SystemEnvironment
from datum_compute.providers import conformance
from datum_compute.providers.conformance import Check, PrivateImage
from datum_compute.providers.conformance.harness import run
from datum_compute.providers.protocol import ExecRefused
from datum_compute.testing.expectations import eventually
from scripts.cluster_tools import DEFAULT_TOOLS, NODE_TOOLS, ensure_tools
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.namespaces import ClusterNamespace, given_city, workload
from tests.support.cluster.node import IMAGE, KubeletCredential, Node, busybox_image
from tests.support.cluster.roles import NAMESPACE, applied, define_kinds, manager_token
from tests.support.processes.managers import manager
from tests.support.providers.pod_harness import LACKS, PodHarness, http_get
from tests.support.providers.registry import private_registry

pytestmark = [pytest.mark.cluster, pytest.mark.kubelet, pytest.mark.realtime]

WITHIN = 90.0
SMALL = {"cpu": "100m", "memory": "64Mi"}
"""A node of two cores has room for two Instances of the default type only."""

IN_SHORT = {
    "an_available_instance_answers_on_its_address",
    "an_instance_is_available_when_its_port_accepts_connections",
    "an_instance_whose_port_is_closed_is_not_available",
    "an_instance_has_the_size_of_its_type",
    "an_image_that_cannot_be_had_is_reported",
    "a_private_image_is_pulled_with_the_secret_that_matches",
    "a_private_image_without_the_right_password_is_reported",
    "a_template_that_cannot_run_is_reported",
    "an_instance_that_crashes_is_reported",
    "an_instance_too_large_for_the_site_is_reported",
    "a_failure_is_not_withdrawn_while_it_is_tried_again",
    "a_process_out_of_memory_is_reported_as_such",
    "a_process_cannot_gain_privileges",
    "a_process_finds_no_credentials",
    "labels_and_annotations_of_users_are_not_passed_on",
    "command_and_args_are_handed_over_as_written",
    "variables_can_be_fields_of_the_instance",
    "a_killed_process_is_started_again",
    "what_an_operator_removes_by_hand_is_made_again",
    "containers_of_an_instance_share_the_network",
    "a_restart_of_the_provider_disturbs_nothing",
    "a_successor_never_adopts_what_its_predecessor_left",
    "a_deleted_instance_leaves_nothing",
    "a_process_that_ignores_the_request_to_end_is_killed",
    "followed_lines_begin_with_the_first_and_end_with_the_instance",
    "a_reader_that_follows_goes_on_over_a_restart_of_the_process",
    "the_lines_of_a_crash_can_be_read",
    "since_leaves_out_earlier_lines",
    "a_command_has_its_streams_and_its_exit_code",
    "a_program_that_is_not_there_is_named",
    "a_command_in_an_unknown_container_or_instance_is_refused",
    "a_command_ends_with_its_instance",
}
"""What only a kubelet can show; the whole kit is a campaign."""

CHECKS = [
    pytest.param(
        check,
        marks=[] if conformance.title(check) in IN_SHORT else [pytest.mark.campaign],
        id=conformance.title(check),
    )
    for check in conformance.CHECKS
]
assert {conformance.title(check) for check in conformance.CHECKS} >= IN_SHORT


@dataclass(frozen=True)
class RealCell:
    plane: ControlPlane
    node: Node


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCell]:
    tools = ensure_tools([*DEFAULT_TOOLS, *NODE_TOOLS])
    credential = KubeletCredential(tmp_path_factory.mktemp("kubelet"))
    # A run that is terminated cleans up as one that is interrupted does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ControlPlane(tools, apiserver_arguments=credential.apiserver_arguments()) as plane:
        define_kinds(plane)
        node = Node(plane, tools, credential)
        with node:
            yield RealCell(plane, node)
        assert node.leftovers() == []


class SmallInstances(ApiClient):
    """Makes Instances small, except the one whose size is looked at."""

    async def create(
        self, resource: Resource, body: WireObject, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        if resource == compute.INSTANCES and body["metadata"]["name"] != "sized-0":
            copied: dict[str, Any] = json.loads(json.dumps(body))
            copied["spec"]["runtime"]["resources"]["requests"] = SMALL
            body = copied
        return await super().create(resource, body, namespace, dry_run=dry_run)


def client_of(cell: RealCell, directory: Path, kind: type[ApiClient] = ApiClient) -> ApiClient:
    path = str(cell.plane.write_kubeconfig(directory / "kubeconfig"))
    connection = kubeconfig.load(path, env=SystemEnvironment())
    transport = connect.transport_for(connection)
    return kind(transport, cluster="single", token=connection.token, user_agent="test")


@dataclass(kw_only=True)
class KubeletHarness(PodHarness):
    node: Node

    async def kill(self, uid: str, container: str) -> None:
        for found in await self.running(uid):
            if found.container == container and found.running:
                statuses = json.loads(found.description)["status"]["containerStatuses"]
                [status] = [each for each in statuses if each["name"] == container]
                os.kill(self.node.process_of(status["containerID"]), signal.SIGKILL)

    async def answer(self, address: str, port: int) -> str:
        return await http_get(address, port)

    @asynccontextmanager
    async def private_image(self) -> AsyncIterator[PrivateImage]:
        """In a registry on loopback, which containerd uses without TLS."""
        async with private_registry(busybox_image()) as image:
            yield image


_numbers = count()


@asynccontextmanager
async def kubelet_harness(cell: RealCell, directory: Path) -> AsyncIterator[KubeletHarness]:
    client = client_of(cell, directory, SmallInstances)
    namespace = f"kit-{next(_numbers)}"
    await client.create(core.NAMESPACES, {"metadata": {"name": namespace}})
    harness = KubeletHarness(
        client=client,
        provider="pod",
        image=IMAGE,
        namespace=namespace,
        timeout_seconds=WITHIN,
        settle_seconds=3,
        retry_seconds=25,
        lacks=LACKS,
        env=SystemEnvironment(),
        provider_client=client,
        node=cell.node,
    )
    await harness.start()
    try:
        yield harness
        await empty(client)
    finally:
        await harness.stop()
        await client.close()


async def empty(client: ApiClient) -> None:
    """Delete every Instance while the provider runs, so that the next test has room."""
    for obj in (await client.list(compute.INSTANCES)).items:
        await client.delete(compute.INSTANCES, obj.name, obj.namespace)

    async def left() -> str:
        found = [
            *(await client.list(compute.INSTANCES)).items,
            *(await client.list(core.PODS)).items,
        ]
        return f"{found} are left" if found else ""

    await eventually("nothing is left", left, within=WITHIN)


@pytest.mark.parametrize("check", CHECKS)
async def test_the_provider_of_pods_passes_the_kit_on_a_kubelet(
    check: Check, cell: RealCell, tmp_path: Path
) -> None:
    async with kubelet_harness(cell, tmp_path) as harness:
        await check(harness)


def serving(version: str, **container: Any) -> dict[str, Any]:
    """The Workload of this test: two small web servers."""
    body = workload(IMAGE, 2)
    spec = body["spec"]["template"]["spec"]
    spec["runtime"]["resources"]["requests"] = SMALL
    spec["runtime"]["sandbox"]["containers"][0] |= {
        "ports": [{"name": "http", "port": 80}],
        "env": [{"name": "VERSION", "value": version}],
        "command": None,
        **container,
    }
    return body


async def test_a_workload_runs_rolls_fails_heals_and_leaves_nothing_on_a_kubelet(
    cell: RealCell, tmp_path: Path
) -> None:
    client = client_of(cell, tmp_path)
    place = ClusterNamespace(client, "whole")
    with applied(cell.plane, "single"), applied(cell.plane, "pods"):
        path = tmp_path / "manager.kubeconfig"
        token = manager_token(cell.plane)
        cell.plane.write_kubeconfig(path, user="compute-manager", token=token)
        argv = (
            *("--enable-management-controllers", "--enable-cell-controllers"),
            *("--leader-elect", f"--leader-elect-namespace={NAMESPACE}"),
            *("--provider=pod", f"--kubeconfig={path}"),
        )
        try:
            await given_city(client)
            await place.prepare()
            async with manager(tmp_path, "manager", *argv):
                await place.deploy(serving("1"))
                await place.runs(IMAGE, 2)
                await answers(place)

                before = await place.uids()
                await place.change(serving("2"))
                await rolled(place, before)
                await answers(place)

                await place.change(serving("3", command=["/nope"]))
                await eventually(
                    "the cause is shown", lambda: _shows(place, "/nope"), within=WITHIN
                )
                await place.change(serving("4"))
                await place.runs(IMAGE, 2)

                [pod, _] = (await client.list(core.PODS, "whole")).items
                await client.delete(core.PODS, pod.name, "whole")
                await eventually("it heals", lambda: _replaced(place, pod), within=WITHIN)
                await answers(place)

                await client.delete(compute.WORKLOADS, "web", "whole")
                await place.gone()
                assert not (await client.list(core.PODS, "whole")).items
        finally:
            await client.close()
    assert "forbidden" not in (tmp_path / "manager.log").read_text()


async def answers(place: ClusterNamespace) -> None:
    """Every Instance answers on the address it reports, with its own name."""
    for name, instance in (await place.instances()).items():
        [interface] = instance.status.network_interfaces
        address = interface.assignments.network_ip
        assert address is not None
        assert f"hello from {name}" in await http_get(address, 80)


async def rolled(place: ClusterNamespace, before: Mapping[str, str]) -> None:
    async def look() -> str:
        now = await place.uids()
        return f"instances {now}" if set(now.values()) & set(before.values()) else ""

    await eventually("all are replaced", look, within=WITHIN)
    await place.runs(IMAGE, 2)


async def _shows(place: ClusterNamespace, words: str) -> str:
    obj = await place.client.get(compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", place.namespace)
    found = conditions.find(
        obj.view(compute.WorkloadDeployment).status.conditions, compute.CONDITION_REPLICAS_READY
    )
    shown = found is not None and found.reason == compute.REASON_CONFIGURATION_ERROR
    return "" if shown and found is not None and words in found.message else f"it is {found}"


async def _replaced(place: ClusterNamespace, pod: Object) -> str:
    found = (await place.client.list(core.PODS, place.namespace)).items
    if pod.metadata.uid in [each.metadata.uid for each in found] or len(found) != 2:
        return f"the Pods are {found}"
    waiting = [name for name, each in (await place.instances()).items() if not each.ready]
    return f"{waiting} are not ready" if waiting else ""


async def test_commands_run_in_a_pod_with_input_terminal_and_exit_code(
    cell: RealCell, tmp_path: Path
) -> None:
    async with kubelet_harness(cell, tmp_path) as harness:
        uid = (await run(harness, "shell-0", container={})).metadata.uid

        async def sent(text: str, *command: str, tty: bool = False) -> tuple[bytes, int]:
            request = CommandRequest(command, "app", tty=tty, stdin=True)
            session = await harness.runs.exec(uid, request)
            try:
                if tty:
                    await session.resize(99, 33)
                await session.send(text.encode())
                if not tty:
                    await session.end_input()
                output = [content async for _, content in session]
                return b"".join(output), await session.exit_code()
            finally:
                await session.aclose()

        assert await sent("abc", "/bin/cat") == (b"abc", 0)
        assert await sent("exit 6\n", "/bin/sh") == (b"", 6)
        output, code = await sent("echo $((6*7)); exit 3\n", "/bin/sh", tty=True)
        assert b"42" in output
        assert code == 3
        with pytest.raises(ExecRefused, match="no Pod"):
            await harness.runs.exec("no-such-uid", CommandRequest(("/bin/sh",), "app"))
        with pytest.raises(ExecRefused, match="container nosuch is not valid"):
            await harness.runs.exec(uid, CommandRequest(("/bin/sh",), "nosuch"))


async def test_a_killed_kubelet_disturbs_no_instance(cell: RealCell, tmp_path: Path) -> None:
    async with kubelet_harness(cell, tmp_path) as harness:
        found = await run(harness, "steady-0")
        before = await harness.running(found.metadata.uid)
        with cell.node.without_kubelet():
            pass
        await asyncio.sleep(5)

        after = await harness.running(found.metadata.uid)
        assert [each.started_at for each in after] == [each.started_at for each in before]
