"""Lesson 29: enablement went by ``Ready`` alone, so whoever had asked was asked again, met a
conflict on the retry, and was shown the name of a resource.

So: not requested, activating and active are three states; already there means activating.
"""

from __future__ import annotations

from datum_compute.api.services import v1alpha1 as services
from tests.support.cli.session import CliSession, cli_session

ACTIVATING = 12
NOT_REQUESTED = 10


def _withdraw(at: CliSession) -> None:
    at.act(at.client().delete(services.SERVICE_ENTITLEMENTS, "compute"))


def test_lesson_29_there_are_three_states_and_each_has_its_own_answer() -> None:
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


def test_lesson_29_asking_twice_is_no_conflict_and_names_no_resource() -> None:
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
    """It is there without any condition: what is not Ready has still been requested."""
    with cli_session(approval_by_hand=True) as at:
        _withdraw(at)
        body = {
            "metadata": {"name": "compute"},
            "spec": {"serviceRef": {"name": "compute.datumapis.com"}},
        }
        at.act(at.client().create(services.SERVICE_ENTITLEMENTS, body))

        assert at.run("instances").code == ACTIVATING
        assert at.run("access request").code == 0
