"""The real kubectl for one plane, and a kind of objects for it to work on."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

from scripts.cluster_tools import ensure_tools

PROJECT, HUB, CELL = PLANES = ("project/demo", "hub", "cell/dfw")
BOXES: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boxes.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Box", "plural": "boxes", "shortNames": ["bx"], "categories": ["all"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "Something to put things in.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {
                                        "type": "integer",
                                        "minimum": 1,
                                        "description": "How much goes in.",
                                    },
                                    "color": {"type": "string", "enum": ["red", "green"]},
                                },
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {
                        "name": "Color",
                        "type": "string",
                        "jsonPath": ".spec.color",
                        "priority": 1,
                    },
                ],
            }
        ],
    },
}


class Kubectl:
    """kubectl for one plane, and a directory for its files."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._directory = directory
        self._command = [
            str(ensure_tools() / "kubectl"),
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={kubeconfig.parent / 'cache'}",
        ]
        self._environment = {"HOME": str(directory), "PATH": os.defpath, "TMPDIR": str(directory)}

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *words],
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
            env={**self._environment, **environment},
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        )

    def succeeds(self, *words: str, **environment: str) -> str:
        done = self.run(*words, **environment)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def fails(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 1, f"{words}: {done.stdout}{done.stderr}"
        return done.stderr.strip()

    def object(self, *words: str) -> Any:
        return json.loads(self.succeeds("get", *words, "--output=json"))

    def file(self, obj: dict[str, Any]) -> str:
        path = self._directory / f"{uuid.uuid4().hex}.json"
        path.write_text(json.dumps(obj), encoding="utf-8")
        return str(path)

    def script(self, text: str) -> str:
        path = self._directory / f"{uuid.uuid4().hex}.sh"
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o700)
        return str(path)

    def box(self, name: str, size: int = 1, **metadata: Any) -> str:
        """Make a box."""
        self.succeeds("create", "-f", self.file(box(name, size, **metadata)))
        return name


def box(name: str, size: int = 1, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Box",
        "metadata": {"name": name, **metadata},
        "spec": {"size": size, **(spec or {})},
    }


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]
