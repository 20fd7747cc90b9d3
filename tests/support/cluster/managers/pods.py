"""Managers as the kubelet would start them: with the arguments, the configuration, the
credentials and the certificate of their rendered Deployment.

Three things differ from a Pod. Its volumes lie below one directory, and paths in arguments and
configuration are changed accordingly. It listens on free ports of loopback. And the identity
that a kubelet mounts at a fixed path is a kubeconfig.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import sysconfig
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import datum_compute
from datum_compute.testing.expectations import eventually
from scripts.build_image import PYTHON
from tests.support.cluster.certificates import HOST
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.manifests import Manifest, service_account_token
from tests.support.processes.managers import manager_command

START_SECONDS = 60.0
STOP_SECONDS = 15.0


@dataclass(frozen=True)
class ManagerDeployment:
    """What an overlay renders, and what it takes from elsewhere."""

    plane: ControlPlane
    """The cluster of the Deployment."""
    manifests: list[Manifest]
    config_maps: Mapping[str, Mapping[str, str]]
    """Those that an operator makes, by name."""
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    """By audience, where the cluster's own are not accepted."""

    @property
    def spec(self) -> dict[str, Any]:
        [found] = [each for each in self.manifests if each["kind"] == "Deployment"]
        return dict(found["spec"])

    @property
    def replicas(self) -> int:
        return int(self.spec["replicas"])

    @property
    def _namespace(self) -> str:
        [found] = [each for each in self.manifests if each["kind"] == "Deployment"]
        return str(found["metadata"]["namespace"])

    def prepare(self, directory: Path) -> list[str]:
        """Write the volumes below ``directory``; the arguments to start with."""
        pod = self.spec["template"]["spec"]
        [container] = pod["containers"]
        volumes = {each["name"]: each for each in pod["volumes"]}
        places = {
            mount["mountPath"]: directory / mount["mountPath"].lstrip("/")
            for mount in container["volumeMounts"]
        }
        for mount in container["volumeMounts"]:
            folder = places[mount["mountPath"]]
            folder.mkdir(parents=True)
            for name, content in self._files(volumes[mount["name"]], pod).items():
                (folder / name).write_bytes(content)

        def moved(text: str) -> str:
            for path, folder in places.items():
                text = text.replace(path, str(folder))
            return text

        config = places["/etc/compute-manager"] / "config.yaml"
        config.write_text(yaml.safe_dump(_on_free_ports(yaml.safe_load(moved(config.read_text())))))
        own = directory / "own.kubeconfig"
        token = service_account_token(self.plane, self._namespace, pod["serviceAccountName"])
        self.plane.write_kubeconfig(own, user=pod["serviceAccountName"], token=token)
        arguments = [
            f"--health-probe-bind-address={HOST}:0" if "--health-probe" in each else moved(each)
            for each in container["args"]
        ]
        mounted = [f"--kubeconfig={own}", f"--leader-elect-namespace={self._namespace}"]
        return [*arguments, *mounted]

    def _files(self, volume: dict[str, Any], pod: dict[str, Any]) -> dict[str, bytes]:
        if "secret" in volume:
            return dict(self.secrets[volume["secret"]["secretName"]])
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        found: dict[str, bytes] = {}
        for source in sources:
            if "configMap" in source:
                data = self._config_map(source["configMap"]["name"])
                found |= {name: text.encode() for name, text in data.items()}
            else:
                wanted = source["serviceAccountToken"]
                token = self.tokens.get(wanted["audience"]) or service_account_token(
                    self.plane,
                    self._namespace,
                    pod["serviceAccountName"],
                    wanted["audience"],
                    seconds=wanted["expirationSeconds"],
                )
                found[wanted["path"]] = token.encode()
        return found

    def _config_map(self, name: str) -> Mapping[str, str]:
        for each in self.manifests:
            if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", name):
                return dict(each["data"])
        return self.config_maps[name]


def _on_free_ports(config: dict[str, Any]) -> dict[str, Any]:
    config["metricsServer"]["bindAddress"] = f"{HOST}:0"
    if "webhookServer" in config:
        config["webhookServer"] |= {"host": HOST, "port": 0}
    return config


