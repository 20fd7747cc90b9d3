"""A real Kubernetes control plane for tests: one etcd and one kube-apiserver on loopback.

Nothing else runs by default: without a controller manager there is no garbage collection, a
deleted namespace stays Terminating, and only the test changes objects.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import yaml

from tests.support.cluster.certificates import HOST, write_credentials, write_private

ADMIN_USER = "admin"
PLAIN_USER = "plain"

START_TIMEOUT = 120.0
# With a watch open the API server takes a minute to shut down; no test should wait for that.
STOP_TIMEOUT = 5.0
POLL_INTERVAL = 0.1
LOG_TAIL_LINES = 40


class ControlPlaneError(Exception):
    """A process did not start or did not become ready; the message ends with its log."""


class Answer(NamedTuple):
    """A response of the API server; `body` is decoded when it is JSON."""

    status: int
    body: Any


class ControlPlane:
    """Starts, restarts and stops etcd and kube-apiserver.

    `tools` is the directory that `scripts/cluster_tools.py` prints.
    The ports, the certificates and the tokens stay the same as long as the object exists, so a
    client that is connected when the API server restarts can find it again.
    """

    def __init__(
        self,
        tools: Path,
        *,
        apiserver_arguments: Sequence[str] = (),
        issuer: str = "https://kubernetes.default.svc",
        mounts_tokens: bool = False,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        """``mounts_tokens`` is for Pods that talk to the API server: each gets the token of its
        service account, which a controller must have made."""
        self._tools = tools
        self._apiserver_arguments = tuple(apiserver_arguments)
        self._mounts_tokens = mounts_tokens
        self._issuer = issuer
        self._start_timeout = start_timeout
        self._directory: Path | None = None
        self._etcd: Process | None = None
        self._apiserver: Process | None = None
        self._collector: Process | None = None
        self._etcd_port = self._etcd_peer_port = self._port = 0
        self.ca_pem = b""
        self.token = secrets.token_hex(16)
        self.plain_token = secrets.token_hex(16)

    @property
    def directory(self) -> Path:
        """Where the data, the keys and the logs are; it is removed by `stop`."""
        if self._directory is None:
            raise ControlPlaneError("the control plane is not started")
        return self._directory

    @property
    def server(self) -> str:
        if not self._port:
            raise ControlPlaneError("the control plane is not started")
        return f"https://{HOST}:{self._port}"

    @property
    def etcd_url(self) -> str:
        return f"http://{HOST}:{self._etcd_port}"

    @property
    def ca_file(self) -> Path:
        return self.directory / "ca.crt"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        if self._directory is not None:
            raise ControlPlaneError("the control plane is started already")
        self._directory = Path(tempfile.mkdtemp(prefix="control-plane-"))
        try:
            self._etcd_port, self._etcd_peer_port, self._port = free_ports(3)
            self.ca_pem = write_credentials(self._directory)
            self._write_tokens()
            self._start_etcd()
            self.start_apiserver()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all processes and remove their data; does nothing when nothing runs."""
        if self._collector is not None:
            self._collector.stop()
            self._collector = None
        self.stop_apiserver()
        if self._etcd is not None:
            self._etcd.stop()
            self._etcd = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def start_apiserver(self) -> None:
        if self._apiserver is not None:
            raise ControlPlaneError("the API server is started already")
        directory = self.directory
        self._apiserver = Process(
            "kube-apiserver",
            [
                str(self._tools / "kube-apiserver"),
                f"--etcd-servers={self.etcd_url}",
                f"--bind-address={HOST}",
                f"--advertise-address={HOST}",
                f"--secure-port={self._port}",
                f"--cert-dir={directory}",
                f"--tls-cert-file={directory / 'server.crt'}",
                f"--tls-private-key-file={directory / 'server.key'}",
                f"--token-auth-file={directory / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                f"--service-account-issuer={self._issuer}",
                f"--service-account-key-file={directory / 'service-account.key'}",
                f"--service-account-signing-key-file={directory / 'service-account.key'}",
                "--service-cluster-ip-range=10.86.128.0/24",  # its first is SERVICE_ADDRESS
                # The plugin refuses every pod until a controller has made its namespace's
                # default service account, and that controller does not run.
                *(() if self._mounts_tokens else ("--disable-admission-plugins=ServiceAccount",)),
                # A loopback address is not a valid endpoint of the `kubernetes` service, and
                # the reconciler would log an error every ten seconds.
                "--endpoint-reconciler-type=none",
                "--profiling=false",
                *self._apiserver_arguments,
            ],
            directory / "kube-apiserver.log",
        )
        self._apiserver.wait_until(self._apiserver_is_ready, self._start_timeout)

    def stop_apiserver(self, *, kill: bool = False) -> None:
        """Stop the API server and leave etcd; `kill` is a crash instead of a shutdown."""
        if self._apiserver is not None:
            self._apiserver.stop(kill=kill)
            self._apiserver = None

    def restart_etcd(self, *, kill: bool = False) -> None:
        """Restart etcd with its data; the API server stays."""
        assert self._etcd is not None
        self._etcd.stop(kill=kill)
        self._start_etcd()

    def back_up(self, path: Path) -> None:
        """Copy the data of etcd, which does not run meanwhile."""
        assert self._etcd is not None
        self._etcd.stop()
        shutil.copytree(self.directory / "etcd", path)
        self._start_etcd()

    def restore(self, path: Path) -> None:
        """Go back to a copy: etcd, API server and controllers start with it."""
        collects, self._collector = self._collector, None
        if collects is not None:
            collects.stop()
        self.stop_apiserver()
        assert self._etcd is not None
        self._etcd.stop()
        shutil.rmtree(self.directory / "etcd")
        shutil.copytree(path, self.directory / "etcd")
        self._start_etcd()
        self.start_apiserver()
        if collects is not None:
            self.start_collector()

    @contextlib.contextmanager
    def suspended_apiserver(self) -> Iterator[None]:
        """With an API server that accepts connections and answers nothing."""
        assert self._apiserver is not None
        self._apiserver.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._apiserver.send_signal(signal.SIGCONT)

    @property
    def processes(self) -> Mapping[str, int]:
        """The ids of those that run, by name."""
        named = {
            "etcd": self._etcd,
            "kube-apiserver": self._apiserver,
            "kube-controller-manager": self._collector,
        }
        return {name: each.pid for name, each in named.items() if each is not None}

    def restart_apiserver(self, *, kill: bool = False) -> None:
        """Restart the API server on the same port with the same etcd."""
        self.stop_apiserver(kill=kill)
        self.start_apiserver()

    def start_collector(self, *more: str) -> None:
        """Start the garbage collector and the end of namespaces, out of all that
        kube-controller-manager does, and these controllers. It finds kinds as they are now,
        later ones late. One that runs is replaced."""
        if self._collector is not None:
            self._collector.stop()
        controllers = ("garbage-collector-controller", "namespace-controller", *more)
        self._collector = Process(
            "kube-controller-manager",
            [
                str(self._tools / "kube-controller-manager"),
                f"--kubeconfig={self.write_kubeconfig(self.directory / 'collector.kubeconfig')}",
                f"--controllers={','.join(controllers)}",
                f"--root-ca-file={self.ca_file}",
                "--leader-elect=false",
                "--secure-port=0",
            ],
            self.directory / "kube-controller-manager.log",
        )

    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.ca_pem.decode("ascii"))

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float = 10.0,
    ) -> Answer:
        """Send one request on a connection of its own, by default as the administrator.

        An empty `token` sends none, which makes the request anonymous.
        """
        headers = {"Accept": "application/json", **(headers or {})}
        bearer = self.token if token is None else token
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        payload: bytes | None = None
        if body is not None:
            payload = json.dumps(body).encode("utf-8")
            headers["Content-Type"] = content_type
        # http.client, unlike urllib.request, never sends a loopback request through a proxy
        # that the environment names.
        connection = http.client.HTTPSConnection(
            HOST, self._port, timeout=timeout, context=self.ssl_context()
        )
        with contextlib.closing(connection):
            connection.request(method, path, payload, headers)
            with connection.getresponse() as response:
                raw = response.read()
                kind = response.getheader("Content-Type", "")
                status = response.status
        if kind.startswith("application/json"):
            return Answer(status, json.loads(raw))
        return Answer(status, raw.decode("utf-8", "replace"))

    def write_kubeconfig(self, path: Path, *, user: str = ADMIN_USER, token: str = "") -> Path:
        """Write a self-contained kubeconfig for one of the two users, or for the user of this
        token."""
        token = token or {ADMIN_USER: self.token, PLAIN_USER: self.plain_token}[user]
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": self.server,
                        "certificate-authority-data": base64.b64encode(self.ca_pem).decode("ascii"),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        write_private(path, yaml.safe_dump(config, sort_keys=False).encode("utf-8"))
        return path

    def _start_etcd(self) -> None:
        client_url = self.etcd_url
        peer_url = f"http://{HOST}:{self._etcd_peer_port}"
        self._etcd = Process(
            "etcd",
            [
                str(self._tools / "etcd"),
                "--name=test",
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={client_url}",
                f"--advertise-client-urls={client_url}",
                f"--listen-peer-urls={peer_url}",
                f"--initial-advertise-peer-urls={peer_url}",
                f"--initial-cluster=test={peer_url}",
                # The data does not outlive the processes, so flushing it buys nothing.
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            self.directory / "etcd.log",
        )
        self._etcd.wait_until(self._etcd_is_ready, self._start_timeout)

    def _etcd_is_ready(self) -> str | None:
        connection = http.client.HTTPConnection(HOST, self._etcd_port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            with connection.getresponse() as response:
                text = response.read().decode("utf-8", "replace")
                return None if response.status == 200 else f"/health: {response.status} {text}"

    def _apiserver_is_ready(self) -> str | None:
        ready = self.request("GET", "/readyz?verbose", timeout=5)
        if ready.status != 200:
            return f"/readyz: {ready.status}\n{_text(ready.body)}"
        # /readyz does not cover the controller that makes the system namespaces.
        namespace = self.request("GET", "/api/v1/namespaces/default", timeout=5)
        if namespace.status != 200:
            return f"the namespace `default`: {namespace.status}\n{_text(namespace.body)}"
        return None

    def _write_tokens(self) -> None:
        path = self.directory / "tokens.csv"
        write_private(path, b"")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([self.token, ADMIN_USER, "1", "system:masters"])
            writer.writerow([self.plain_token, PLAIN_USER, "2"])


class Process:
    """One child process with its log in a file."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self._name = name
        self._log = log
        # etcd takes every ETCD_* variable for a flag and refuses to start when one contradicts
        # its command line.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ETCD_")}
        # Appending keeps the log of the run before a restart.
        with log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    # Ctrl-C ends the tests; the servers must live until the teardown is done.
                    start_new_session=True,
                )
            except OSError as error:
                raise ControlPlaneError(f"{name} does not start: {error}") from error

    def wait_until(self, probe: Callable[[], str | None], timeout: float) -> None:
        """Poll until `probe` returns None rather than the reason why it is too early."""
        deadline = time.monotonic() + timeout
        while True:
            reason: str | None
            try:
                reason = probe()
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            # Checked after the probe as well: another process may own the port.
            code = self._process.poll()
            if code is not None:
                raise ControlPlaneError(f"{self._name} ended with exit code {code}{self._tail()}")
            if reason is None:
                return
            if time.monotonic() >= deadline:
                raise ControlPlaneError(
                    f"{self._name} is not ready after {timeout:g} s: {reason}{self._tail()}"
                )
            time.sleep(POLL_INTERVAL)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self, *, kill: bool = False) -> None:
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(["", f"--- end of {self._log.name} ---", *lines[-LOG_TAIL_LINES:]])


def _text(body: object) -> str:
    return body if isinstance(body, str) else json.dumps(body)


def free_ports(count: int) -> list[int]:
    # All are held at once: a port that is given back may be the next one given out.
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        for _ in range(count):
            holder = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            holder.bind((HOST, 0))
            ports.append(holder.getsockname()[1])
        return ports


def main() -> int:
    """Run a control plane until interrupted, for use by hand."""
    if len(sys.argv) != 3:
        print("usage: control_plane TOOLS_DIR KUBECONFIG", file=sys.stderr)
        return 2
    kubeconfig = Path(sys.argv[2])
    # Termination unwinds like Ctrl-C: the servers are in sessions of their own and would stay.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ControlPlane(Path(sys.argv[1])) as control_plane:
            control_plane.write_kubeconfig(kubeconfig)
            print(f"{control_plane.server} is ready, Ctrl-C stops it", flush=True)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        return 0
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
