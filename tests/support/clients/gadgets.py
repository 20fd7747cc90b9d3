"""A plane that serves Gadgets, as programs of Kubernetes reach it: over TLS, by a kubeconfig."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.client_conformance.targets import PREFIX, https_server
from tests.support.clients.kubeconfig import write_kubeconfig
from tests.support.cluster.differential import DEFINITIONS, DifferentialRequest, ServerSide

GADGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Gadget", "plural": "gadgets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                    },
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "text": {"type": "string"},
                                    "replicas": {"type": "integer", "minimum": 0},
                                },
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}
GADGETS_PATH = "/apis/example.com/v1/namespaces/default/gadgets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def gadget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


class GadgetPlane:
    """Asks the plane directly, beside the client under test."""

    def __init__(self, kubeconfig: Path, side: ServerSide) -> None:
        self.kubeconfig = kubeconfig
        self.side = side

    def send(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        return self.side.send(DifferentialRequest(method, path, body, **more))

    def get(self, path: str) -> Any:
        """The object or list at a path, or None."""
        code, answer = self.send("GET", path)
        assert code in (200, 404), answer
        return answer if code == 200 else None

    def wait_until(self, holds: Callable[[], Any], missing: str, seconds: float = 30.0) -> Any:
        """What ``holds`` returns once it is true."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < deadline, missing
            time.sleep(0.05)
        return found


@contextmanager
def gadget_plane(directory: Path) -> Iterator[GadgetPlane]:
    """A plane with no objects but the definition of Gadgets."""
    with https_server() as server:
        address = server.address
        tls = ssl.create_default_context(cadata=address.ca_pem.decode())
        side = ServerSide(address.base_url, PREFIX, address.token, tls)
        try:
            plane = GadgetPlane(write_kubeconfig(directory / "kubeconfig", address), side)
            code, made = plane.send("POST", DEFINITIONS, GADGETS)
            assert code == 201, made
            yield plane
        finally:
            side.close()
