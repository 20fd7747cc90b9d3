"""Lesson 27: a restart was requested with kubectl's annotation, which no controller reads.

So: the annotation is ``compute.datumapis.com/restartedAt`` everywhere.
"""

from __future__ import annotations

from pathlib import Path

import datum_compute
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.cli.session import CliSession, cli_session

SOURCE = Path(datum_compute.__file__).parent


def _uids(at: CliSession, cell: str) -> set[str]:
    found = at.act(at.client(f"cell/{cell}").list(compute.INSTANCES)).items
    return {each.metadata.uid for each in found}


def test_lesson_27_the_annotation_restarts_a_workload_or_one_deployment() -> None:
    assert compute.ANNOTATION_RESTARTED_AT == "compute.datumapis.com/restartedAt"
    with cli_session("DFW", "LHR") as at:
        assert at.run("deploy web --image acme/web:1 --city DFW,LHR --min 2 --yes").code == 0
        first = {cell: _uids(at, cell) for cell in ("dfw", "lhr")}

        def restart(resource: object, name: str, moment: str) -> None:
            noted = {"metadata": {"annotations": {compute.ANNOTATION_RESTARTED_AT: moment}}}
            body = merge({"spec": {"template": noted}})
            at.act(at.client().patch(resource, name, body, "default"))  # type: ignore[arg-type]
            at.wait(60)

        restart(compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", "2026-01-01T00:05:00Z")
        second = {cell: _uids(at, cell) for cell in ("dfw", "lhr")}
        assert first["dfw"].isdisjoint(second["dfw"])
        assert first["lhr"] == second["lhr"]

        restart(compute.WORKLOADS, "web", "2026-01-01T00:10:00Z")
        third = {cell: _uids(at, cell) for cell in ("dfw", "lhr")}
        assert second["dfw"].isdisjoint(third["dfw"])
        assert second["lhr"].isdisjoint(third["lhr"])


def test_lesson_27_the_command_writes_the_annotation_and_instances_are_replaced() -> None:
    with cli_session("DFW", "LHR") as at:
        assert at.run("deploy web --image acme/web:1 --city DFW,LHR --min 2 --yes").code == 0
        first = {cell: _uids(at, cell) for cell in ("dfw", "lhr")}
        assert at.run("restart web --city LHR").code == 0
        second = {cell: _uids(at, cell) for cell in ("dfw", "lhr")}
        assert first["lhr"].isdisjoint(second["lhr"])
        assert first["dfw"] == second["dfw"]
        assert at.run("restart web").code == 0
        third = {cell: _uids(at, cell) for cell in ("dfw", "lhr")}
        assert second["dfw"].isdisjoint(third["dfw"])

        found = at.act(at.client().get(compute.WORKLOADS, "web", "default"))
        noted = values(found.spec)["template"]["metadata"]["annotations"]
        assert list(noted) == [compute.ANNOTATION_RESTARTED_AT]


def test_lesson_27_the_product_does_not_use_the_annotation_of_kubectl() -> None:
    others = [
        path
        for path in SOURCE.rglob("*.py")
        for line in path.read_text().splitlines()
        if "restartedAt" in line and "kubectl" in line
    ]

    assert others == []
