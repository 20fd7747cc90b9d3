"""A cell that serves Pods, with a stand-in for its scheduler and kubelet.

The stand-in writes the statuses of Pods as they were read from Kubernetes 1.32. What becomes of a
Pod follows from its spec: an image that cannot be had, a command that does not exist, a shell
command that ends, a size that no node has, a ConfigMap or Secret that is missing.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Any

from datum_compute.api import core, planes
from datum_compute.api.meta import Object
from datum_compute.api.quantities import parse
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.kinds.columns import AGE, NAME
from datum_compute.apiserver.kinds.served_kind import VERBS, ServedKind
from datum_compute.apiserver.request.access import Authorizer
from datum_compute.apiserver.schema import compiled
from datum_compute.apiserver.verbs.logs import LogSubresource
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import EventType, merge
from datum_compute.decisions.references import PULL_KEY
from datum_compute.providers.conformance import PrivateImage
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import EmbeddedServer, embedded_server

CELL = "cell/dfw"
FINALIZER = "kubelet.example/holds"
"""On every Pod, for the time its containers take to end: this server deletes at once otherwise."""
STOP_SECONDS = 1.0
NODE_CORES = 64
MISSING_IMAGE = "localhost/no-such-image:1"
ROOT_IMAGE = "localhost/runs-as-root:1"
PRIVATE_IMAGE = PrivateImage("registry.private/app:1", "registry.private", "kit", "right-password")
RETRY_SECONDS = 2.0
"""Until a kubelet looks again for data that is missing."""

PULL_ERROR = (
    f'failed to pull and unpack image "{MISSING_IMAGE}": failed to resolve reference'
    f' "{MISSING_IMAGE}": failed to do request: Head'
    ' "https://localhost/v2/no-such-image/manifests/1": dial tcp 127.0.0.1:443: connect:'
    " connection refused"
)
START_ERROR = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed:"
    ' runc create failed: unable to start container process: exec: "{}": stat {}: no such file'
    " or directory: unknown"
)
UNSCHEDULABLE = (
    "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1"
    " No preemption victims found for incoming pod."
)
UNAUTHORIZED = (
    f'failed to pull and unpack image "{PRIVATE_IMAGE.reference}": failed to resolve reference'
    f' "{PRIVATE_IMAGE.reference}": unexpected status from HEAD request to'
    " https://registry.private/v2/app/manifests/1: 401 Unauthorized"
)
RUNS_AS_ROOT = 'container has runAsNonRoot and image will run as root (pod: "{}", container: {})'

PODS = ServedKind(
    resource=core.PODS,
    list_kind="PodList",
    singular="pod",
    short_names=("po",),
    categories=("all",),
    columns=(NAME, AGE),
    has_status=True,
    schema=compiled({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    verbs=VERBS,
    selectable_fields=(),
    builtin=True,
)
SERVICES = replace(
    PODS,
    resource=core.SERVICES,
    list_kind="ServiceList",
    singular="service",
    short_names=("svc",),
    has_status=False,
)


def stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


async def _keys(
    client: ApiClient, resource: Resource, name: str, namespace: str
) -> dict[str, Any] | None:
    try:
        found = await client.get(resource, name, namespace)
    except errors.NotFound:
        return None
    return values(found.data)


async def missing_files(client: ApiClient, namespace: str, volume: Mapping[str, Any]) -> str:
    """The kubelet's words about a volume that it cannot mount; empty for one that it can."""
    for field, resource, named, words in (
        ("configMap", core.CONFIG_MAPS, "name", "config"),
        ("secret", core.SECRETS, "secretName", "secret"),
    ):
        source = volume.get(field)
        if source is None or source.get("optional"):
            continue
        keys = await _keys(client, resource, source[named], namespace)
        if keys is None:
            return f'{resource.kind.lower()} "{source[named]}" not found'
        for item in source.get("items", ()):
            if item["key"] not in keys:
                return f"references non-existent {words} key: {item['key']}"
    return ""


