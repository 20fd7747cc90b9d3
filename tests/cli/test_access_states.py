"""Lesson 29: access was judged by ``Ready`` alone, so a user who had requested it was offered a
request again, got a conflict, and saw the name of a resource.

So: not requested, activating and active are three states; one that already exists means activating.
"""

from __future__ import annotations

from datum_compute.api.services import v1alpha1 as services
from tests.support.cli.session import CliSession, cli_session

ACTIVATING = 12
NOT_REQUESTED = 10


def _withdraw(at: CliSession) -> None:
    at.act(at.client().delete(services.SERVICE_ENTITLEMENTS, "compute"))


def test_lesson_29_each_of_the_three_access_states_has_its_own_exit_code() -> None:
    with cli_session(activation_seconds=120) as at:
        assert at.run("instances").code == 0
        _withdraw(at)
        not_requested = at.run("instances")
        assert at.run("access request").code == 0
        activating = at.run("instances")
        at.wait(130)

        assert (not_requested.code, activating.code) == (NOT_REQUESTED, ACTIVATING)
        assert "is not enabled" in not_requested.err
        assert "is being activated" in activating.err
        assert at.run("instances").code == 0


def test_lesson_29_requesting_twice_is_no_conflict_and_shows_no_resource_name() -> None:
    with cli_session(activation_seconds=120) as at:
        _withdraw(at)
        results = [at.run("access request"), at.run("access request"), at.run("instances")]
        [found] = at.act(at.client().list(services.SERVICE_ENTITLEMENTS)).items

        assert [each.code for each in results] == [0, 0, ACTIVATING]
        assert found.name == "compute"
        for each in results:
            for leaked in ("ServiceEntitlement", "serviceentitlement", "already exists", "409"):
                assert leaked not in each.out + each.err


def test_lesson_29_an_entitlement_without_status_is_activating_not_absent() -> None:
    """It has no condition yet: one that is not Ready has still been requested."""
    with cli_session(approval_by_hand=True) as at:
        _withdraw(at)
        body = {
            "metadata": {"name": "compute"},
            "spec": {"serviceRef": {"name": "compute"}},
        }
        at.act(at.client().create(services.SERVICE_ENTITLEMENTS, body))

        assert at.run("instances").code == ACTIVATING
        assert at.run("access request").code == 0
