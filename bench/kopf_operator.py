"""The same operator on kopf, in two forms.

``kopf`` is the form of its documentation: a handler of creation and resumption, whose success
kopf records on the object. ``kopf-events`` is its leanest form: a handler of events, for which
it stores nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import kopf

from bench.apiserver import GROUP, PLURAL, VERSION
from bench.runtime_process import Finish


async def run_kopf(settings: dict[str, Any], *, lean: bool) -> dict[str, float]:
    logging.disable(logging.INFO)
    registry = kopf.OperatorRegistry()
    finish = Finish(settings["objects"])

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(
            server=settings["base_url"],
            ca_data=settings["ca_base64"],
            scheme="Bearer",
            token=settings["token"],
        )

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def seen(name: str, status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
        if status.get("phase") == "Ready":
            finish.saw(name)
        elif lean:
            patch.status["phase"] = "Ready"

    if not lean:

        @kopf.on.create(GROUP, VERSION, PLURAL, registry=registry)
        @kopf.on.resume(GROUP, VERSION, PLURAL, registry=registry)
        async def ready(patch: kopf.Patch, **_: Any) -> None:
            patch.status["phase"] = "Ready"

    stop = asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(registry=registry, clusterwide=True, standalone=True, stop_flag=stop)
    )
    reached = asyncio.create_task(finish.reached.wait())
    await asyncio.wait([operator, reached], return_when=asyncio.FIRST_COMPLETED)
    if not finish.reached.is_set():
        reached.cancel()
        await operator
        raise RuntimeError("kopf ended before it was done")
    stop.set()
    await asyncio.gather(operator, return_exceptions=True)
    return {"per_second": finish.per_second()}
