"""Admission of Workloads on the local platform, and by a manager."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.api import planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.apiserver.http.listener import serve
from datum_compute.assembly.local.platform import LocalPlatform
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.env import SystemEnvironment
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.expectations import eventually
from tests.support.decisions.samples import FILES, WARNINGS
from tests.support.decisions.workloads import CONTAINER, with_changes
from tests.support.processes.managers import (
    SETTINGS,
    TOKEN,
    ManagerFiles,
    PlatformWithoutControllers,
)
from tests.support.webhooks.server import post_review, request

PATH = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads"


@contextlib.asynccontextmanager
async def local_platform() -> AsyncIterator[LocalPlatform]:
    settings = LocalSettings(cities=("DFW", "IAD", "LHR"))
    platform = LocalPlatform(SimulatedEnvironment(), ":memory:", settings)
    async with platform.run(admin_token=TOKEN):
        yield platform


async def post(platform: LocalPlatform, workload: Any) -> HttpResponse:
    """A create as kubectl sends it."""
    prefix = planes.plane_prefix("project/demo")
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    query = (("fieldValidation", "Strict"),)
    body = json.dumps(workload).encode()
    return await platform.server.handle(HttpRequest("POST", prefix + PATH, query, headers, body))


async def test_a_bad_workload_is_refused_before_anything_is_written() -> None:
    async with local_platform() as platform:
        bad = with_changes(
            CONTAINER, {"PLACEMENT.cityCodes": ["DFW", "XXX"], "SCALE.minReplicas": 0}
        )
        answer = await post(platform, bad)

        status = json.loads(answer.body)
        assert (answer.status, status["reason"]) == (422, "Invalid")
        assert [(cause["field"], cause["message"]) for cause in status["details"]["causes"]] == [
            (
                "spec.placements[0].cityCodes[1]",
                'Unsupported value: "XXX": supported values: "DFW", "IAD", "LHR"',
            ),
            (
                "spec.placements[0].scaleSettings.minReplicas",
                "Invalid value: 0: must be from 1 to 1000",
            ),
        ]
        client = platform.client("project/demo", "local-admin")
        assert (await client.list(compute.WORKLOADS)).items == []


async def test_every_sample_is_admitted_with_its_warnings() -> None:
    async with local_platform() as platform:
        for path in FILES:
            answer = await post(platform, yaml.safe_load(path.read_text()))

            assert answer.status == 201, answer.body
            warning = answer.headers.get("warning", "")
            expected = WARNINGS.get(path.name, [])
            assert warning.count("299 - ") == len(expected)
            assert all(text.replace('"', '\\"') in warning for text in expected)


async def test_a_city_removed_after_admission_is_reported_and_blocks_nothing() -> None:
    async with local_platform() as platform:
        client = platform.client("project/demo", "local-admin")
        await client.create(compute.WORKLOADS, CONTAINER, "default")
        await eventually("running", lambda: _replicas(platform, 4), within=60)
        await client.delete(networking.LOCATION_BINDINGS, "lhr")

        scale = {"spec": {"placements": [{**CONTAINER["spec"]["placements"][0]}]}}
        scale["spec"]["placements"][0]["scaleSettings"] = {"minReplicas": 1}
        await client.patch(compute.WORKLOADS, "api", merge(scale), "default")
        await eventually("scaled", lambda: _replicas(platform, 2), within=60)

        again = with_changes(CONTAINER, {"metadata.name": "again"})
        with pytest.raises(errors.Invalid, match='"LHR": supported values: "DFW", "IAD"'):
            await client.create(compute.WORKLOADS, again, "default")
        stored = await client.get(compute.WORKLOADS, "api", "default")
        placement = stored.view(compute.Workload).status.placements[0]
        assert "LHR" in " ".join(each.message for each in placement.conditions)


async def _replicas(platform: LocalPlatform, count: int) -> str:
    client = platform.client("project/demo", "local-admin")
    stored = await client.get(compute.WORKLOADS, "api", "default")
    status = stored.view(compute.Workload).status
    done = (status.ready_replicas, status.replicas) == (count, count)
    return "" if done else f"{status.ready_replicas} of {status.replicas} are ready"


async def test_controllers_may_write_what_is_no_longer_allowed() -> None:
    """The finalizer of a deleted workload must come off although its city is gone."""
    async with local_platform() as platform:
        client = platform.client("project/demo", "local-admin")
        await client.create(compute.WORKLOADS, CONTAINER, "default")
        await eventually("running", lambda: _replicas(platform, 4), within=60)
        for city in ("dfw", "iad", "lhr"):
            await client.delete(networking.LOCATION_BINDINGS, city)
        await client.delete(compute.WORKLOADS, "api", "default")

        async def gone() -> str:
            found = await client.list(compute.WORKLOADS)
            return "it is still there" if found.items else ""

        await eventually("gone", gone, within=60)


@pytest.mark.long
@pytest.mark.realtime
async def test_a_manager_answers_reviews_over_tls(tmp_path: Path) -> None:
    env = SystemEnvironment()
    platform = PlatformWithoutControllers(env, tmp_path / "state.db", SETTINGS)
    (tmp_path / "tls").mkdir()
    ensure_certificates(tmp_path / "tls", env)
    async with (
        platform.run(admin_token=TOKEN),
        serve(platform.server, env, directory=tmp_path, ports=[0]) as port,
        _manager(tmp_path, ManagerFiles(tmp_path, port, platform)) as log,
    ):
        served = await _port(log)
        client = platform.client("project/demo", "local-admin")
        found = await client.list(networking.LOCATION_BINDINGS)
        assert len(found.items) == 2
        review = request(with_changes(CONTAINER, {"PLACEMENT.cityCodes": ["DFW", "XXX"]}))
        review["request"]["userInfo"]["groups"] = ["system:masters"]

        async def refused() -> str:
            response = await post_review(served, tmp_path / "tls" / "ca.crt", review)
            message = response["status"]["message"]
            # Projects are discovered a moment after the port is open.
            return "" if '"XXX": supported values: "DFW", "LHR"' in message else message

        await eventually("it refuses XXX", refused, within=30)


def _config(directory: Path, files: ManagerFiles) -> Path:
    core = files.kubeconfig("root")
    config = Path(files.config("management", mode="milo", discoveryKubeconfigPath=core))
    names = "certName: server.crt, keyName: server.key"
    config.write_text(
        f"{config.read_text()}webhookServer:\n  host: 127.0.0.1\n  port: 0\n"
        f"  tls: {{certDir: {directory / 'tls'}, {names}}}\n"
    )
    return config


@contextlib.asynccontextmanager
async def _manager(directory: Path, files: ManagerFiles) -> AsyncIterator[Path]:
    hub, config = files.kubeconfig("hub"), _config(directory, files)
    log = directory / "management.log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "datum_compute.assembly.manager.main"),
            *("--enable-management-controllers", f"--federation-kubeconfig={hub}"),
            *("--health-probe-bind-address=0", "--log-format=json", f"--server-config={config}"),
            stderr=stderr,
        )
    try:
        yield log
        assert process.returncode is None, log.read_text()
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 15)


def _read(path: Path) -> str:
    return path.read_text()


async def _port(log: Path) -> int:
    found: list[int] = []

    async def look() -> str:
        text = _read(log)
        lines = [json.loads(line) for line in text.splitlines()]
        found[:] = [line["port"] for line in lines if line.get("server") == "webhooks"]
        return "" if found else f"the log ends with {text[-1000:]!r}"

    await eventually("webhooks are served", look, within=30)
    return found[0]
