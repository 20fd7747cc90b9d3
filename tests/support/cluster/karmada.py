"""Real Karmada on loopback: a hub, the cluster of management, and two cells that have joined.

Every cluster is a control plane of its own, and Karmada's programs are plain processes with the
rights of an administrator. The hub trusts the service accounts of the others; `dfw` has joined in
push mode, with a Secret on the hub, and `lhr` in pull mode, with an agent. Each API server keeps
an audit log of what our managers ask for.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import ssl
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Self

import yaml

from datum_compute.apiserver.http.certificates import LOOPBACK, ensure_certificates
from datum_compute.env import SystemEnvironment
from scripts.cluster_tools import KARMADA_MANIFESTS, KARMADA_TOOLS
from tests.support.cluster import audit
from tests.support.cluster.audit import AuditedCall
from tests.support.cluster.certificates import HOST, write_self_signed
from tests.support.cluster.control_plane import ControlPlane, Process, free_ports
from tests.support.cluster.crds import definition_files
from tests.support.cluster.managers.hub_credentials import DISCOVERY, MANAGEMENT, issuer, trust
from tests.support.cluster.manifests import (
    apply,
    apply_text,
    render,
    run_kubectl,
    run_kubectl_on,
    service_account_token,
    wait_established,
)
from tests.support.cluster.node import KubeletCredential

PUSH, PULL = "dfw", "lhr"
CELLS = (PUSH, PULL)
HUB = "hub"
START_SECONDS = 120.0
MAX_DELAY = "--rate-limiter-max-delay=10s"
"""As the page about installing asks for."""
AGGREGATED_SERVER = "aggregated-apiserver"
AGGREGATED = "karmada-aggregated-apiserver.karmada-system.svc"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
SECRETS = "karmada-cluster"


class KarmadaClusters:
    """``with`` starts everything and waits until both cells are ready; the end stops it."""

    def __init__(self, tools: Path, directory: Path) -> None:
        """``directory`` has the audit logs, and the logs of Karmada's programs; it stays."""
        self._tools = tools
        self._directory = directory
        self._stack = contextlib.ExitStack()
        self._commands: dict[str, list[str]] = {}
        self._processes: dict[str, Process] = {}
        self.credential = KubeletCredential(directory)
        (directory / "audit.yaml").write_text(yaml.safe_dump(audit.POLICY))
        kubelet = self.credential.apiserver_arguments()
        self.cells = {name: self._plane(name, *kubelet) for name in CELLS}
        self.management = self._plane(MANAGEMENT)
        self.hub = self._plane(HUB, *self._front_proxy())

    @property
    def planes(self) -> Mapping[str, ControlPlane]:
        return {HUB: self.hub, MANAGEMENT: self.management, **self.cells}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def calls(self) -> Iterator[AuditedCall]:
        """Of our users, on all API servers, until now."""
        for name in self.planes:
            yield from audit.read_calls(self._directory / f"{name}-audit.log", name)

    def log(self, name: str) -> str:
        """What a program of Karmada has written until now."""
        return (self._directory / f"karmada-{name}.log").read_text(errors="replace")

    @property
    def programs(self) -> Mapping[str, int]:
        """The ids of Karmada's processes, by their names without the prefix."""
        return {name: each.pid for name, each in self._processes.items()}

    @contextlib.contextmanager
    def without(self, name: str, *, kill: bool = False) -> Iterator[None]:
        """Without a program of Karmada, by its name without the prefix."""
        self._processes.pop(name).stop(kill=kill)
        try:
            yield
        finally:
            self.start(name)

    @contextlib.contextmanager
    def without_all(self) -> Iterator[None]:
        """Without any program of Karmada."""
        names = self.stop_all()
        try:
            yield
        finally:
            for name in names:
                self.start(name)

    def stop_all(self) -> list[str]:
        """Stop every program of Karmada; their names, in the order of starting."""
        names = list(self._processes)
        for name in names:
            self._processes[name].stop()
        return names

    def start(self, name: str, *more: str) -> None:
        """A program that was stopped, with more arguments this time."""
        self._start_program(name, *more)
        if name == AGGREGATED_SERVER:  # without it the agent ends
            self._processes[name].wait_until(self._no_clusters, START_SECONDS)

    # Starting.

    def _plane(self, name: str, *arguments: str) -> ControlPlane:
        audited = (
            f"--audit-policy-file={self._directory / 'audit.yaml'}",
            f"--audit-log-path={self._directory / f'{name}-audit.log'}",
        )
        return ControlPlane(
            self._tools,
            apiserver_arguments=(*audited, *arguments),
            issuer=issuer(name),
            mounts_tokens=name in CELLS,
        )

    def _front_proxy(self) -> list[str]:
        """How the hub's API server reaches the aggregated one, and whom it trusts."""
        certificate, key = self._directory / "front-proxy.crt", self._directory / "front-proxy.key"
        write_self_signed(certificate, key, "front-proxy-client")
        return [
            f"--proxy-client-cert-file={certificate}",
            f"--proxy-client-key-file={key}",
            f"--requestheader-client-ca-file={certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--authentication-config={self._directory / 'authentication.yaml'}",
        ]

    def _start(self) -> None:
        with ThreadPoolExecutor() as pool:
            others = {MANAGEMENT: self.management, **self.cells}
            list(pool.map(self._start_plane, others.values()))
            text = yaml.safe_dump(trust(others))
            (self._directory / "authentication.yaml").write_text(text)
            hub = pool.submit(self._start_hub)
            list(pool.map(self._prepare_cell, self.cells))
            hub.result()
        self._join_by_push(PUSH)
        self._join_by_pull(PULL)
        self._processes["agent"].wait_until(self._not_ready, START_SECONDS)

    def _start_plane(self, plane: ControlPlane) -> None:
        self._stack.callback(plane.stop)
        plane.start()
        if plane is not self.hub:
            apply(plane, [DISCOVERY])

    def _prepare_cell(self, name: str) -> None:
        """Its kinds are there before the hub looks which ones it serves."""
        plane = self.cells[name]
        networks = definition_files("networking.datumapis.com_*.yaml")
        apply_text(plane, "\n---\n".join(file.read_text() for file in networks))
        apply(plane, render("cell", cell=name))
        wait_established(plane)
        plane.start_collector()

    def _start_hub(self) -> None:
        self._start_plane(self.hub)
        aggregated, webhook, manager, scheduler = free_ports(4)
        names = (*LOOPBACK, AGGREGATED)
        folder = self._directory / "karmada"
        folder.mkdir()
        certificates = ensure_certificates(folder, SystemEnvironment(), names)
        authority = base64.b64encode(certificates.ca_pem).decode()
        config = self.hub.write_kubeconfig(self._directory / "hub.kubeconfig")
        kubeconfig = f"--kubeconfig={config}"
        spaces = ("karmada-system", SECRETS)
        apply(self.hub, [_object("v1", "Namespace", name) for name in spaces])
        address = f"https://{HOST}:{webhook}"
        self._define_kinds(address, authority)
        self._run(
            AGGREGATED_SERVER,
            kubeconfig,
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            f"--etcd-servers={self.hub.etcd_url}",
            "--etcd-prefix=/karmada",
            f"--tls-cert-file={certificates.certificate}",
            f"--tls-private-key-file={certificates.key}",
            f"--bind-address={HOST}",
            f"--secure-port={aggregated}",
        )
        self._run(
            "webhook",
            kubeconfig,
            f"--bind-address={HOST}",
            f"--secure-port={webhook}",
            f"--cert-dir={folder}",
            f"--tls-cert-file-name={certificates.certificate.name}",
            f"--tls-private-key-file-name={certificates.key.name}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        )
        self._register_aggregated(aggregated, authority)
        self._processes["webhook"].wait_until(
            lambda: _answer(webhook, "/readyz/", certificates.ca_pem), START_SECONDS
        )
        text = self._manifest("artifacts/deploy/webhook-configuration.yaml")
        text = text.replace("https://karmada-webhook.karmada-system.svc:443", address)
        apply_text(self.hub, text.replace("{{caBundle}}", authority))
        self._processes[AGGREGATED_SERVER].wait_until(self._no_clusters, START_SECONDS)
        apply(self.hub, render("federation"))
        wait_established(self.hub)
        self.hub.start_collector()
        for name, port, *more in (
            ("controller-manager", manager, MAX_DELAY),
            ("scheduler", scheduler),
        ):
            self._run(
                name,
                kubeconfig,
                "--leader-elect=false",
                "--metrics-bind-address=0",
                f"--health-probe-bind-address={HOST}:{port}",
                *more,
            )
            self._processes[name].wait_until(partial(_answer, port, "/healthz"), START_SECONDS)

    def _define_kinds(self, webhook: str, authority: str) -> None:
        kinds = self._tools / KARMADA_MANIFESTS / "charts/karmada/_crds"
        text = run_kubectl("kustomize", str(kinds))
        text = text.replace("https://{{name}}.{{namespace}}.svc:443", webhook)
        apply_text(self.hub, text.replace("{{caBundle}}", authority))
        wait_established(self.hub)

    def _register_aggregated(self, port: int, authority: str) -> None:
        text = self._manifest("artifacts/deploy/karmada-aggregated-apiserver-apiservice.yaml")
        documents = list(yaml.safe_load_all(text.replace("{{caBundle}}", authority)))
        for each in documents:
            if each["kind"] == "APIService":
                each["spec"]["service"]["port"] = port
            else:
                each["spec"]["externalName"] = "localhost"
        apply(self.hub, documents)

    def _manifest(self, path: str) -> str:
        return (self._tools / KARMADA_MANIFESTS / path).read_text(encoding="utf-8")

    def _run(self, name: str, *arguments: str) -> None:
        self._commands[name] = [str(self._tools / KARMADA_TOOLS[name].name), *arguments]
        self._start_program(name)
        self._stack.callback(lambda: self._processes[name].stop())

    def _start_program(self, name: str, *more: str) -> None:
        self._processes[name] = Process(
            f"karmada-{name}",
            [*self._commands[name], *more],
            self._directory / f"karmada-{name}.log",
        )

    def _no_clusters(self) -> str | None:
        answer = self.hub.request("GET", CLUSTERS)
        return None if answer.status == 200 else f"{CLUSTERS}: {answer}"

    # Joining.

    def _join_by_push(self, name: str) -> None:
        """What `karmadactl join` does: accounts in the cell, their tokens on the hub, a Cluster."""
        plane, account = self.cells[name], f"karmada-{name}"
        role = f"karmada-controller-manager:{account}"
        rules = [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["get"]},
        ]
        subject = {"kind": "ServiceAccount", "name": account, "namespace": SECRETS}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        rbac = "rbac.authorization.k8s.io/v1"
        accounts = {name: account, f"{name}-impersonator": "karmada-impersonator"}
        apply(
            plane,
            [
                _object("v1", "Namespace", SECRETS),
                *(_object("v1", "ServiceAccount", each, SECRETS) for each in accounts.values()),
                _object(rbac, "ClusterRole", role) | {"rules": rules},
                _object(rbac, "ClusterRoleBinding", role)
                | {"roleRef": reference, "subjects": [subject]},
            ],
        )
        secrets = []
        for secret, each in accounts.items():
            token = service_account_token(plane, SECRETS, each, seconds=24 * 3600)
            data = {"token": token.encode(), "caBundle": plane.ca_pem}
            encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
            secrets.append(_object("v1", "Secret", secret, SECRETS) | {"data": encoded})
        own = plane.request("GET", "/api/v1/namespaces/kube-system").body["metadata"]["uid"]
        cluster = _object("cluster.karmada.io/v1alpha1", "Cluster", name)
        cluster["spec"] = {
            "id": own,
            "syncMode": "Push",
            "apiEndpoint": plane.server,
            "secretRef": {"namespace": SECRETS, "name": name},
            "impersonatorSecretRef": {"namespace": SECRETS, "name": f"{name}-impersonator"},
        }
        apply(self.hub, [*secrets, cluster])
        self._label(name)

    def _join_by_pull(self, name: str) -> None:
        """The agent makes the Cluster; it gives the hub no credential of the cell."""
        plane = self.cells[name]
        self._run(
            "agent",
            f"--karmada-kubeconfig={self._directory / 'hub.kubeconfig'}",
            "--karmada-context=test",
            f"--cluster-name={name}",
            f"--cluster-api-endpoint={plane.server}",
            f"--kubeconfig={plane.write_kubeconfig(self._directory / 'agent.kubeconfig')}",
            "--report-secrets=None",
            "--leader-elect=false",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            MAX_DELAY,
        )
        path = f"{CLUSTERS}/{name}"
        self._processes["agent"].wait_until(
            lambda: None if self.hub.request("GET", path).status == 200 else f"no {path}",
            START_SECONDS,
        )
        self._label(name)

    def _label(self, name: str) -> None:
        """As the page about installing does."""
        label = f"topology.datum.net/city-code={name.upper()}"
        run_kubectl_on(self.hub, "label", "cluster", name, label)

    def _not_ready(self) -> str | None:
        for item in self.hub.request("GET", CLUSTERS).body["items"]:
            conditions = item.get("status", {}).get("conditions", [])
            if ("Ready", "True") not in [(each["type"], each["status"]) for each in conditions]:
                return f"{item['metadata']['name']}: {conditions}"
        return None


def _object(version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _answer(port: int, path: str, authority: bytes = b"") -> str | None:
    """What is wrong with the answer to a probe."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    if authority:
        context = ssl.create_default_context(cadata=authority.decode())
        connection = http.client.HTTPSConnection(HOST, port, timeout=5, context=context)
    with contextlib.closing(connection):
        connection.request("GET", path)
        status = connection.getresponse().status
        return None if status == 200 else f"{path}: {status}"
