"""A federation on real Karmada, with our managers as their overlays deploy them.

Hub, cells and the cluster of management are real. Root and projects, which Milo would serve, are
planes of the embedded server with the stand-ins of Milo and network services; it calls the
webhooks of management as registered in `deploy/base/project`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
import yaml

from datum_compute.api import core, planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.planes import CELL, HUB, PROJECT, ROOT
from datum_compute.apiserver.http.certificates import Certificates, ensure_certificates
from datum_compute.apiserver.http.listener import serve
from datum_compute.apiserver.request.admission import Admission
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly import rights
from datum_compute.assembly.local import admission, bootstrap
from datum_compute.assembly.local.platform import ADMIN, ManagerFactory, in_process_transport
from datum_compute.client import errors, kubeconfig
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse, Transport
from datum_compute.env import SystemEnvironment
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.calls import RecordingAuthorizer
from datum_compute.testing.expectations import eventually
from tests.support.cluster.certificates import HOST
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.karmada import KarmadaClusters
from tests.support.cluster.managers.pods import ManagerDeployment, ManagerPod, manager_pods
from tests.support.cluster.managers.rollout import running_pods
from tests.support.cluster.manifests import Manifest, apply, render, service_account_token
from tests.support.cluster.node import Node
from tests.support.processes.managers import (
    SETTINGS,
    TOKEN,
    ManagedPlatform,
    PlatformWithoutControllers,
)
from tests.support.rights.manifests import documents
from tests.support.simulation.platform import leftovers

NAMESPACE = "default"
PODS = "pod-provider"
"""The component with which cells run Instances as Pods."""
EMPTY_SECONDS = 120.0


class DivertedTransport:
    """Sends requests for a plane of the embedded server to a real one instead, as another user."""

    def __init__(self, inner: Transport, plane: str, token: str) -> None:
        self._inner = inner
        self._prefix = planes.plane_prefix(plane)
        self._token = token

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        path = request.path.removeprefix(self._prefix)
        headers = {**request.headers, "authorization": f"Bearer {self._token}"}
        diverted = msgspec.structs.replace(request, path=path, headers=headers)
        return await self._inner.send(diverted, timeout=timeout)

    async def close(self) -> None:
        """The inner transport is shared, and closed where it was opened."""


class WebhookCaller:
    """The API server of the projects, which calls the webhooks of the replicas in turn."""

    def __init__(self, authority: bytes) -> None:
        self._authority = authority
        self._pods: list[ManagerPod] = []
        self.calls = 0

    def register(self, pods: list[ManagerPod]) -> None:
        self._pods = pods

    def admission(self) -> Admission:
        return Admission(
            admission.NAME,
            frozenset({compute.WORKLOADS.group_resource}),
            self._reviewer("MutatingWebhookConfiguration"),
            self._reviewer("ValidatingWebhookConfiguration"),
        )

    def _reviewer(self, kind: str) -> Any:
        [found] = [each for _, each in documents("project") if each["kind"] == kind]
        [webhook] = found["webhooks"]
        path = webhook["clientConfig"]["service"]["path"]

        async def review(body: Any) -> Any:
            self.calls += 1
            ready = [pod.port("webhooks") for pod in self._pods if pod.is_ready]
            served = [each for each in ready if each]  # 0 while it starts
            port = served[self.calls % len(served)]
            transport = HttpTransport(f"https://{HOST}:{port}", ca_pem=self._authority)
            headers = {"content-type": "application/json"}
            request = HttpRequest("POST", path, headers=headers, body=msgspec.json.encode(body))
            try:
                response = await transport.send(request, timeout=webhook["timeoutSeconds"])
            finally:
                await transport.close()
            return msgspec.json.decode(response.body)

        return review


class RootAndProjects(PlatformWithoutControllers):
    """Everything but the hub, the cells and our managers."""

    webhooks: WebhookCaller
    simulates_provider = True

    def processes(self) -> list[tuple[str, ManagerFactory]]:
        absent = ["standin-propagation"]
        if not self.simulates_provider:
            absent += [f"{rights.PROVIDER}-{cell}" for cell in self.settings.cells]
        return [each for each in super().processes() if each[0] not in absent]

    def admissions(self) -> tuple[Admission, ...]:
        _, claims = super().admissions()
        return self.webhooks.admission(), claims

    def token(self, user: str) -> str:
        found = super().token(user)
        if user == rights.MANAGEMENT:  # which serves the webhooks too
            reviews = rights.of_user(rights.WEBHOOKS)
            for plane, rules in rights.of_user(user).items():
                self._roles.grant(user, plane, (*rules, *reviews.get(plane, ())))
        return found

    async def _bootstrap_planes(self) -> None:
        await bootstrap.ensure_root(self.client(ROOT.plane(), ADMIN), self.settings)
        for city, cell in zip(self.settings.cities, self.settings.cells, strict=True):
            await bootstrap.ensure_location(self.client(CELL.plane(cell), ADMIN), city)


class SwitchedProcess:
    """A process of the embedded platform that a test stops and starts again."""

    def __init__(self, build: Callable[[], Manager]) -> None:
        self._build = build
        self._manager: Manager | None = None
        self._wanted, self._unwanted = asyncio.Event(), asyncio.Event()
        self._lives = asyncio.Event()
        self._wanted.set()

    async def run(self) -> None:
        async with TaskGroup("switched process") as tasks:
            while True:
                await self._wanted.wait()
                self._manager = self._build()
                self._lives.set()
                running = tasks.start(self._manager.run(), name="life")
                await self._unwanted.wait()
                self._unwanted.clear()
                await tasks.stop(running)

    async def wait_ready(self) -> None:
        await self._lives.wait()
        assert self._manager is not None
        await self._manager.wait_ready()

    def start(self) -> None:
        self._wanted.set()

    def stop(self) -> None:
        self._wanted.clear()
        self._lives.clear()
        self._unwanted.set()


class KarmadaStage(ManagedPlatform):
    quiet_seconds = 10.0

    def __init__(
        self,
        platform: RootAndProjects,
        clusters: KarmadaClusters,
        managers: dict[str, list[ManagerPod]],
        kubeconfig: Path,
        authorizer: RecordingAuthorizer,
    ) -> None:
        super().__init__(platform)
        self.clusters = clusters
        self._authorizer = authorizer
        self._excused = self._denied()
        self.webhooks = platform.webhooks
        self.processes: dict[str, SwitchedProcess] = {}
        """Those that the embedded platform runs: stand-ins and providers."""
        self.managers = managers
        """The replicas of ``management`` and of each cell."""
        self.kubeconfig = kubeconfig
        """Of the project's administrator."""

    @property
    def hub(self) -> Client:
        return self.client(HUB.plane())

    def cell(self, city: str = "DFW") -> Client:
        return self.client(CELL.plane(city.lower()))

    @property
    def hub_namespace(self) -> str:
        return self.shared_namespace

    async def namespace_of(self, namespace: str) -> str:
        """The namespace on hub and cells of a namespace of the project."""
        return f"ns-{(await self.project.get(core.NAMESPACES, namespace)).metadata.uid}"

    @contextlib.asynccontextmanager
    async def without(self, name: str) -> AsyncIterator[None]:
        """Without the replicas of a manager."""
        for pod in self.managers[name]:
            await pod.stop()
        try:
            yield
        finally:
            for pod in self.managers[name]:
                await pod.start()
            for pod in self.managers[name]:
                await pod.wait_ready()

    @contextlib.asynccontextmanager
    async def without_provider(self, city: str) -> AsyncIterator[None]:
        process = self.processes[f"{rights.PROVIDER}-{city.lower()}"]
        process.stop()
        try:
            yield
        finally:
            process.start()
            await process.wait_ready()

    def without_cell_manager(self, city: str) -> contextlib.AbstractAsyncContextManager[None]:
        return self.without(city.lower())

    @contextlib.asynccontextmanager
    async def restarting(self) -> AsyncIterator[list[str]]:
        """Managers that end are started again, as the kubelet does. Says which ended, and how."""
        ended: list[str] = []

        async def watch() -> None:
            while True:
                await asyncio.sleep(0.5)
                for name, pods in self.managers.items():
                    for pod in pods:
                        if pod.exit_code is not None:
                            ended.append(f"{name} with {pod.exit_code}")
                            await pod.start()

        watching = asyncio.create_task(watch())
        try:
            yield ended
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def leader(self, name: str) -> ManagerPod:
        """The replica of a manager that acts."""
        found: list[ManagerPod] = []

        async def look() -> str:
            found[:] = [pod for pod in self.managers[name] if await pod.leads()]
            return "" if len(found) == 1 else f"{len(found)} replicas of {name} lead"

        await eventually("one leads", look, within=60)
        return found[0]

    async def check(self, name: str) -> tuple[int | None, str]:
        """What ``--check`` says of a manager. It may ask for what a manager needs no right to."""
        with self.excused():
            return await self.managers[name][0].check()

    @contextlib.contextmanager
    def excused(self) -> Iterator[None]:
        """What is denied in the block is not missing."""
        before = self._denied()
        yield
        self._excused += self._denied() - before

    def newly_denied(self) -> Counter[object]:
        """Requests of our managers that this federation has denied."""
        return self._denied() - self._excused

    def _denied(self) -> Counter[object]:
        refused = (call for call in self.clusters.calls() if call.code == 403)
        return Counter[object](self._authorizer.denied) + Counter[object](refused)

    async def empty(self) -> None:
        """Delete what a test has made, until nothing is left of it on any plane."""
        for resource in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS):
            for obj in (await self.project.list(resource)).items:
                with contextlib.suppress(errors.NotFound):
                    await self.project.delete(resource, obj.name, obj.namespace)
        for client in (self.hub, *map(self.cell, self.settings.cities)):
            for obj in (await client.list(compute.INSTANCES, self.hub_namespace)).items:
                if not obj.metadata.owner_references:  # written by hand
                    with contextlib.suppress(errors.NotFound):
                        await client.delete(compute.INSTANCES, obj.name, self.hub_namespace)
        await eventually("nothing is left", lambda: leftovers(self), within=EMPTY_SECONDS)


