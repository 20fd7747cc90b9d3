"""A real node for a control plane: containerd, kubelet and scheduler, as root.

Everything lies in the directory of the control plane or under an own name: the state of
containerd, the kubelet's files, a bridge, a cgroup. The kubelet changes settings of the kernel;
they are put back, and mounts, cgroups, the bridge and network namespaces are removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from datum_compute.env import SystemEnvironment
from datum_compute.providers.container import host
from datum_compute.providers.container.images.archive import build_archive
from tests.support.cluster.certificates import SERVICE_ADDRESS, write_self_signed
from tests.support.cluster.control_plane import ControlPlane, ControlPlaneError, Process
from tests.support.cluster.forwarder import Forwarder

IMAGE = host.BUSYBOX_IMAGE
PAUSE = "localhost/datum-compute-pause:1"
START_SECONDS = 90.0
STOP_SECONDS = 30.0
IMPORT_SECONDS = 300.0
"""An image of 125 MB is unpacked, on a machine that may be busy."""
CGROUPS = Path("/sys/fs/cgroup")
PLUGINS = Path("/usr/lib/cni")
NAMESPACES = Path("/run/netns")
KERNEL = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/ip_forward",
)
"""What the kubelet and the bridge plugin change."""
CONTROLLERS = (
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
)
DEPLOYMENTS = (
    "deployment-controller",
    "replicaset-controller",
    "endpoints-controller",
    "endpointslice-controller",
)
"""Controllers that make Pods of Deployments, and find them for Services."""
PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
}
"""What must be installed, with its package."""


def missing() -> str:
    """Why this machine cannot run a node; empty where it can."""
    if os.geteuid() != 0:
        return "it needs root"
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install {package}"
    if not (PLUGINS / "bridge").exists():
        return f"{PLUGINS}/bridge is not there: apt-get install containernetworking-plugins"
    if host.static_busybox(SystemEnvironment()) is None:
        return "no static busybox: apt-get install busybox-static"
    if not os.access(CGROUPS, os.W_OK):
        return f"{CGROUPS} cannot be written"
    return ""


class KubeletCredential:
    """What the API server shows to the kubelet: a certificate that the kubelet trusts itself."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = (
            directory / "kubelet-client.crt",
            directory / "kubelet-client.key",
        )
        write_self_signed(self.certificate, self.key, "kube-apiserver")

    def apiserver_arguments(self) -> list[str]:
        return [
            f"--kubelet-client-certificate={self.certificate}",
            f"--kubelet-client-key={self.key}",
            "--kubelet-preferred-address-types=InternalIP",
        ]


