"""The metrics of a local platform, and the page that describes each of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import datum_compute
from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.assembly.local.platform import LocalPlatform
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.controllers.planes import NAMESPACE, workload
from tests.support.objects import until
from tests.support.paths import ROOT

SOURCES = Path(datum_compute.__file__).parent
PAGE = ROOT / "docs" / "reference" / "metrics.md"


def documented() -> set[str]:
    return set(re.findall(r"^\| `([a-z_]+)` \|", PAGE.read_text(), re.MULTILINE))


def declared() -> set[str]:
    """The names that the source gives to metrics in full, also of what no local platform runs."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr=made), args=[ast.Constant(str(name)), *_]):
                    if made.endswith(("counter", "gauge", "histogram")):
                        found.add(name)
    return found


def test_the_reference_has_every_metric_of_the_source() -> None:
    found = declared()

    assert len(found) > 30
    assert found - documented() == set()


async def test_the_root_plane_serves_the_metrics_of_the_whole_platform() -> None:
    settings = LocalSettings(cities=("DFW", "LHR"))
    platform = LocalPlatform(SimulatedEnvironment(), ":memory:", settings)
    async with platform.run(admin_token="admin"):
        copies: list[str] = []

        def changed(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
            if (plane.name, table.resource) == ("hub", compute.INSTANCES.group_resource):
                copies.append(event.after.name)

        platform.store.subscribe(changed)
        project = platform.client("project/demo", "local-admin")
        await project.create(compute.WORKLOADS, workload("DFW", "LHR", replicas=2))
        await until(
            project,
            compute.WORKLOADS,
            "web",
            NAMESPACE,
            lambda obj: values(obj.status).get("readyReplicas") == 4,
        )
        text = (await platform.client("root", "local-admin").raw("/metrics")).decode()
        with pytest.raises(errors.NotServed):
            await project.raw("/metrics")
        anonymous = ApiClient(InProcessTransport(platform.server.handle), cluster="root")
        with pytest.raises(errors.Forbidden):
            await anonymous.raw("/metrics")

    lines = text.splitlines()
    assert 'compute_instance_actions_total{action="create"} 4.0' in lines
    assert "compute_quota_enforcement_enabled 1.0" in lines
    assert "compute_federation_policies 2.0" in lines
    assert 'compute_federation_quarantined_objects{reason="no_project"} 0.0' in lines
    assert 'compute_federation_hub_writes_total{kind="WorkloadDeployment"} 2.0' in lines
    written = float(len(copies))
    assert written >= 8, "each is created, and then reports"
    assert f'compute_federation_hub_writes_total{{kind="Instance"}} {written}' in lines
    assert 'compute_federation_write_back_lag_seconds_bucket{le="+Inf"} ' in text
    ready = 'cluster="lhr",condition="Ready",.*name="web-main-lhr-1",.*reason="Av'
    assert re.search(f"instance_status_condition{{{ready}.*}} 1.0\n", text)
    assert re.search(
        'compute_workload_info{.*cluster="demo",.*name="web",namespace="default"', text
    )
    assert all(re.match(r"(# (HELP|TYPE) )?[a-z_]+({.*})? ?.*$", line) for line in lines)
    named = set(re.findall(r"^# TYPE ([a-z_]+) ", text, re.MULTILINE))
    assert named - documented() == set()
