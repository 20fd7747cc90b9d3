"""An operator on kopf, run by ``kopf run``: handlers of the life of Gadgets, and webhooks."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import kopf
from kubernetes import client

GADGETS = ("example.com", "v1", "gadgets")
CERTIFICATES = Path(os.environ["CERTIFICATES"])


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.admission.managed = "gadgets.example.com"
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        certfile=CERTIFICATES / "server.crt",
        pkeyfile=CERTIFICATES / "server.key",
        cafile=CERTIFICATES / "ca.crt",
    )


@kopf.on.mutate(*GADGETS)
def complete(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    if "text" not in spec:
        patch.spec["text"] = "as the webhook sets it"


@kopf.on.validate(*GADGETS, operations=["CREATE", "UPDATE"])
def review(spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
    if spec.get("text") == "forbidden":
        raise kopf.AdmissionError("this text is forbidden", code=422)
    if spec.get("text") == "questionable":
        warnings.append("this text is questionable")


@kopf.on.create(*GADGETS)
async def create(body: kopf.Body, spec: kopf.Spec, name: str, **_: Any) -> dict[str, Any]:
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"text": spec["text"]},
    }
    kopf.adopt(child)
    await asyncio.to_thread(client.CoreV1Api().create_namespaced_config_map, "default", child)
    kopf.info(body, reason="Written", message="The ConfigMap is written")
    return {"child": name}


@kopf.on.update(*GADGETS, field="spec.text")
async def update(name: str, old: Any, new: Any, **_: Any) -> None:
    change = {"data": {"text": new, "before": old}}
    await asyncio.to_thread(client.CoreV1Api().patch_namespaced_config_map, name, "default", change)


@kopf.on.resume(*GADGETS)
def resume(status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    patch.status["resumed"] = status.get("resumed", 0) + 1


@kopf.timer(*GADGETS, interval=0.2)
def tick(status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.on.delete(*GADGETS, retries=3, backoff=0.2)
async def delete(name: str, retry: int, **_: Any) -> None:
    """Fails at first, so that the finalizer has to hold the object."""
    if retry == 0:
        raise kopf.TemporaryError("not yet", delay=0.2)
    record = {"metadata": {"name": f"{name}-deleted"}, "data": {"retry": str(retry)}}
    await asyncio.to_thread(client.CoreV1Api().create_namespaced_config_map, "default", record)
