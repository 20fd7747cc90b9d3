"""``compute-manager --check`` finds nothing missing in a complete installation, and names each
thing that is left out."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from datum_compute.api import core, crds, karmada, planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.planes import PlaneType
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.apiserver.request.access import PolicyRule
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly import rights
from datum_compute.assembly.manager.config import Discovery
from datum_compute.assembly.manager.installation_check import check_installation, render
from datum_compute.assembly.manager.plane_clients import PlaneClients
from datum_compute.assembly.manager.plane_findings import PlaneFinding, Verdict
from datum_compute.assembly.manager.settings import BindAddress, ManagerSettings
from datum_compute.assembly.manager.webhook_certificate import (
    CONFIGURATION,
    WEBHOOK_CONFIGURATIONS,
)
from datum_compute.client import errors, kubeconfig
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.kubeconfig import Connection
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.assembly.webhook_configurations import webhooks_by_url
from tests.support.paths import ROOT

HOST, HUB, PROJECT, CELL = "cell/host", "hub", "project/demo", "cell/dfw"
CITY = "DFW"
READ_WEBHOOKS = tuple(
    PolicyRule(resource.group, resource.plural, ("get",)) for resource in WEBHOOK_CONFIGURATIONS
)


class Network:
    """A transport to the server, and to none where a test has taken the plane away."""

    def __init__(self, embedded: EmbeddedServer) -> None:
        self._inner = InProcessTransport(embedded.server.handle)
        self.unreachable = ""
        self.version = ""

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if self.unreachable and request.path.startswith(self.unreachable):
            raise errors.ConnectFailed("connection refused")
        if self.version and request.path.endswith("/version"):
            return HttpResponse(200, {}, f'{{"gitVersion": "{self.version}"}}'.encode())
        return await self._inner.send(request, timeout=timeout)

    async def close(self) -> None: ...


@dataclass
class Installation:
    """Everything that a manager of management and one of a cell need."""

    embedded: EmbeddedServer
    roles: Roles
    network: Network
    directory: Path
    users: dict[str, str] = field(default_factory=dict)
    """Who acts on a plane instead of the user that should."""

    async def build(self) -> None:
        self.grant(rights.MANAGEMENT, HOST, rights.recorded()[rights.ELECTION]["host"])
        for plane, rules in rights.of_user(rights.MANAGEMENT).items():
            self.grant(rights.MANAGEMENT, plane, rules)
        webhooks = rights.recorded()[rights.WEBHOOKS]["project"]
        self.grant(rights.MANAGEMENT, PROJECT, (*self.rules("project"), *webhooks, *READ_WEBHOOKS))
        for plane, rules in rights.of_user("compute-cell-dfw").items():
            self.grant("compute-cell-dfw", plane, rules)
        hub, project = self.embedded.client(HUB), self.embedded.client(PROJECT)
        shipped = ROOT / "deploy/federation/status-interpreter.yaml"
        interpreter = yaml.safe_load(shipped.read_text())
        await hub.create(karmada.INTERPRETER_CUSTOMIZATIONS, interpreter)
        labels = {compute.LABEL_TOPOLOGY_CITY_CODE: CITY}
        cluster = {"metadata": {"name": "dfw", "labels": labels}, "spec": {"syncMode": "Push"}}
        await hub.create(karmada.CLUSTERS, cluster)
        await self.set_cluster_status("True", compute.WORKLOAD_DEPLOYMENTS.kind)
        await self.embedded.client("root").patch(
            resourcemanager.PROJECTS, "demo", merge(status("Ready", "True")), subresource="status"
        )
        binding = {
            "metadata": {"name": "dfw"},
            "spec": {"locationRef": {"name": "dfw"}, "locationClassName": "x", "topology": labels},
        }
        await project.create(networking.LOCATION_BINDINGS, binding)
        await project.patch(
            networking.LOCATION_BINDINGS,
            "dfw",
            merge(status("Available", "True")),
            subresource="status",
        )
        for resource, manifest in zip(WEBHOOK_CONFIGURATIONS, webhooks_by_url(), strict=True):
            for webhook in manifest["webhooks"]:
                webhook["clientConfig"]["caBundle"] = "Y2E="
            await project.create(resource, manifest)
        cell = self.embedded.client(CELL)
        upstream = {compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo"}
        await cell.create(core.NAMESPACES, {"metadata": {"name": "ns-1", "labels": upstream}})

    async def set_cluster_status(self, ready: str, kind: str) -> None:
        served = {
            "groupVersion": compute.WORKLOAD_DEPLOYMENTS.api_version,
            "resources": [{"name": "x", "kind": kind}],
        }
        body = status("Ready", ready)
        body["status"]["apiEnablements"] = [served]
        client = self.embedded.client(HUB)
        await client.patch(karmada.CLUSTERS, "dfw", merge(body), subresource="status")

    def rules(self, plane: str) -> tuple[PolicyRule, ...]:
        return rights.recorded()[rights.MANAGEMENT][plane]

    def grant(self, user: str, plane: str, rules: tuple[PolicyRule, ...]) -> None:
        self.roles.grant(user, plane, rules)

    def kubeconfig(self, plane: str, user: str) -> str:
        user = self.users.get(plane, user)
        path = self.directory / f"{plane.replace('/', '-')}-{user}"
        token = self.embedded.token(user, ()) if user != "unknown" else "wrong"
        path.write_text(
            kubeconfig.render(
                server=f"https://embedded.test{planes.plane_prefix(plane)}",
                ca_pem=b"",
                token=token,
                name="test",
                user=user,
            )
        )
        return str(path)

    def management(self) -> ManagerSettings:
        root = self.kubeconfig("root", rights.MANAGEMENT)
        return ManagerSettings(
            management=True,
            cell=False,
            kubeconfig=self.kubeconfig(HOST, rights.MANAGEMENT),
            federation_kubeconfig=self.kubeconfig(HUB, rights.MANAGEMENT),
            leader_elect=True,
            leader_elect_namespace="compute-system",
            webhooks=BindAddress("", 9443),
            discovery=Discovery(
                mode="milo", discovery_kubeconfig_path=root, project_kubeconfig_path=root
            ),
        )

    def cell(self, **changes: Any) -> ManagerSettings:
        user = "compute-cell-dfw"
        settings = ManagerSettings(
            management=False,
            cell=True,
            kubeconfig=self.kubeconfig(CELL, user),
            federation_kubeconfig=self.kubeconfig(HUB, user),
            networking=True,
            discovery=Discovery(
                cluster_name="dfw", quota_kubeconfig_path=self.kubeconfig("root", user)
            ),
        )
        return dataclasses.replace(settings, **changes)

    async def findings(self, settings: ManagerSettings) -> list[PlaneFinding]:
        def transport_for(_: Connection) -> Network:
            return self.network

        clients = PlaneClients(
            self.embedded.env, settings, MetricsRegistry(), transport_for=transport_for
        )
        return await check_installation(self.embedded.env, settings, clients)


def status(condition: str, value: str) -> dict[str, Any]:
    made = {
        "type": condition,
        "status": value,
        "reason": "Test",
        "message": "as the test says",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"status": {"conditions": [made]}}


@asynccontextmanager
async def installation(
    directory: Path, crds_for: Callable[[PlaneType], list[dict[str, Any]]] = crds.crds_for
) -> AsyncIterator[Installation]:
    authorizer = Roles()
    async with embedded_server(
        authorizer=authorizer, cells=("dfw", "host"), crds_for=crds_for
    ) as embedded:
        made = Installation(embedded, authorizer, Network(embedded), directory)
        await made.build()
        yield made


def missing(findings: list[PlaneFinding]) -> list[str]:
    return [
        f"{each.plane.split(' (')[0]}: {each.text}"
        for each in findings
        if each.verdict is Verdict.MISSING
    ]


async def test_nothing_is_missing_for_the_managers_of_a_complete_installation(
    tmp_path: Path,
) -> None:
    async with installation(tmp_path) as made:
        management, cell = made.management(), made.cell()
        of_management = await made.findings(management)
        of_cell = await made.findings(cell)

    assert missing(of_management) == []
    assert missing(of_cell) == []
    checked = {each.plane.split(" (")[0] for each in [*of_management, *of_cell]}
    assert checked == {"hub", "own cluster", "root", "project demo", "projects"}
    assert render(of_management, management).endswith("\nNothing is missing.\n")


Omission = Callable[[Installation], Awaitable[None] | None]


async def no_interpreter(made: Installation) -> None:
    client = made.embedded.client(HUB)
    await client.delete(karmada.INTERPRETER_CUSTOMIZATIONS, "workloaddeployment-status")


def without_script(name: str) -> Omission:
    async def omit(made: Installation) -> None:
        await made.embedded.client(HUB).patch(
            karmada.INTERPRETER_CUSTOMIZATIONS,
            "workloaddeployment-status",
            merge({"spec": {"customizations": {name: None}}}),
        )

    return omit


async def no_label(made: Installation) -> None:
    change = {"metadata": {"labels": {compute.LABEL_TOPOLOGY_CITY_CODE: None}}}
    await made.embedded.client(HUB).patch(karmada.CLUSTERS, "dfw", merge(change))


async def other_city(made: Installation) -> None:
    change = {"metadata": {"labels": {compute.LABEL_TOPOLOGY_CITY_CODE: "dfw"}}}
    await made.embedded.client(HUB).patch(karmada.CLUSTERS, "dfw", merge(change))


async def no_cluster(made: Installation) -> None:
    await made.embedded.client(HUB).delete(karmada.CLUSTERS, "dfw")


async def cluster_away(made: Installation) -> None:
    await made.set_cluster_status("False", compute.WORKLOAD_DEPLOYMENTS.kind)


async def cluster_without_kinds(made: Installation) -> None:
    await made.set_cluster_status("True", "Deployment")


def without_right(plane: str, resource: str, verb: str) -> Omission:
    def omit(made: Installation) -> None:
        kind = plane.partition("/")[0]
        source = rights.recorded()[rights.ELECTION]["host"] if plane == HOST else made.rules(kind)
        if plane == PROJECT:
            source = (*source, *rights.recorded()[rights.WEBHOOKS]["project"], *READ_WEBHOOKS)
        left = tuple(
            PolicyRule(rule.group, rule.resource, tuple(set(rule.verbs) - {verb}))
            if rule.resource == resource
            else rule
            for rule in source
        )
        assert left != source
        made.grant(rights.MANAGEMENT, plane, left)

    return omit


def unreachable_hub(made: Installation) -> None:
    made.network.unreachable = "/clusters/hub"


def refused_credential(made: Installation) -> None:
    made.users[HUB] = "unknown"


def hub_that_is_a_project(made: Installation) -> None:
    made.users[HUB] = rights.MANAGEMENT
    config = made.kubeconfig(PROJECT, rights.MANAGEMENT)
    made.kubeconfig = lambda plane, user: (  # type: ignore[method-assign]
        config if plane == HUB else Installation.kubeconfig(made, plane, user)
    )


def old_server(made: Installation) -> None:
    made.network.version = "v1.27.3"


async def no_ready_project(made: Installation) -> None:
    await made.embedded.client("root").patch(
        resourcemanager.PROJECTS, "demo", merge(status("Ready", "False")), subresource="status"
    )


async def no_city(made: Installation) -> None:
    await made.embedded.client(PROJECT).delete(networking.LOCATION_BINDINGS, "dfw")


async def no_webhooks(made: Installation) -> None:
    await made.embedded.client(PROJECT).delete(WEBHOOK_CONFIGURATIONS[1], CONFIGURATION)


async def no_authority(made: Installation) -> None:
    """In the place of what is stored: a request that names a Service would be refused here."""
    resource, store = WEBHOOK_CONFIGURATIONS[0], made.embedded.store.planes[PROJECT]
    stored = store.get((resource.group_resource, "", CONFIGURATION))
    assert stored is not None
    obj = msgspec.json.decode(store.value(stored))
    service = {"namespace": "compute-system", "name": "compute-webhooks"}
    obj["webhooks"][0]["clientConfig"] = {"service": service}
    store.put(resource.group_resource, obj, stored)


OMISSIONS: list[tuple[Omission, str]] = [
    (no_interpreter, "hub: no interpreter of deployments: no status ever returns"),
    (
        without_script("statusAggregation"),
        "hub: the interpreter has no statusAggregation: no status ever returns",
    ),
    (
        without_script("dependencyInterpretation"),
        "hub: the interpreter has no dependencyInterpretation: ConfigMaps and Secrets of a"
        " workload do not reach its cells",
    ),
    (
        no_label,
        "hub: Cluster dfw has no label topology.datum.net/city-code: no deployment reaches it",
    ),
    (
        other_city,
        "project demo: city DFW is offered, and no Cluster of the hub has it in its label"
        " topology.datum.net/city-code",
    ),
    (no_cluster, "hub: no Cluster is joined: there is no cell"),
    (cluster_away, "hub: Cluster dfw is not ready: as the test says"),
    (
        cluster_without_kinds,
        "hub: Cluster dfw does not serve workloaddeployments.compute.datumapis.com: Karmada sends"
        " it no deployment",
    ),
    (
        without_right(HUB, "propagationpolicies", "create"),
        "hub: no right to create propagationpolicies.policy.karmada.io",
    ),
    (
        without_right(PROJECT, "workloads/status", "patch"),
        "project demo: no right to patch workloads/status.compute.datumapis.com",
    ),
    (
        without_right(HOST, "leases", "patch"),
        "own cluster: no right to patch leases.coordination.k8s.io in namespace compute-system",
    ),
    (unreachable_hub, "hub: no answer: "),
    (refused_credential, "hub: the API server refuses the credential (401)"),
    (hub_that_is_a_project, "hub: not a Karmada hub: it serves quota.miloapis.com"),
    (old_server, "root: Kubernetes v1.27.3 is older than 1.30"),
    (no_ready_project, "root: none of 1 projects is Ready"),
    (no_city, "project demo: no LocationBinding is Available: no city can be deployed to"),
    (
        no_webhooks,
        "project demo: no ValidatingWebhookConfiguration compute-workloads: Workloads are not"
        " reviewed",
    ),
    (
        no_authority,
        "project demo: MutatingWebhookConfiguration compute-workloads has no caBundle: its calls"
        " fail",
    ),
]


@pytest.mark.parametrize(("omit", "expected"), OMISSIONS, ids=[text for _, text in OMISSIONS])
async def test_a_planted_omission_is_named(omit: Omission, expected: str, tmp_path: Path) -> None:
    async with installation(tmp_path) as made:
        if (pending := omit(made)) is not None:
            await pending
        settings = made.management()

        found = await made.findings(settings)

    named = missing(found)
    assert any(text.startswith(expected) for text in named), named
    assert f"\nMissing: {len(named)}.\n" in render(found, settings)


def without_kind(on: PlaneType, name: str) -> Callable[[PlaneType], list[dict[str, Any]]]:
    def crds_for(plane_type: PlaneType) -> list[dict[str, Any]]:
        found = crds.crds_for(plane_type)
        return [each for each in found if plane_type != on or each["metadata"]["name"] != name]

    return crds_for


def with_older_hub(plane_type: PlaneType) -> list[dict[str, Any]]:
    found = crds.crds_for(plane_type)
    for each in found:
        if plane_type == planes.HUB and each["spec"]["names"]["kind"] == "WorkloadDeployment":
            schema = each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            del schema["properties"]["spec"]["properties"]["scaleSettings"]
    return found


@pytest.mark.parametrize(
    ("crds_for", "expected"),
    [
        (
            without_kind(planes.CELL, "networkbindings.networking.datumapis.com"),
            "own cluster: networkbindings.networking.datumapis.com is not defined",
        ),
        (
            without_kind(planes.HUB, "workloads.compute.datumapis.com"),
            "",
        ),
        (
            with_older_hub,
            "hub: workloaddeployments.compute.datumapis.com is of another version: it lacks"
            " spec.scaleSettings",
        ),
    ],
)
async def test_a_definition_that_a_manager_needs_is_named(
    crds_for: Callable[[PlaneType], list[dict[str, Any]]], expected: str, tmp_path: Path
) -> None:
    """And one that it does not need is not."""
    async with installation(tmp_path, crds_for) as made:
        named = missing(await made.findings(made.cell()))

    assert [text[: len(expected)] for text in named] == ([expected] if expected else [])


async def test_kinds_of_networks_are_not_missing_in_a_cell_without_networking(
    tmp_path: Path,
) -> None:
    crds_for = without_kind(planes.CELL, "networkbindings.networking.datumapis.com")
    async with installation(tmp_path, crds_for) as made:
        assert missing(await made.findings(made.cell(networking=False))) == []


async def test_a_cell_that_acts_as_another_is_named(tmp_path: Path) -> None:
    async with installation(tmp_path) as made:
        made.users[HUB] = "compute-cell-lhr"
        made.grant("compute-cell-lhr", HUB, rights.of_user("compute-cell-lhr")["hub"])

        named = missing(await made.findings(made.cell()))

    assert named == [
        "hub: acts as compute-cell-lhr, not as compute-cell-dfw: the hub holds each cell to its"
        " own name"
    ]


async def test_what_the_manager_may_not_read_is_not_called_missing(tmp_path: Path) -> None:
    async with installation(tmp_path) as made:
        webhooks = rights.recorded()[rights.WEBHOOKS]["project"]
        made.grant(rights.MANAGEMENT, PROJECT, (*made.rules("project"), *webhooks))

        found = await made.findings(made.management())

    assert missing(found) == []
    unknown = [each.text for each in found if each.verdict is Verdict.UNKNOWN]
    assert unknown == [
        f"{resource.kind} compute-workloads: this identity may not read it"
        for resource in WEBHOOK_CONFIGURATIONS
    ]