class SharedStage:
    """A federation on an event loop of its own, for tests one after the other."""

    def __init__(self, clusters: KarmadaClusters, directory: Path, *components: str) -> None:
        self._clusters = clusters
        self._directory = directory
        self._components = components
        self._stage: Future[KarmadaStage] = Future()
        self._end = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._stage.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def run(self, test: Callable[[KarmadaStage], Coroutine[Any, Any, None]]) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._run(test), self._loop).result()

    async def _run(self, test: Callable[[KarmadaStage], Coroutine[Any, Any, None]]) -> None:
        stage = self._stage.result()
        try:
            await test(stage)
        except BaseException:
            with contextlib.suppress(AssertionError):  # the test's own failure says more
                await stage.empty()
            raise
        await stage.empty()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with karmada_federation(
                self._clusters, self._directory, *self._components
            ) as stage:
                self._stage.set_result(stage)
                await asyncio.to_thread(self._end.wait)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the tests
            self._failure = error
            if not self._stage.done():
                self._stage.set_exception(error)


@contextlib.asynccontextmanager
async def karmada_federation(
    clusters: KarmadaClusters,
    directory: Path,
    *components: str,
    nodes: Mapping[str, Node] | None = None,
) -> AsyncIterator[KarmadaStage]:
    """``components`` are further ones of the cells. ``nodes`` run the managers of their cells as
    Pods, from an image that they have; the other managers are processes."""
    nodes = nodes or {}
    cells = {name: render("cell", "networking", *components, cell=name) for name in clusters.cells}
    for name, manifests in cells.items():
        apply(clusters.cells[name], manifests)
    management = render("management-plane")
    apply(clusters.management, management)
    env = SystemEnvironment()
    calls: list[RecordingAuthorizer] = []

    def guard(roles: Roles) -> RecordingAuthorizer:
        calls.append(RecordingAuthorizer(roles))
        return calls[0]

    processes: dict[str, SwitchedProcess] = {}

    def supervise(name: str, build: ManagerFactory) -> SwitchedProcess:
        processes[name] = SwitchedProcess(partial(build, env))
        return processes[name]

    certificates = ensure_certificates(_made(directory / "webhooks"), env)
    async with contextlib.AsyncExitStack() as stack:
        platform = RootAndProjects(
            env,
            directory / "state.db",
            SETTINGS,
            transport_factory=_transports(clusters, stack),
            supervise=supervise,
            guard=guard,
        )
        platform.webhooks = WebhookCaller(certificates.ca_pem)
        platform.simulates_provider = PODS not in components
        await stack.enter_async_context(platform.run(admin_token=TOKEN))
        port = await stack.enter_async_context(
            serve(platform.server, env, directory=directory, ports=[0])
        )
        files = _Files(clusters, platform, directory, f"https://{HOST}:{port}")
        managers: dict[str, list[ManagerPod]] = {}
        stage = KarmadaStage(platform, clusters, managers, files.of_the_project(), calls[0])
        stage.processes = processes
        deployment = files.deployment(
            clusters.management, management, rights.MANAGEMENT, certificates
        )
        managers["management"] = await stack.enter_async_context(
            manager_pods(deployment, directory, "management")
        )
        platform.webhooks.register(managers["management"])
        for name, manifests in cells.items():
            user = f"{rights.CELL}-{name}"
            if name in nodes:
                apply(clusters.cells[name], files.config_maps(nodes[name], port, user))
                await stack.enter_async_context(running_pods(clusters.cells[name]))
                continue
            deployment = files.deployment(clusters.cells[name], manifests, user)
            managers[name] = await stack.enter_async_context(
                manager_pods(deployment, directory, name)
            )
        stage.shared_namespace = await stage.namespace_of(NAMESPACE)
        yield stage
    assert stage.newly_denied() == Counter(), "rights are missing"


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _transports(clusters: KarmadaClusters, stack: contextlib.AsyncExitStack) -> Any:
    """To hub and cells as administrator, and in a cell as its provider."""
    real = {HUB.plane(): clusters.hub}
    real |= {CELL.plane(name): plane for name, plane in clusters.cells.items()}
    shared: dict[str, HttpTransport] = {}

    def transport(handler: Handler, process: str, plane: str) -> Transport:
        if plane not in real:
            return in_process_transport(handler, process, plane)
        cluster = real[plane]
        if plane not in shared:
            shared[plane] = HttpTransport(cluster.server, ca_pem=cluster.ca_pem)
            stack.push_async_callback(shared[plane].close)
        token = cluster.token
        if process.startswith(f"{rights.PROVIDER}-"):
            token = service_account_token(cluster, "compute-system", "compute-provider")
        return DivertedTransport(shared[plane], plane, token)

    return transport


