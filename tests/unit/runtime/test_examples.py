"""The example controller does what its README promises, on the real embedded server."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api.core import CONFIG_MAPS, NAMESPACES, ConfigMap
from datum_compute.client import errors, kubeconfig
from datum_compute.client.protocol import Client, merge
from datum_compute.env import SystemEnvironment
from datum_compute.fleets.static import StaticFleet
from datum_compute.testing import loop as virtual
from datum_compute.testing.expectations import eventually
from datum_compute.testing.server import embedded_server
from tests.support.paths import ROOT
from tests.support.runtime.blocks import managed

EXAMPLE = ROOT / "examples" / "10-first-controller" / "controller.py"


def _example() -> Any:
    spec = importlib.util.spec_from_file_location("first_controller", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def _greeted() -> AsyncIterator[tuple[Client, Client]]:
    async with embedded_server() as embedded:
        dfw_client, lhr_client = embedded.client("cell/dfw"), embedded.client("cell/lhr")
        clusters = StaticFleet("cells", {"dfw": dfw_client, "lhr": lhr_client}, embedded.env)
        async with managed(embedded.env, _example().greeter(clusters)):
            yield dfw_client, lhr_client


async def _text(client: Client, namespace: str) -> str:
    try:
        greeting = await client.get(CONFIG_MAPS, "greeting", namespace)
    except errors.NotFound:
        return ""
    return greeting.view(ConfigMap).data["text"]


async def _reads(client: Client, namespace: str, expected: str, *, within: float = 10) -> None:
    async def look() -> str:
        found = await _text(client, namespace)
        return "" if found == expected else repr(found)

    await eventually(f"the greeting reads {expected!r}", look, within=within)


async def _keeps_greetings() -> None:
    async with _greeted() as (dfw_client, lhr_client):
        for client, whom in ((dfw_client, "Dallas"), (lhr_client, "London")):
            metadata = {"name": "town", "labels": {"greet": whom}}
            await client.create(NAMESPACES, {"metadata": metadata})
        await _reads(dfw_client, "town", "Hello, Dallas")
        await _reads(lhr_client, "town", "Hello, London")

        await dfw_client.delete(CONFIG_MAPS, "greeting", "town")
        await _reads(dfw_client, "town", "Hello, Dallas")

        labels = merge({"metadata": {"labels": {"greet": "Texas"}}})
        await dfw_client.patch(NAMESPACES, "town", labels)
        await _reads(dfw_client, "town", "Hello, Texas")
        await dfw_client.patch(CONFIG_MAPS, "greeting", merge({"data": {"text": "Hm"}}), "town")
        await _reads(dfw_client, "town", "Hello, Texas")
        assert await _text(dfw_client, "default") == ""

        unlabelled = merge({"metadata": {"labels": {"greet": None}}})
        await dfw_client.patch(NAMESPACES, "town", unlabelled)
        await _reads(dfw_client, "town", "")
        await _reads(lhr_client, "town", "Hello, London")


@pytest.mark.parametrize("seed", range(5))
def test_greetings_are_created_kept_and_changed_in_every_order(seed: int) -> None:
    virtual.run(_keeps_greetings(), seed=seed)


async def test_a_settled_example_writes_nothing() -> None:
    async with _greeted() as (dfw_client, _):
        await dfw_client.create(
            NAMESPACES, {"metadata": {"name": "town", "labels": {"greet": "Dallas"}}}
        )
        await _reads(dfw_client, "town", "Hello, Dallas")
        before = (await dfw_client.list(CONFIG_MAPS)).resource_version
        await asyncio.sleep(3600)

        assert (await dfw_client.list(CONFIG_MAPS)).resource_version == before


@pytest.mark.realtime
async def test_the_example_runs_with_a_kubeconfig(tmp_path: Path) -> None:
    async with embedded_server(SystemEnvironment()) as embedded, embedded.serve_https() as address:
        file = tmp_path / "kubeconfig"
        file.write_text(
            kubeconfig.render(
                server=address.base_url + "/clusters/dfw",
                ca_pem=address.ca_pem,
                token=address.token,
                name="dfw",
                user="admin",
            )
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE.parent / "run.py"), str(file), stderr=subprocess.PIPE
        )
        try:
            metadata = {"name": "town", "labels": {"greet": "Dallas"}}
            dfw_client = embedded.client("cell/dfw")
            await dfw_client.create(NAMESPACES, {"metadata": metadata})
            await _reads(dfw_client, "town", "Hello, Dallas", within=30)
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = await process.communicate()

    assert (process.returncode, errors.decode()) == (0, "")
