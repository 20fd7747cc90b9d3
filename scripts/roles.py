"""The manifests of ``deploy/base``: roles by plane and process, and the webhooks.

A folder is a plane, a file in it a process; ``kubectl apply -k`` applies a folder to its plane.
The rights are exactly those of ``datum_compute.assembly.rights``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from datum_compute.api import planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.request.access import PolicyRule
from datum_compute.assembly import rights
from datum_compute.webhooks.workload import MUTATE_PATH, VALIDATE_PATH

BASE = Path("deploy/base")
MANAGER = BASE / "manager"
"""Written by hand: the Deployment."""
LOCAL = "local"
"""Stand-ins and the router run in the local platform only, so their roles lie apart."""
NAMESPACE = "compute-system"
ACCOUNT = "compute-manager"
PROVIDER_ACCOUNT = "compute-provider"
CELLS = "compute-cells"
"""The group of the users ``compute-cell-<cell>``: a binding need not know the cells."""
WEBHOOK_SERVICE = "compute-webhooks"
"""Of the component ``webhook-server``."""
RBAC = "rbac.authorization.k8s.io"
POD_SECURITY = "pod-security.kubernetes.io"

Manifest = dict[str, Any]


def manifests() -> dict[Path, list[Manifest]]:
    """Path -> documents, for every file of the base."""
    found: dict[Path, list[Manifest]] = {
        BASE / "host/namespace.yaml": [_namespace(), _account(ACCOUNT)],
        BASE / "host/compute-election.yaml": _election(),
        BASE / "cell/account.yaml": [_account(PROVIDER_ACCOUNT)],
    }
    for process, by_plane in rights.recorded().items():
        for plane, rules in by_plane.items():
            if process != rights.ELECTION:
                found[_folder(process, plane) / f"{process}.yaml"] = _cluster_wide(
                    process, plane, rules
                )
    for plane in (planes.PROJECT.name, "single"):
        found[BASE / plane / "webhooks.yaml"] = webhooks()
    return found | _kustomizations(found)


def _folder(process: str, plane: str) -> Path:
    return BASE / (f"{LOCAL}/{plane}" if process.startswith(("standin-", "local-")) else plane)


def _cluster_wide(process: str, plane: str, rules: Iterable[PolicyRule]) -> list[Manifest]:
    name = f"{process}:{plane}"
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": _rules(rules),
    }
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [subject_of(process, plane)],
    }
    return [role, binding]


def subject_of(process: str, plane: str) -> Manifest:
    """The subject of the role: in its own cluster a service account, elsewhere a user."""
    own = ((rights.CELL, planes.CELL.name), (rights.POD_PROVIDER, "pods"))
    if plane == "single" or (process, plane) in own:
        return _service_account(ACCOUNT)
    if process == rights.PROVIDER:
        return _service_account(PROVIDER_ACCOUNT)
    if process == rights.CELL:
        return {"apiGroup": RBAC, "kind": "Group", "name": CELLS}
    # Reviews are answered by the manager of the management group.
    user = rights.MANAGEMENT if process == rights.WEBHOOKS else process
    return {"apiGroup": RBAC, "kind": "User", "name": user}


def _service_account(name: str) -> Manifest:
    return {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}


def _rules(rules: Iterable[PolicyRule]) -> list[Manifest]:
    """One rule for the resources of a group with the same verbs."""
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for rule in rules:
        together.setdefault((rule.group, rule.verbs), []).append(rule.resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
        for (group, verbs), resources in together.items()
    ]


def _election() -> list[Manifest]:
    """The Lease is in the manager's own namespace, so the right to it is there too."""
    metadata = {"name": rights.ELECTION, "namespace": NAMESPACE}
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": _rules(rights.recorded()[rights.ELECTION]["host"]),
    }
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": rights.ELECTION},
        "subjects": [_service_account(ACCOUNT)],
    }
    return [role, binding]


def _namespace() -> Manifest:
    levels = {f"{POD_SECURITY}/{mode}": "restricted" for mode in ("enforce", "warn")}
    metadata = {"name": NAMESPACE, "labels": levels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _account(name: str) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def webhooks() -> list[Manifest]:
    """The webhooks for Workloads: first mutating, then validating."""
    return [
        _webhook("MutatingWebhookConfiguration", MUTATE_PATH),
        _webhook("ValidatingWebhookConfiguration", VALIDATE_PATH),
    ]


def _webhook(kind: str, path: str) -> Manifest:
    resource = compute.WORKLOADS
    service = {"name": WEBHOOK_SERVICE, "namespace": NAMESPACE, "path": path, "port": 443}
    webhook = {
        "name": resource.group_resource,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "operations": ["CREATE", "UPDATE"],
                "resources": [resource.plural],
                "scope": "Namespaced",
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "compute-workloads"},
        "webhooks": [webhook],
    }


HOMES = (planes.CELL.name, "single")
"""Planes on which a manager also lives."""


def _kustomizations(files: Mapping[Path, list[Manifest]]) -> dict[Path, list[Manifest]]:
    made = {}
    for folder in sorted({path.parent for path in files}):
        names = sorted(path.name for path in files if path.parent == folder)
        home = ["../host"] if folder.name in HOMES and folder.parent == BASE else []
        made[folder / "kustomization.yaml"] = [kustomization(home + names)]
    return made


def kustomization(resources: list[str]) -> Manifest:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    }


_SECTIONS = {
    rights.MANAGEMENT: "`compute-manager --enable-management-controllers`, also at the hub.",
    rights.CELL: "`compute-manager --enable-cell-controllers`, one in each cell.",
    rights.SINGLE: "`compute-manager` with both groups, on one cluster.",
    rights.WEBHOOKS: "The reviews of Workloads, in the manager that serves them.",
    rights.ELECTION: "The election of a leader, in the namespace of the manager.",
    rights.PROVIDER: "What runs Instances in a cell; the simulated provider.",
    rights.POD_PROVIDER: "`compute-manager --provider pod`, in addition.",
}


def reference() -> str:
    """The same as a page to read."""
    lines = [
        "# Rights",
        "",
        "Every call that each process makes, by plane.",
        "The roles in `deploy/base` grant these and nothing else;"
        " [operate/rights.md](../operate/rights.md) describes how to use them.",
        "This page is generated.",
    ]
    for process, by_plane in rights.recorded().items():
        lines += ["", f"## {process}", ""]
        lines += [_SECTIONS.get(process, "A stand-in of the local platform.")]
        for plane, rules in by_plane.items():
            lines += [
                "",
                f"On the {plane} plane:",
                "",
                "| Group | Resource | Verbs |",
                "|---|---|---|",
            ]
            lines += [
                f"| {rule.group or 'core'} | `{rule.resource}` | {', '.join(rule.verbs)} |"
                for rule in rules
            ]
    return "\n".join(lines) + "\n"
