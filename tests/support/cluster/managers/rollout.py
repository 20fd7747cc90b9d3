"""Managers as Pods of the Deployment that an overlay has applied, under a real kubelet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from datum_compute.testing.expectations import eventually
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.manifests import run_kubectl_on

IMAGE_NAME = "docker.io/datum-compute/compute-manager"
"""The name of the overlays as a kubelet completes it."""
SYSTEM = "--namespace=compute-system"
DEPLOYMENT = "deployment/compute-manager"
PODS = "/api/v1/namespaces/compute-system/pods"
WITHIN = 180.0


@contextlib.asynccontextmanager
async def running_pods(plane: ControlPlane) -> AsyncIterator[None]:
    """Once all are available, as the page about installing looks; afterwards they are gone."""

    async def metadata() -> list[dict[str, Any]]:
        pods = (await asyncio.to_thread(plane.request, "GET", PODS)).body["items"]
        return [pod["metadata"] for pod in pods]

    async def terminating() -> str:
        return ", ".join(pod["name"] for pod in await metadata() if "deletionTimestamp" in pod)

    async def left() -> str:
        return ", ".join(pod["name"] for pod in await metadata())

    try:
        try:
            words = ("rollout", "status", DEPLOYMENT, "--timeout=100s")
            await asyncio.to_thread(run_kubectl_on, plane, SYSTEM, *words)
        except AssertionError as error:
            looked = ("describe", "pods,replicasets")
            shown = await asyncio.to_thread(run_kubectl_on, plane, SYSTEM, *looked)
            logs = await asyncio.to_thread(run_kubectl_on, plane, SYSTEM, "logs", DEPLOYMENT)
            raise AssertionError(f"{error}\n{shown}\n{logs}") from error
        await eventually("Pods of an earlier template are gone", terminating, within=WITHIN)
        yield
    finally:
        await asyncio.to_thread(run_kubectl_on, plane, SYSTEM, "delete", DEPLOYMENT)
    await eventually("its Pods are gone", left, within=WITHIN)