class ManagerPod:
    """One replica, which can be ended and started again."""

    def __init__(self, deployment: ManagerDeployment, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        directory.mkdir()
        self._arguments = deployment.prepare(directory)
        self._starts = 0
        self._suspended = False
        self._process: Process | None = None

    @property
    def log(self) -> Path:
        return self._directory / f"{self._name}-{self._starts}.log"

    @property
    def is_ready(self) -> bool:
        """Whether a Service would send requests here: it runs, and is not suspended."""
        runs = self._process is not None and self._process.returncode is None
        return runs and not self._suspended

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        self._starts += 1
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *_with_interpreter_of_image(manager_command(*self._arguments)), stderr=log
            )

    async def stop(self) -> None:
        """As the kubelet does; the process must run until then, and end in order."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.returncode is None, f"it ended by itself: see {self.log}"
        process.terminate()
        try:
            code = await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            raise
        assert code == 0, self.log

    async def kill(self) -> None:
        """As a node that fails does."""
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        await process.wait()

    def send_signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._suspended = number == signal.SIGSTOP

    @property
    def exit_code(self) -> int | None:
        """Of a process that has ended by itself; the next start replaces it."""
        return self._process.returncode if self._process is not None else None

    async def metrics(self) -> Mapping[str, float]:
        """What Prometheus would read: each series, as it is written, with its value."""
        text = await _get(self.port("metrics"), "/metrics")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        pairs = (line.rpartition(" ") for line in lines)
        return {series: float(value) for series, _, value in pairs}

    async def leads(self) -> bool:
        found = (await self.metrics()).items()
        return any(value for name, value in found if name.startswith("leader_election_master"))

    async def wait_ready(self) -> None:
        async def look() -> str:
            port = self.port("probes")
            return await _probe(port) if port else f"it serves no probes: {self._last_lines()}"

        await eventually(f"{self._name} is ready", look, within=START_SECONDS)

    def port(self, server: str) -> int:
        """The port of ``probes``, ``metrics`` or ``webhooks``; 0 before it is served."""
        for line in self.log.read_text().splitlines(keepends=True):
            # Another line is no object, and the last one may be half written.
            if line.startswith("{") and line.endswith("}\n"):
                entry = json.loads(line)
                if entry["msg"] == "serving" and entry["server"] == server:
                    return int(entry["port"])
        return 0

    def _last_lines(self) -> list[str]:
        return self.log.read_text().splitlines()[-5:]

    async def check(self) -> tuple[int | None, str]:
        """What ``--check`` says in this Pod."""
        process = await asyncio.create_subprocess_exec(
            *manager_command("--check", *self._arguments), stdout=PIPE
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()


def _with_interpreter_of_image(command: list[str]) -> list[str]:
    """Run by the interpreter that the image has, where this machine has it too: how Python was
    built makes a fifth of the CPU time. Elsewhere by the interpreter of the tests."""
    python = Path(f"/usr/bin/python{PYTHON}")
    if not python.exists() or sys.version_info[:2] != tuple(map(int, PYTHON.split("."))):
        return command
    paths = (str(Path(datum_compute.__file__).parents[1]), sysconfig.get_path("purelib"))
    return ["/usr/bin/env", f"PYTHONPATH={':'.join(paths)}", str(python), *command[1:]]


async def _probe(port: int) -> str:
    try:
        text = await _get(port, "/readyz?verbose", only_ok=False)
    except OSError as error:
        return str(error)
    return "" if " 200 " in text.partition("\r\n")[0] else text


async def _get(port: int, path: str, *, only_ok: bool = True) -> str:
    """The body of the answer; with its head unless ``only_ok``."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    if not only_ok:
        return text
    head, _, body = text.partition("\r\n\r\n")
    assert " 200 " in head.partition("\r\n")[0], head
    return body


@contextlib.asynccontextmanager
async def manager_pods(
    deployment: ManagerDeployment, directory: Path, name: str
) -> AsyncIterator[list[ManagerPod]]:
    """All replicas of a Deployment, once they are ready."""
    pods = [
        ManagerPod(deployment, directory / f"{name}-{number}", name)
        for number in range(deployment.replicas)
    ]
    async with contextlib.AsyncExitStack() as stack:
        for pod in pods:
            stack.push_async_callback(pod.stop)
            await pod.start()
        for pod in pods:
            await pod.wait_ready()
        yield pods
