"""Lesson 28: the CLI looked only for ``Programmed=False``, but the condition starts as Unknown, and
showed an instance that was starting as "network provisioning".

So: Unknown and False are treated alike, and shown as "Starting".
"""

from __future__ import annotations

import pytest

from datum_compute.cli.explain import states
from datum_compute.providers.simulated.behaviour import START_SECONDS
from tests.support.cli.instances import GRANTED, instance
from tests.support.cli.session import cli_session

DOCUMENT = """\
apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: web}
spec:
  template:
    metadata: {annotations: {KEY: "60"}}
    spec:
      runtime:
        resources: {instanceType: datumcloud/d1-standard-2}
        sandbox: {containers: [{name: app, image: acme/web:1}]}
      networkInterfaces: [{network: {name: default}}]
  placements: [{name: default, cityCodes: [DFW], scaleSettings: {minReplicas: 1}}]
"""


@pytest.mark.parametrize("status", ["Unknown", "False"])
@pytest.mark.parametrize("reason", ["PendingProgramming", "ProgrammingInProgress"])
def test_lesson_28_not_programmed_is_starting_whether_unknown_or_false(
    status: str, reason: str
) -> None:
    found = instance(QuotaGranted=GRANTED, Programmed=(status, reason))

    assert states.instance_status(found) == "Starting"


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_lesson_28_a_failure_is_reported_whether_unknown_or_false(status: str) -> None:
    found = instance(QuotaGranted=GRANTED, Programmed=(status, "ImageUnavailable"))

    assert states.instance_status(found) == "Failed (image unavailable)"


def test_lesson_28_an_instance_that_starts_is_shown_as_starting() -> None:
    with cli_session("DFW") as at:
        document = DOCUMENT.replace("KEY", START_SECONDS)
        assert at.run("deploy -f - --yes --no-wait", stdin=document).code == 0
        seen: set[str] = set()
        for _ in range(120):
            at.wait(0.5)
            seen |= {each["status"] for each in at.run("instances -o json").json}

    assert "Starting" in seen
    assert {each for each in seen if "network" in each.lower()} == set()
