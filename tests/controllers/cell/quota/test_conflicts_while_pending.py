"""Lesson 5: a conflict while quota was pending lost the requeue and fell to exponential backoff.

So: the requeue is known before anything can fail, and a conflict while pending keeps to it.
"""

from __future__ import annotations

import itertools
import logging

import pytest

from datum_compute.client.transport import HttpRequest
from datum_compute.controllers.cell.instance import instance_controller
from tests.support.client.intercepted_transport import Rule, SentRequest, record, refuse
from tests.support.controllers.cell_instances import (
    GRANTED,
    answer_claim,
    create,
    create_prerequisites,
    until_instance_shows,
)
from tests.support.controllers.planes import controller_planes

CONFLICTS = 30


async def test_lesson_05_conflicts_while_pending_are_retried_at_the_tier_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked("cell/dfw")
        reports: list[SentRequest] = []

        def is_report(request: HttpRequest) -> bool:
            return request.method == "PATCH" and request.path.endswith("/status")

        def is_refused(request: HttpRequest) -> bool:
            return is_report(request) and len(reports) <= CONFLICTS

        link.rules += [
            Rule(record(reports), is_report),
            Rule(refuse(409, "Conflict"), is_refused),
        ]
        controller = instance_controller(
            w.cell_fleet(client),
            w.env,
            hub=w.hub_fleet(),
            projects=w.projects(),
            cluster_name="dfw",
        )
        with caplog.at_level(logging.INFO, "datum_compute.controllers"):
            async with w.running(controller):
                await create(w)
                shown = ("Ready", "False", "SchedulingGatesPresent")
                await until_instance_shows(w, shown, gates="Quota", within=CONFLICTS * 1.1 + 2)
                await answer_claim(w)
                await until_instance_shows(w, GRANTED, within=2.0)

        gaps = [b.at - a.at for a, b in itertools.pairwise(reports[: CONFLICTS + 1])]
        assert max(gaps) <= 1.1, "longer than the tier of a new Instance"
        logged = [each for each in caplog.records if "conflict while quota" in each.message]
        assert len(logged) == CONFLICTS
        assert controller.statistics().errors == 0
