"""``stop`` and ``start``: what they write, and how their waits end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from tests.support.cli.session import CliSession, cli_session

DEPLOY = "deploy api --image=a:1 --city=DFW,LHR --min=2"


def annotate(here: CliSession, kind: Any, name: str, **notes: str | None) -> None:
    keys = {f"compute.datumapis.com/{key.replace('_', '-')}": text for key, text in notes.items()}
    body = merge({"metadata": {"annotations": keys}})
    here.act(here.client().patch(kind, name, body, "default"))
    here.wait(5)


def notes_of(here: CliSession) -> dict[str, str]:
    found = here.act(here.client().get(compute.WORKLOADS, "api", "default"))
    return dict(found.metadata.annotations)


def test_a_stop_and_a_start_are_no_revisions_and_leave_no_trace() -> None:
    with cli_session("DFW", "LHR") as here:
        here.run(DEPLOY)
        before = notes_of(here)
        history = here.run("rollout history api --no-headers").out

        assert here.run("stop api").code == 0
        added = {key for key in notes_of(here) if key not in before}
        assert added == {compute.ANNOTATION_SUSPENDED, compute.ANNOTATION_SUSPENDED_BY}
        assert here.run("start api").code == 0

        assert notes_of(here) == before
        shown = here.run("rollout history api --no-headers").out
        assert len(shown.splitlines()) == len(history.splitlines()) == 1


def test_a_stop_is_not_part_of_a_saved_manifest(tmp_path: Any) -> None:
    with cli_session("DFW", "LHR") as here:
        here.run(DEPLOY)
        here.run("stop api")
        here.run(f"deploy api --env=A=b --save {tmp_path}/api.yaml")

        assert "suspended" not in (tmp_path / "api.yaml").read_text()
        assert here.run(f"deploy -f {tmp_path}/api.yaml").code == 0
        assert compute.ANNOTATION_SUSPENDED in notes_of(here)


def test_a_stop_waits_for_a_city_that_does_not_answer_and_says_so() -> None:
    with cli_session("DFW", "LHR") as here:
        here.run(DEPLOY)
        here.platform.partitions.disconnect("lhr")
        here.wait(120)
        result = here.run("stop api --timeout 30s")

        assert result.code == 4
        assert '"api" is not stopped after 30s; still waiting for LHR: ' in result.err
        status = here.run("status api")
        assert "Health     Stopped by local-admin 30s ago; LHR has not stopped yet" in status.out
        here.platform.partitions.connect("lhr")
        assert here.run("stop api").code == 0


def test_a_stop_ends_as_superseded_when_it_is_started_again() -> None:
    with cli_session("DFW", "LHR") as here:
        here.run(DEPLOY)
        here.platform.partitions.disconnect("lhr")

        async def started() -> None:
            await asyncio.sleep(5)
            note = {compute.ANNOTATION_SUSPENDED: None}
            body = merge({"metadata": {"annotations": note}})
            await here.client().patch(compute.WORKLOADS, "api", body, "default")

        task = here.loop.create_task(started())
        result = here.run("stop api")
        here.loop.run_until_complete(task)

        assert result.code == 8
        assert '"api" was started again' in result.err


@pytest.mark.parametrize(
    ("by", "shown"),
    [
        (None, "Stopped 5s ago"),
        ("", "Stopped 5s ago"),
        ("ana", "Stopped 5s ago"),
        ("[1]", "Stopped 5s ago"),
        (json.dumps({"actor": "Ana", "timestamp": "2026-01-01T00:00:00"}), "Stopped by Ana"),
        (json.dumps({"actor": 7, "timestamp": None}), "Stopped by 7 5s ago"),
    ],
)
def test_a_stop_by_another_program_is_shown_as_far_as_it_is_known(
    by: str | None, shown: str
) -> None:
    with cli_session("DFW", "LHR") as here:
        here.run(DEPLOY)
        annotate(here, compute.WORKLOADS, "api", suspended="yes", suspended_by=by)
        found = here.run("status api").out

        assert [line for line in found.splitlines() if line.startswith("Health")] == [
            f"Health     {shown}"
        ]


def test_cities_that_were_stopped_alone_are_named_when_the_rest_is_started() -> None:
    with cli_session("DFW", "LHR") as here:
        here.run(DEPLOY)
        here.run("stop api --city DFW")
        result = here.run("start api")

        assert result.code == 0
        assert '"api" is not stopped.\nDFW is stopped separately.' in result.err
        assert "start api --city DFW" in result.err
        assert here.run("start api --city DFW").code == 0
        assert "Available — all placements" in here.run("status api").out


def test_a_city_stopped_after_its_workload_stays_stopped_when_that_starts() -> None:
    with cli_session("DFW", "LHR") as here:
        here.run(DEPLOY)
        here.run("stop api")
        assert here.run("stop api --city DFW").code == 0
        assert here.run("start api").code == 0

        assert "Available — DFW stopped by local-admin" in here.run("status api").out


def test_a_failing_city_beside_a_stopped_one_is_still_shown_as_failing() -> None:
    with cli_session("DFW", "LHR") as here:
        here.run(DEPLOY)
        here.run("stop api --city DFW")
        note = "simulated.compute.datumapis.com/fail"
        template = {"metadata": {"annotations": {note: "ImageUnavailable"}}}
        body = merge({"spec": {"template": template}})
        here.act(here.client().patch(compute.WORKLOADS, "api", body, "default"))
        here.wait(60)
        found = here.run("status api").out

        assert "Degraded — 1 instance below desired count; DFW stopped by local-admin" in found
        assert "LHR  Failed (image unavailable)" in found
        assert "DFW  " not in found.partition("LHR  Failed")[2]


def stop_city_and_workload(here: CliSession) -> None:
    assert here.run("deploy api --image=a:1 --city=DFW").code == 0
    assert here.run("stop api --city DFW").code == 0
    assert here.run("stop api").code == 0


@pytest.mark.parametrize("flags", ["", " --no-wait"])
def test_a_workload_whose_only_city_was_stopped_alone_does_not_run_again(flags: str) -> None:
    with cli_session("DFW") as here:
        stop_city_and_workload(here)
        started = here.run("start api" + flags)

        assert started.code == 0
        assert "runs again" not in started.err
        assert 'DFW is stopped separately.\nNo instance of "api" runs.' in started.err
        assert "start api --city DFW" in started.err


def test_a_start_that_starts_nothing_says_so_to_programs() -> None:
    with cli_session("DFW") as here:
        stop_city_and_workload(here)

        assert here.run("start api -o json").json["action"] == "stopped"


@pytest.mark.parametrize("name", ["api", "api-default-dfw-0"])
def test_why_suggests_the_start_that_is_possible(name: str) -> None:
    with cli_session("DFW") as here:
        stop_city_and_workload(here)
        assert here.run(f"why {name}").out.splitlines()[-1] == (
            "Next          datumctl-compute start api"
        )
        here.run("start api")

        assert here.run(f"why {name}").out.splitlines()[-1] == (
            "Next          datumctl-compute start api --city DFW"
        )
        assert here.run("start api --city DFW").code == 0