class _Files:
    """What an operator makes besides the overlays."""

    def __init__(
        self, clusters: KarmadaClusters, platform: RootAndProjects, directory: Path, origin: str
    ) -> None:
        self._clusters = clusters
        self._platform = platform
        self._directory = directory
        self._origin = origin
        self._authority = (directory / "ca.crt").read_bytes()

    def deployment(
        self,
        plane: ControlPlane,
        manifests: list[Manifest],
        user: str,
        webhooks: Certificates | None = None,
    ) -> ManagerDeployment:
        projects = self._origin + planes.plane_prefix(ROOT.plane())
        hub = self._clusters.hub
        secrets = {}
        if webhooks is not None:
            pair = {"tls.crt": webhooks.certificate, "tls.key": webhooks.key}
            files = {name: path.read_bytes() for name, path in pair.items()}
            secrets["compute-webhook-certificate"] = files
        return ManagerDeployment(
            plane,
            manifests,
            {
                "compute-hub": {"config": _with_token_file(hub.server, hub.ca_pem)},
                "compute-projects": {"config": _with_token_file(projects, self._authority)},
            },
            secrets,
            # The embedded server knows no service accounts of other clusters.
            {"compute-projects": self._platform.token(user)},
        )

    def config_maps(self, node: Node, projects_port: int, user: str) -> list[Manifest]:
        """What an operator makes where the manager is a Pod on this node. Its servers are reached
        by an address that is not in their certificates."""
        hub = self._clusters.hub
        hub_address = node.forward(int(hub.server.rpartition(":")[2]))
        projects = node.forward(projects_port) + planes.plane_prefix(ROOT.plane())
        # The embedded server knows no service accounts of other clusters.
        token = {"token": self._platform.token(user)}
        configs = {
            "compute-hub": _with_token_file(f"https://{hub_address}", hub.ca_pem, "localhost"),
            "compute-projects": _kubeconfig(
                f"https://{projects}", self._authority, token, "localhost"
            ),
        }
        return [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "compute-system"},
                "data": {"config": text},
            }
            for name, text in configs.items()
        ]

    def of_the_project(self) -> Path:
        path = self._directory / "project.kubeconfig"
        prefix = planes.plane_prefix(PROJECT.plane(self._platform.settings.project))
        text = kubeconfig.render(
            server=self._origin + prefix,
            ca_pem=self._authority,
            token=TOKEN,
            name=self._platform.settings.project,
            user=ADMIN,
        )
        path.write_text(text)
        return path


def _with_token_file(server: str, authority: bytes, server_name: str = "") -> str:
    """A kubeconfig as the page about installing has it."""
    return _kubeconfig(server, authority, {"tokenFile": "token"}, server_name)


def _kubeconfig(server: str, authority: bytes, user: dict[str, str], server_name: str) -> str:
    data = base64.b64encode(authority).decode()
    cluster = {"server": server, "certificate-authority-data": data}
    if server_name:
        cluster["tls-server-name"] = server_name
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "manager",
        "clusters": [{"name": "server", "cluster": cluster}],
        "users": [{"name": "manager", "user": user}],
        "contexts": [{"name": "manager", "context": {"cluster": "server", "user": "manager"}}],
    }
    return yaml.safe_dump(config)