async def missing_variables(client: ApiClient, namespace: str, container: Mapping[str, Any]) -> str:
    """The kubelet's words about variables that it cannot set."""
    sources = [(each, "Ref") for each in container.get("envFrom", ())]
    sources += [(each.get("valueFrom") or {}, "KeyRef") for each in container.get("env", ())]
    for source, ending in sources:
        for field, resource in (("configMap", core.CONFIG_MAPS), ("secret", core.SECRETS)):
            ref = source.get(field + ending)
            if ref is None or ref.get("optional"):
                continue
            keys = await _keys(client, resource, ref["name"], namespace)
            if keys is None:
                return f'{resource.kind.lower()} "{ref["name"]}" not found'
            if ending == "KeyRef" and ref["key"] not in keys:
                where = f"{resource.kind} {namespace}/{ref['name']}"
                return f"couldn't find key {ref['key']} in {where}"
    return ""


async def may_pull(client: ApiClient, namespace: str, spec: Mapping[str, Any]) -> bool:
    """Whether a Secret of the Pod has the password of the private image."""
    wanted = f"{PRIVATE_IMAGE.username}:{PRIVATE_IMAGE.password}"
    auth = base64.b64encode(wanted.encode()).decode()
    for each in spec.get("imagePullSecrets", ()):
        keys = await _keys(client, core.SECRETS, each["name"], namespace)
        content = json.loads(base64.b64decode((keys or {}).get(PULL_KEY, "e30=")))
        if content.get("auths", {}).get(PRIVATE_IMAGE.registry, {}).get("auth") == auth:
            return True
    return False


