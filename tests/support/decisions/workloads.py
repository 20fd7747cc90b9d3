"""Valid Workloads, and a way to change them in one place."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any


class _Gone:
    def __repr__(self) -> str:
        return "GONE"  # names of tests must be the same in every process


REMOVED = _Gone()
"""As a value: remove the field."""

SSH_KEY = (
    "ana:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE5m4kGBzYZ2hLkF0mI8bQ2vC1xN7pT9sR3uW6yA0dEf ana@acme"
)

CONTAINER: dict[str, Any] = {
    "apiVersion": "compute.datumapis.com/v1alpha",
    "kind": "Workload",
    "metadata": {"name": "api", "namespace": "default"},
    "spec": {
        "template": {
            "metadata": {"labels": {"team": "web"}},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {
                        "containers": [
                            {
                                "name": "app",
                                "image": "registry.example/acme/api:1.4.2",
                                "env": [{"name": "LOG_LEVEL", "value": "info"}],
                                "ports": [{"name": "http", "port": 8080}],
                                "volumeAttachments": [{"name": "scratch", "mountPath": "/data"}],
                            },
                            {"name": "sidecar", "image": "registry.example/acme/proxy:3"},
                        ]
                    },
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
                "volumes": [
                    {
                        "name": "scratch",
                        "disk": {
                            "template": {
                                "spec": {
                                    "resources": {"requests": {"storage": "10Gi"}},
                                    "populator": {"filesystem": {"type": "ext4"}},
                                }
                            }
                        },
                    }
                ],
            },
        },
        "placements": [
            {
                "name": "default",
                "cityCodes": ["DFW", "LHR"],
                "scaleSettings": {"minReplicas": 2},
            }
        ],
    },
}

MACHINE: dict[str, Any] = {
    "apiVersion": "compute.datumapis.com/v1alpha",
    "kind": "Workload",
    "metadata": {"name": "vm", "namespace": "default"},
    "spec": {
        "template": {
            "metadata": {"annotations": {"compute.datumapis.com/ssh-keys": SSH_KEY}},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "virtualMachine": {
                        "volumeAttachments": [{"name": "boot"}],
                        "ports": [{"name": "ssh", "port": 22}],
                    },
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
                "volumes": [
                    {
                        "name": "boot",
                        "disk": {
                            "template": {
                                "spec": {
                                    "type": "pd-standard",
                                    "populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}},
                                }
                            }
                        },
                    }
                ],
            },
        },
        "placements": [
            {"name": "default", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
        ],
    },
}

SHORT = {
    "TEMPLATE": "spec.template.spec",
    "RUNTIME": "spec.template.spec.runtime",
    "APP": "spec.template.spec.runtime.sandbox.containers[0]",
    "VM": "spec.template.spec.runtime.virtualMachine",
    "VOLUME": "spec.template.spec.volumes[0]",
    "DISK": "spec.template.spec.volumes[0].disk.template.spec",
    "PLACEMENT": "spec.placements[0]",
    "SCALE": "spec.placements[0].scaleSettings",
}
"""Beginnings of paths, for tables that would be too wide otherwise."""

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[([^\]]+)\]")


def full(path: str) -> str:
    """The path with its beginning written out."""
    head, dot, rest = path.partition(".")
    return SHORT.get(head, head) + dot + rest


def with_changes(workload: Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
    """A copy with the values at these paths replaced, or gone."""
    result = copy.deepcopy(dict(workload))
    for path, value in changes.items():
        if not path:
            return value
        steps = _steps(full(path))
        last = steps[-1]
        parent: Any = result
        for step, following in pairwise(steps):
            if isinstance(parent, dict):
                parent = parent.setdefault(step, [] if isinstance(following, int) else {})
            else:
                parent = parent[step]
        if value is REMOVED:
            del parent[last]
        elif isinstance(parent, list) and last == len(parent):
            parent.append(value)
        else:
            parent[last] = value
    return result


def _steps(path: str) -> list[str | int]:
    return [int(index) if index else name or key for name, index, key in _STEP.findall(path)]
