"""A local platform of its own for a browser, with simulated instances."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from datum_compute.assembly.local.state import StateDirectory


class BrowserPlatform:
    """Commands run as a person types them."""

    def __init__(self, directory: Path, cities: str = "DFW,IAD,LHR") -> None:
        self.state = StateDirectory(directory / ".local" / "state" / "datum-compute")
        programs = Path(sys.executable).parent
        self._program = str(programs / "datumctl-compute")
        self._environment = {"HOME": str(directory), "PATH": f"{programs}:{os.defpath}"}
        self.types("local", "up", "--detach", "--runtime=simulated", f"--cities={cities}")

    def types(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [self._program, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=self._environment,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def link(self, *flags: str) -> str:
        return self.types("console", "--print", *flags).strip()

    def deploys(self, name: str, *flags: str) -> None:
        image = "--image=registry.example/acme/web:1"
        self.types("deploy", name, image, "--yes", "--no-wait", *flags)

    def applies(
        self,
        name: str,
        city: str = "LHR",
        image: str = "registry.example/acme/api:1",
        **annotations: str,
    ) -> None:
        """A workload with annotations for the simulated provider."""
        prefix = "simulated.compute.datumapis.com/"
        noted = {prefix + key.replace("_", "-"): text for key, text in annotations.items()}
        self.types(
            "deploy",
            "-f",
            "-",
            "--yes",
            "--no-wait",
            stdin=json.dumps(_workload(name, city, image, noted)),
        )

    def close(self) -> None:
        running = self.state.running()
        if running is not None:
            os.kill(running.pid, signal.SIGTERM)


def _workload(name: str, city: str, image: str, annotations: dict[str, str]) -> dict[str, Any]:
    container = {"name": "app", "image": image}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [container]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
        },
    }
    placement = {"name": "default", "cityCodes": [city], "scaleSettings": {"minReplicas": 2}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"template": template, "placements": [placement]},
    }