class Node:
    """The only node of a control plane that was started with ``credential``."""

    def __init__(
        self,
        plane: ControlPlane,
        tools: Path,
        credential: KubeletCredential,
        number: int = 0,
        *,
        runs_deployments: bool = False,
    ) -> None:
        """``number`` tells nodes on one machine apart. With ``runs_deployments`` Deployments get
        their Pods, and these reach the API server as the Service `kubernetes`: at most one such
        node runs on a machine."""
        self._plane = plane
        self._runs_deployments = runs_deployments
        self._forwarders = contextlib.ExitStack()
        self._tools = tools
        self._credential = credential
        self.name = f"datum-test-{number}"
        self._bridge = f"datum-test-{number}"
        self._subnet = f"10.86.{number}.0/24"
        self._address = f"10.86.{number}.1"
        self._directory = plane.directory / "node"
        self._socket = self._directory / "containerd.sock"
        self._processes: list[Process] = []
        self._kernel: dict[str, str] = {}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @contextlib.contextmanager
    def without_kubelet(self) -> Iterator[None]:
        """It is killed, and started again at the end of the block."""
        self._processes.pop().stop(kill=True)
        try:
            yield
        finally:
            self._start_kubelet()

    def forward(self, port: int) -> str:
        """Let Pods reach this port of loopback; the address for them."""
        self._forwarders.enter_context(Forwarder((self._address, port), port))
        return f"{self._address}:{port}"

    def import_image(self, archive: Path, base_name: str) -> None:
        """A layout of OCI as an archive, whose tags get this name."""
        words = ("images", "import", f"--base-name={base_name}", str(archive))
        result = self._ctr(*words, timeout=IMPORT_SECONDS)
        if fault := _fault(result):
            raise ControlPlaneError(f"the image is not imported: {fault}")

    def process_of(self, container_id: str) -> int:
        """The process of a container, by the id in its Pod's status."""
        wanted = container_id.removeprefix("containerd://")
        for line in self._ctr("tasks", "ls").stdout.splitlines():
            if line.split()[0] == wanted:
                return int(line.split()[1])
        raise LookupError(f"containerd runs no {wanted}")

    def leftovers(self) -> list[str]:
        """What a stopped node has left on the machine."""
        found = [f"mount {path}" for path in _mounts_below(self._directory)]
        found += [f"cgroup {each}" for each in _cgroups() if (each / self.name).exists()]
        found += [f"process {each}" for each in self._shims()]
        found += [f"network namespace {each}" for each in self._namespaces()]
        if Path("/sys/class/net", self._bridge).exists():
            found.append(f"link {self._bridge}")
        for name, value in self._kernel.items():
            if Path("/proc/sys", name).read_text() != value:
                found.append(f"setting {name}")
        return found

    # Starting.

    def _start(self) -> None:
        self._kernel = {name: Path("/proc/sys", name).read_text() for name in KERNEL}
        for name in ("cni", "plugins", "certs.d"):
            (self._directory / name).mkdir(parents=True, exist_ok=True)
        # The kubelet refuses a loopback address, so the node has that of the Pods' bridge.
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self._address}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        if self._runs_deployments:
            _run("ip", "addr", "add", f"{SERVICE_ADDRESS}/32", "dev", self._bridge)
            port = int(self._plane.server.rpartition(":")[2])
            self._forwarders.enter_context(Forwarder((SERVICE_ADDRESS, 443), port))
        for folder in _cgroups():
            (folder / self.name).mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (folder / name).exists() and folder != CGROUPS:
                    (folder / self.name / name).write_text((folder / name).read_text())
        self._write_files()
        containerd = self._run_process(
            "containerd", "containerd", "-c", self._file("containerd.toml")
        )
        containerd.wait_until(lambda: _fault(self._ctr("version")), START_SECONDS)
        for archive in (_pause_image(), busybox_image()):
            self._import(archive)
        kubeconfig = self._plane.write_kubeconfig(self._directory / "kubeconfig")
        more = DEPLOYMENTS if self._runs_deployments else ()
        self._plane.start_collector(*CONTROLLERS, *more)
        self._run_process(
            "kube-scheduler",
            str(self._tools / "kube-scheduler"),
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
        )
        self._start_kubelet()
        self._processes[-1].wait_until(self._not_ready, START_SECONDS)

    def _start_kubelet(self) -> None:
        self._run_process(
            "kubelet",
            str(self._tools / "kubelet"),
            f"--config={self._file('kubelet.yaml')}",
            f"--kubeconfig={self._directory / 'kubeconfig'}",
            f"--root-dir={self._directory / 'kubelet'}",
            f"--cert-dir={self._directory / 'kubelet-certificates'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self._address}",
        )

    def _not_ready(self) -> str | None:
        answer = self._plane.request("GET", f"/api/v1/nodes/{self.name}")
        if answer.status != 200:
            return f"the node: {answer.status}"
        conditions = answer.body["status"].get("conditions", [])
        ready = [each for each in conditions if each["type"] == "Ready"]
        if not ready or ready[0]["status"] != "True":
            return f"the node: {ready}"
        return f"taints {taints}" if (taints := answer.body["spec"].get("taints")) else None

    def _import(self, archive: bytes) -> None:
        path = self._directory / "image.tar"
        path.write_bytes(archive)
        if fault := _fault(self._ctr("images", "import", str(path))):
            raise ControlPlaneError(f"the image is not imported: {fault}")
        path.unlink()

    def _write_files(self) -> None:
        network = {
            "cniVersion": "0.4.0",
            "name": self.name,
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": self._bridge,
                    "isGateway": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(self._directory / "ipam"),
                        "ranges": [[{"subnet": self._subnet}]],
                        "routes": [{"dst": f"{SERVICE_ADDRESS}/32"}],
                    },
                }
            ],
        }
        Path(self._file("cni/10-bridge.conflist")).write_text(json.dumps(network))
        Path(self._file("containerd.toml")).write_text(self._containerd())
        Path(self._file("kubelet.yaml")).write_text(yaml.safe_dump(self._kubelet()))

    def _containerd(self) -> str:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        unused = ["btrfs", "aufs", "zfs", "devmapper"]
        return f"""
version = 2
root = "{self._directory}/containerd"
state = "{self._directory}/run"
disabled_plugins = {json.dumps([f"io.containerd.snapshotter.v1.{name}" for name in unused])}
[grpc]
  address = "{self._socket}"
[ttrpc]
  address = "{self._socket}.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self._directory}/opt"
[{cri}]
  sandbox_image = "{PAUSE}"
  # Without CAP_SYS_RESOURCE no sandbox may lower its score.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [{cri}.cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{self._directory}/cni"
  [{cri}.registry]
    config_path = "{self._directory}/certs.d"
  [{cri}.containerd]
    default_runtime_name = "runc"
    [{cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{cri}.containerd.runtimes.runc.options]
        SystemdCgroup = false
"""

    def _kubelet(self) -> dict[str, Any]:
        never = dict.fromkeys(("nodefs.available", "nodefs.inodesFree", "imagefs.available"), "0%")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self._address,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._credential.certificate)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.name}",
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "maxOpenFiles": 20000,
            "makeIPTablesUtilChains": False,
            "podLogsDir": str(self._directory / "logs"),
            "volumePluginDir": str(self._directory / "plugins"),
            "evictionHard": {"memory.available": "50Mi", **never},
        }

    # Stopping.

    def _stop(self) -> None:
        self._delete_pods()
        self._forwarders.close()
        # The kubelet and the scheduler; containerd is the first.
        while len(self._processes) > 1:
            self._processes.pop().stop()
        for line in self._ctr("tasks", "ls", "-q").stdout.split():
            self._ctr("tasks", "rm", "-f", line)
        while self._processes:
            self._processes.pop().stop()
        for process in self._shims():
            os.kill(process, signal.SIGKILL)
        for mount in _mounts_below(self._directory):
            _run("umount", "-l", mount, check=False)
        for name in self._namespaces():
            _run("ip", "netns", "delete", name, check=False)
        _run("ip", "link", "delete", self._bridge, check=False)
        for folder in _cgroups():
            _remove_cgroup(folder / self.name)
        for name, value in self._kernel.items():
            if Path("/proc/sys", name).read_text() != value:
                Path("/proc/sys", name).write_text(value)

    def _delete_pods(self) -> None:
        """Let the kubelet remove what it can."""
        with contextlib.suppress(OSError, ControlPlaneError):
            deadline = time.monotonic() + STOP_SECONDS
            while time.monotonic() < deadline:
                pods = self._plane.request("GET", "/api/v1/pods").body["items"]
                for pod in pods:
                    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
                    options = {"gracePeriodSeconds": 1}
                    self._plane.request("DELETE", f"{path}/{pod['metadata']['name']}", options)
                if not pods:
                    return
                time.sleep(0.5)

    def _namespaces(self) -> list[str]:
        """Those of Pods, which have an address of this node's range."""
        found = []
        for name in os.listdir(NAMESPACES) if NAMESPACES.exists() else ():
            shown = subprocess.run(
                ["ip", "-n", name, "-4", "-o", "addr"], capture_output=True, text=True, check=False
            )
            if f" {self._address.rpartition('.')[0]}." in shown.stdout:
                found.append(name)
        return found

    def _shims(self) -> list[int]:
        """Those that were started by our containerd, which they name on their command line."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if str(self._socket).encode() in words:
                    found.append(int(folder.name))
        return found

    def _run_process(self, name: str, *command: str) -> Process:
        process = Process(name, command, self._directory / f"{name}.log")
        self._processes.append(process)
        return process

    def _ctr(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        command = ("ctr", "-a", str(self._socket), "-n", "k8s.io", *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    def _file(self, name: str) -> str:
        return str(self._directory / name)


def busybox_image() -> bytes:
    """A web server, made of this machine's busybox; a node has it as ``IMAGE``."""
    return host.build_busybox_image(_busybox())


def _pause_image() -> bytes:
    links = {"bin/sleep": "busybox"}
    files = {"bin/busybox": _busybox()}
    return build_archive(PAUSE, files, links, ["/bin/sleep", "2000000000"])


def _busybox() -> bytes:
    found = host.static_busybox(SystemEnvironment())
    assert found is not None, missing()
    return found


def _fault(result: subprocess.CompletedProcess[str]) -> str | None:
    return None if result.returncode == 0 else result.stderr


def _run(*command: str, check: bool = True) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and result.returncode != 0:
        raise ControlPlaneError(f"{' '.join(command)}: {result.stderr.strip()}")


def _cgroups() -> Sequence[Path]:
    """The root of every hierarchy: one folder a controller in version 1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [folder for folder in sorted(CGROUPS.iterdir()) if (folder / "cgroup.procs").exists()]


def _remove_cgroup(folder: Path) -> None:
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _mounts_below(folder: Path) -> list[str]:
    found = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted((path for path in found if path.startswith(f"{folder}/")), reverse=True)