class PodCluster:
    """The scheduler and the kubelet of one node."""

    def __init__(self, env: SimulatedEnvironment) -> None:
        self.env = env
        self._addresses = count(2)
        self._lines: dict[str, list[tuple[datetime, str]]] = {}
        self._written: dict[str, asyncio.Event] = {}
        self._wakes: dict[tuple[str, str], asyncio.Event] = {}
        self._killed: dict[tuple[str, str], int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self, client: ApiClient) -> None:
        async with TaskGroup("kubelet") as tasks, client.watch(core.PODS) as events:
            async for event in events:
                pod = event.object
                uid = pod.metadata.uid
                if event.type is EventType.DELETED:
                    self._end_lines(uid)
                elif pod.metadata.deleting:
                    if pod.metadata.finalizers:
                        tasks.start(self._stop(client, pod), name=f"stop {pod.name}")
                elif uid not in self._tasks and event.type is EventType.ADDED:
                    life = self._live(client, pod)
                    self._tasks[uid] = tasks.start(life, name=f"pod {pod.name}")

    def as_logs(self) -> LogSubresource:
        return LogSubresource("pods", frozenset({planes.CELL}), self._read)

    def kill(self, pod_uid: str, container: str, exit_code: int = 137) -> None:
        """End the process of a container."""
        self._killed[pod_uid, container] = exit_code
        self._wakes[pod_uid, container].set()

    async def evict(self, client: ApiClient, pod: Object, reason: str, message: str) -> None:
        """As a node that ends or refuses a Pod."""
        self._tasks[pod.metadata.uid].cancel()
        status = {"phase": "Failed", "reason": reason, "message": message}
        await _write(client, pod, {**status, "containerStatuses": [], "podIP": None})

    async def _stop(self, client: ApiClient, pod: Object) -> None:
        if life := self._tasks.get(pod.metadata.uid):
            life.cancel()
        await asyncio.sleep(STOP_SECONDS)
        body: dict[str, Any] = {"metadata": {"finalizers": []}}
        await client.patch(core.PODS, pod.name, merge(body), pod.namespace)

    async def _live(self, client: ApiClient, pod: Object) -> None:
        held = {"metadata": {"finalizers": [FINALIZER]}}
        await client.patch(core.PODS, pod.name, merge(held), pod.namespace)
        spec = json.loads(bytes(pod.spec))
        cores = sum(float(parse(each["resources"]["limits"]["cpu"])) for each in spec["containers"])
        if cores > NODE_CORES:
            unscheduled = _condition("PodScheduled", False, "Unschedulable", UNSCHEDULABLE)
            await _write(client, pod, {"phase": "Pending", "conditions": [unscheduled]})
            return
        await _write(client, pod, {"phase": "Pending", "conditions": [SCHEDULED]})
        board = _Board(client, pod, f"10.244.0.{next(self._addresses)}")
        names = [each["name"] for each in spec["containers"]]
        for name in names:
            self._wakes[pod.metadata.uid, name] = asyncio.Event()
            board.statuses[name] = {"state": _waiting("ContainerCreating")}
        await self._mount(client, pod, board, spec)
        async with asyncio.TaskGroup() as group:
            for container in spec["containers"]:
                group.create_task(self._container(board, container, spec))

    async def _mount(
        self, client: ApiClient, pod: Object, board: _Board, spec: Mapping[str, Any]
    ) -> None:
        """Until every volume is there. What is missing is told by an Event alone."""
        for volume in spec.get("volumes", ()):
            while words := await missing_files(client, pod.namespace, volume):
                for name in board.statuses:
                    await board.set(name)
                text = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {words}'
                await self._record_event(client, pod, "FailedMount", text)
                await asyncio.sleep(RETRY_SECONDS)

    async def _record_event(
        self, client: ApiClient, pod: Object, reason: str, message: str
    ) -> None:
        about = {"kind": "Pod", "name": pod.name, "namespace": pod.namespace}
        body = {
            "metadata": {"generateName": f"{pod.name}."},
            "involvedObject": {**about, "uid": pod.metadata.uid},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "lastTimestamp": stamp(self.env.now()),
        }
        await client.create(core.EVENTS, body, pod.namespace)

    async def _container(
        self, board: _Board, container: Mapping[str, Any], spec: Mapping[str, Any]
    ) -> None:
        name, command = container["name"], container.get("command") or []
        last: dict[str, Any] = {}
        restarts, delay = 0, 0.0
        while True:
            if container["image"] == MISSING_IMAGE:
                await self._fail_to_pull(board, name, MISSING_IMAGE, PULL_ERROR)
            if container["image"] == PRIVATE_IMAGE.reference and not await may_pull(
                board.client, board.pod.namespace, spec
            ):
                await self._fail_to_pull(board, name, PRIVATE_IMAGE.reference, UNAUTHORIZED)
            while words := await missing_variables(board.client, board.pod.namespace, container):
                await board.set(name, state=_waiting("CreateContainerConfigError", words))
                await asyncio.sleep(RETRY_SECONDS)
            if spec["securityContext"].get("runAsNonRoot") and container["image"] == ROOT_IMAGE:
                where = f"{board.pod.name}_{board.pod.namespace}({board.pod.metadata.uid})"
                words = RUNS_AS_ROOT.format(where, name)
                await board.set(name, state=_waiting("CreateContainerConfigError", words))
                return
            if command and not command[0].startswith("/bin/"):
                words = START_ERROR.format(command[0], command[0])
                ended = _terminated(128, "StartError", words)
            else:
                self.print(board.pod.metadata.uid, "hello")
                ended = await self._process(board, name, command, restarts, last)
            await board.set(name, ready=False, state=ended, lastState=last, restartCount=restarts)
            last = ended
            if delay:
                await board.set(name, state=_waiting("CrashLoopBackOff"), lastState=last)
                await asyncio.sleep(delay)
            delay = min(300.0, max(10.0, delay * 2))
            restarts += 1

    async def _process(
        self,
        board: _Board,
        name: str,
        command: list[str],
        restarts: int,
        last: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Runs until it ends by itself or is killed."""
        key = (board.pod.metadata.uid, name)
        running = {"running": {"startedAt": stamp(self.env.now())}}
        await board.set(name, ready=True, state=running, lastState=last, restartCount=restarts)
        if command[-1:] and command[-1].startswith("exit "):
            await asyncio.sleep(0.1)
            return _terminated(int(command[-1].split()[1]), "Error")
        self._wakes[key].clear()
        await self._wakes[key].wait()
        code = self._killed.pop(key)
        return _terminated(code, "OOMKilled" if code == 137 else "Error")

    async def _fail_to_pull(self, board: _Board, name: str, image: str, error: str) -> None:
        backing_off = f'Back-off pulling image "{image}": ErrImagePull: {error}'
        while True:
            await board.set(name, state=_waiting("ErrImagePull", error))
            await asyncio.sleep(2)
            await board.set(name, state=_waiting("ImagePullBackOff", backing_off))
            await asyncio.sleep(10)

    # Lines.

    def print(self, uid: str, text: str) -> None:
        self._lines.setdefault(uid, []).append((self.env.now(), text))
        self._written.setdefault(uid, asyncio.Event()).set()

    def _end_lines(self, uid: str) -> None:
        self._lines.pop(uid, None)
        self._written.setdefault(uid, asyncio.Event()).set()

    async def _read(
        self,
        plane: str,
        obj: Mapping[str, Any],
        *,
        tail: int | None,
        since: datetime | None,
        follow: bool,
    ) -> AsyncIterator[tuple[datetime, str]]:
        uid = obj["metadata"]["uid"]
        lines = self._lines.setdefault(uid, [])
        sent = 0 if tail is None else max(0, len(lines) - tail)
        while True:
            for line in lines[sent:]:
                sent += 1
                yield line
            if not follow or self._lines.get(uid) is not lines:
                return
            written = self._written.setdefault(uid, asyncio.Event())
            written.clear()
            await written.wait()


class _Board:
    """The status of one Pod, written whole as the kubelet does."""

    def __init__(self, client: ApiClient, pod: Object, address: str) -> None:
        self.client = client
        self._address = address
        self.pod = pod
        self.statuses: dict[str, dict[str, Any]] = {}

    async def set(self, container: str, **status: Any) -> None:
        default = {"ready": False, "restartCount": 0, "lastState": {}}
        self.statuses[container] = {**default, **self.statuses[container], **status}
        found = [{"name": name, **each} for name, each in self.statuses.items()]
        ready = all(each.get("ready") for each in found)
        started = all("waiting" not in each["state"] or each.get("lastState") for each in found)
        words = "" if ready else f"containers with unready status: [{container}]"
        why = "" if ready else "ContainersNotReady"
        status = {
            "phase": "Running" if started else "Pending",
            "podIP": self._address,
            "conditions": [
                _condition("Ready", ready, why, words),
                _condition("ContainersReady", ready, why, words),
                SCHEDULED,
            ],
            "containerStatuses": found,
        }
        await _write(self.client, self.pod, status)


async def _write(client: ApiClient, pod: Object, status: Mapping[str, Any]) -> None:
    body = merge({"status": status})
    await client.patch(core.PODS, pod.name, body, pod.namespace, subresource="status")


def _condition(kind: str, holds: bool, reason: str = "", message: str = "") -> dict[str, Any]:
    found = {"type": kind, "status": str(holds), "reason": reason, "message": message}
    return {key: value for key, value in found.items() if value}


SCHEDULED = _condition("PodScheduled", True)


def _waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def _terminated(code: int, reason: str, message: str = "") -> dict[str, Any]:
    found = {"exitCode": code, "reason": reason}
    return {"terminated": {**found, **({"message": message} if message else {})}}


@asynccontextmanager
async def cluster_of_pods(
    authorizer: Authorizer | None = None, env: SimulatedEnvironment | None = None
) -> AsyncIterator[tuple[EmbeddedServer, PodCluster]]:
    env = env or SimulatedEnvironment()
    cluster = PodCluster(env)
    async with (
        embedded_server(
            env,
            cells=("dfw",),
            extra_kinds=[PODS, SERVICES],
            logs=cluster.as_logs(),
            authorizer=authorizer,
        ) as embedded,
        TaskGroup("cluster") as tasks,
    ):
        kubelet = tasks.start(cluster.run(embedded.client(CELL, "kubelet")), name="kubelet")
        try:
            yield embedded, cluster
        finally:
            await tasks.stop(kubelet)
