"""A change of the template reaches cities wave by wave, and finds its way back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition
from datum_compute.decisions.rollout.state import RolloutOutcome
from tests.support.decisions.rollouts import (
    WAVES,
    City,
    World,
    hash_of,
    name_of,
    policy,
    recorded,
    template,
    world,
)


def progress(w: World) -> tuple[str, str]:
    found = w.plan().progressing
    assert found is not None
    return found.status, found.reason


def said(w: World) -> str:
    found = w.plan().progressing
    assert found is not None
    return found.message


def waves(on_failure: str = "Pause", **more: str) -> str:
    return policy(waves=[["DFW"], ["IAD"], ["LHR"]], onFailure=on_failure, **more)


def fails_in_iad(w: World) -> World:
    """The second wave cannot start the new image; its grace is over."""
    w.deploy("v2")
    w.reconcile()
    w.cities["DFW"] = w.cities["DFW"].rolled()
    w.reconcile()
    w.reconcile()
    assert w.images() == {"DFW": "v2", "IAD": "v2", "LHR": "v1"}
    w.cities["IAD"] = w.cities["IAD"].broken()
    w.pass_time(seconds=31)
    return w


def test_waves_open_one_after_the_other() -> None:
    w = world()
    w.deploy("v2")
    seen = []
    for _ in range(9):
        w.reconcile()
        seen.append(tuple(w.images().values()))
        w.cities = {city: each.rolled() for city, each in w.cities.items()}
    assert list(dict.fromkeys(seen)) == [
        ("v2", "v1", "v1"),
        ("v2", "v2", "v1"),
        ("v2", "v2", "v2"),
    ]
    assert progress(w) == ("True", "Complete")


def test_without_a_policy_every_city_gets_the_template_at_once_and_nothing_is_recorded() -> None:
    for text in ("", "{}"):
        w = world(text)
        w.deploy("v2")
        plan = w.reconcile()
        assert set(w.images().values()) == {"v2"}
        assert [dict(each.annotations) for each in w.cities.values()] == [{}, {}, {}]
        assert (plan.progressing, plan.look_again, plan.outdated) == (None, None, frozenset())
        assert not w.plan(live=False).needs_live_read


def test_a_new_policy_changes_nothing_that_runs() -> None:
    w = World(WAVES, template("v1"), {city: City(template("v1")) for city in ("DFW", "IAD", "LHR")})
    w.cities["LHR"] = w.cities["LHR"].broken()
    w.reconcile()
    assert progress(w) == ("True", "Complete")
    assert {each.state.outcome for each in w.cities.values() if each.state} == {"done"}


def test_the_first_deploy_reaches_all_cities_at_once() -> None:
    w = World(WAVES, template("v1"), {})
    w.reconcile()
    assert set(w.images().values()) == {"v1"}
    assert w.settle().progressing == (
        "True",
        "Complete",
        f"template {hash_of('v1')} runs in DFW, IAD, LHR",
    )


def test_cities_that_no_wave_names_come_last() -> None:
    for text in (policy(waves=[["lhr"]]), policy(waves=[["LHR"], ["*"]])):
        w = world(text)
        w.deploy("v2")
        w.reconcile()
        assert w.images() == {"DFW": "v1", "IAD": "v1", "LHR": "v2"}
        w.settle()
        assert set(w.images().values()) == {"v2"}


def test_each_is_one_city_after_the_other_in_the_order_of_the_placements() -> None:
    w = world(policy(waves="each"))
    w.deploy("v2")
    w.reconcile()
    assert w.images() == {"DFW": "v2", "IAD": "v1", "LHR": "v1"}


def test_a_wave_must_stay_ready_without_interruption_for_the_soak() -> None:
    w = world(waves(soak="60s"))
    w.deploy("v2")
    w.reconcile()
    w.cities["DFW"] = w.cities["DFW"].rolled()
    plan = w.reconcile()
    assert plan.look_again == timedelta(seconds=60)
    assert progress(w) == ("True", "Soaking")
    assert said(w) == "wave 1 of 3: DFW healthy since 2026-03-04T05:06:07Z, must stay so for 1m"
    w.pass_time(seconds=50)
    w.cities["DFW"] = w.cities["DFW"].broken("ProvisioningInstances")
    w.reconcile()
    w.cities["DFW"] = w.cities["DFW"].rolled()
    w.reconcile()
    w.pass_time(seconds=59)
    for _ in range(3):
        w.reconcile()
    assert w.images()["IAD"] == "v1"
    w.pass_time(seconds=1)
    for _ in range(2):
        w.reconcile()
    assert w.images()["IAD"] == "v2"


@pytest.mark.parametrize(
    "report",
    [
        lambda city: replace(city.rolled(), observed=city.generation - 1),
        lambda city: replace(city.rolled(), updated=0),
        lambda city: replace(city.rolled(), ready=0),
        lambda city: replace(city.rolled(), replicas=2),
        lambda city: replace(city.rolled(), reachable=False),
        lambda city: city.wiped(),
    ],
    ids=["behind", "old", "unready", "surplus", "unreachable", "wiped"],
)
def test_a_wave_is_not_ready_before_its_cell_has_said_all_of_it(report: object) -> None:
    w = world()
    w.deploy("v2")
    w.reconcile()
    w.cities["DFW"] = report(w.cities["DFW"])  # type: ignore[operator]
    for _ in range(3):
        w.reconcile()
    assert w.images()["IAD"] == "v1"


def test_a_failed_wave_keeps_later_waves_closed() -> None:
    w = fails_in_iad(world(waves("Pause")))
    w.reconcile()
    assert w.images() == {"DFW": "v2", "IAD": "v2", "LHR": "v1"}
    assert progress(w) == ("False", "WaveFailed")
    assert said(w) == "IAD: about InstanceCrashing (InstanceCrashing); not updated: LHR"
    # Also when it recovers: a person looks first.
    w.cities["IAD"] = w.cities["IAD"].rolled()
    w.settle()
    assert w.images()["LHR"] == "v1"
    w.mark(compute.ANNOTATION_ROLLOUT_PROMOTED, f"{w.hash}/3")
    w.settle()
    assert w.images()["LHR"] == "v2"
    assert progress(w) == ("True", "Complete")


def test_a_failed_wave_is_undone_everywhere() -> None:
    w = fails_in_iad(world(waves("Undo")))
    w.settle(bad=["v2"])
    assert set(w.images().values()) == {"v1"}
    assert progress(w) == ("False", "RolledBack")
    assert said(w) == (
        f"template {hash_of('v2')} was undone: IAD: about InstanceCrashing (InstanceCrashing);"
        " the last good template is back in DFW, IAD"
    )


def test_an_undo_that_was_cut_short_goes_on() -> None:
    for first in ("DFW", "IAD"):
        w = fails_in_iad(world(waves("Undo")))
        w.apply(w.plan(), only=[first])
        # What remains does not depend on the failure: the report of it may be lost.
        w.cities["IAD"] = w.cities["IAD"].rolled()
        w.settle()
        assert set(w.images().values()) == {"v1"}
        assert "InstanceCrashing" in said(w)


def test_a_failed_wave_can_be_left_behind() -> None:
    w = fails_in_iad(world(waves("Continue")))
    w.reconcile()
    w.reconcile()
    assert set(w.images().values()) == {"v2"}
    assert progress(w) == ("True", "WaveInProgress")
    assert said(w) == (
        "wave 3 of 3: LHR, 0 of 1 updated; failed: IAD: about InstanceCrashing (InstanceCrashing)"
    )
    w.cities["LHR"] = w.cities["LHR"].rolled()
    w.reconcile()
    assert progress(w) == ("False", "WaveFailed")
    w.cities["IAD"] = w.cities["IAD"].rolled()
    w.settle()
    assert progress(w) == ("True", "Complete")


def test_a_wave_that_takes_too_long_has_failed() -> None:
    w = world(waves(timeout="5m"))
    w.deploy("v2")
    assert w.reconcile().look_again == timedelta(minutes=5)
    w.pass_time(minutes=5)
    w.reconcile()
    assert said(w) == "DFW: not ready within 5m; not updated: IAD, LHR"
    # The last wave, or the only one, may still complete: it opens nothing.
    w = world(policy(timeout="5m"))
    w.deploy("v2")
    w.reconcile()
    w.pass_time(minutes=5)
    w.reconcile()
    assert progress(w) == ("False", "WaveFailed")
    w.settle()
    assert progress(w) == ("True", "Complete")


def test_an_interrupted_soak_has_the_whole_timeout_to_become_ready_again() -> None:
    """A scale-up or a short outage long after the wave was opened is no failure."""
    w = world(waves("Undo", soak="1h", timeout="5m"))
    w.deploy("v2")
    w.reconcile()
    w.cities["DFW"] = w.cities["DFW"].rolled()
    w.reconcile()
    w.pass_time(minutes=50)
    w.cities["DFW"] = w.cities["DFW"].away()
    w.reconcile()
    w.pass_time(minutes=4)
    w.reconcile()
    assert w.images()["DFW"] == "v2"
    w.pass_time(minutes=1)
    w.reconcile()
    assert w.images()["DFW"] == "v1"


def test_what_ran_before_the_policy_is_the_way_back() -> None:
    cities = {city: City(template("v1")) for city in ("DFW", "IAD", "LHR")}
    w = fails_in_iad(World(waves("Undo"), template("v1"), cities))
    w.settle()
    assert set(w.images().values()) == {"v1"}


def test_an_undo_returns_to_the_last_template_that_completed_there() -> None:
    w = world(waves("Undo"))
    w.deploy("v2")
    w.reconcile()
    w.deploy("v3")
    w.settle(bad=["v3"])
    assert set(w.images().values()) == {"v1"}


def test_a_restart_is_kept_on_undo() -> None:
    w = world(waves("Undo"))
    restarted = template("v1", restartedAt="2026-03-04T00:00:00Z")
    w.cities["DFW"] = replace(w.cities["DFW"], template=restarted)
    w.deploy("v2")
    w.settle(bad=["v2"])
    assert w.cities["DFW"].template == restarted
    assert progress(w) == ("False", "RolledBack")


def test_an_undone_template_is_left_alone_until_the_template_changes() -> None:
    w = fails_in_iad(world(waves("Undo")))
    w.settle()
    w.generation += 1  # a scale-up
    w.pass_time(days=1)
    w.settle()
    assert set(w.images().values()) == {"v1"}
    w.deploy("v3")
    w.settle()
    assert set(w.images().values()) == {"v3"}


def test_the_same_template_can_be_deployed_again_after_another_one() -> None:
    w = fails_in_iad(world(waves("Undo")))
    w.settle()
    w.deploy("v3")
    w.reconcile()
    w.deploy("v2")
    w.settle()
    assert set(w.images().values()) == {"v2"}
    assert progress(w) == ("True", "Complete")


def test_a_city_that_is_added_later_and_fails_takes_nothing_back() -> None:
    w = world(waves("Undo"), cities=("DFW", "IAD"))
    w.deploy("v2")
    w.settle()
    w.named = ("DFW", "IAD", "LHR")
    w.generation += 1
    w.reconcile()
    w.cities["LHR"] = w.cities["LHR"].broken()
    w.pass_time(hours=1)
    w.reconcile()
    assert w.images() == {"DFW": "v2", "IAD": "v2", "LHR": "v2"}
    assert progress(w) == ("False", "WaveFailed")


@pytest.mark.parametrize("city", ["DFW", "LHR"])
def test_a_deployment_that_is_recreated_gets_what_its_wave_may_have(city: str) -> None:
    w = world()
    w.deploy("v2")
    w.reconcile()
    del w.cities[city]
    w.reconcile()
    assert w.images() == {"DFW": "v2", "IAD": "v1", "LHR": "v1"}


def test_a_deployment_that_is_recreated_after_a_rollback_gets_what_the_others_run() -> None:
    w = fails_in_iad(world(waves("Undo")))
    w.settle()
    del w.cities["IAD"]
    w.settle()
    assert set(w.images().values()) == {"v1"}
    assert progress(w) == ("False", "RolledBack")


def test_a_second_change_begins_again_at_the_first_wave() -> None:
    w = world()
    w.deploy("v2")
    w.reconcile()
    w.cities["DFW"] = w.cities["DFW"].rolled()
    w.reconcile()
    w.reconcile()
    w.deploy("v3")
    w.reconcile()
    assert w.images() == {"DFW": "v3", "IAD": "v2", "LHR": "v1"}
    w.settle()
    assert set(w.images().values()) == {"v3"}


def test_a_gate_must_be_true_for_this_template() -> None:
    w = world(waves(gate="SmokeTestsPassed"))

    def gate(status: str, generation: int | None) -> None:
        w.conditions = (
            Condition(type="SmokeTestsPassed", status=status, observed_generation=generation),
        )

    gate("True", 1)
    w.deploy("v2")
    w.settle()
    for status, generation in (("False", 2), ("Unknown", 2), ("True", None), ("True", 1)):
        gate(status, generation)
        w.settle()
        assert w.images()["IAD"] == "v1"
    assert progress(w) == ("True", "WaitingForGate")
    assert said(w) == (
        "wave 2 of 3 (IAD) has waited since 2026-03-04T05:06:07Z for condition SmokeTestsPassed"
        " to be True with observedGeneration 2 or later"
    )
    w.generation = 5  # scaled since
    gate("True", 2)
    w.settle()
    assert set(w.images().values()) == {"v2"}


def test_a_person_opens_waves_and_what_is_promoted_is_not_judged() -> None:
    w = world(waves("Undo", soak="1h", gate="SmokeTestsPassed"))
    w.deploy("v2")
    w.mark(compute.ANNOTATION_ROLLOUT_PROMOTED, f"{hash_of('v1')}/all")
    w.reconcile()
    assert w.images() == {"DFW": "v2", "IAD": "v1", "LHR": "v1"}
    w.mark(compute.ANNOTATION_ROLLOUT_PROMOTED, f"{w.hash}/2")
    w.reconcile()
    assert w.images() == {"DFW": "v2", "IAD": "v2", "LHR": "v1"}
    w.mark(compute.ANNOTATION_ROLLOUT_PROMOTED, f"{w.hash}/all")
    w.reconcile()
    w.cities["DFW"] = w.cities["DFW"].broken()
    w.pass_time(days=1)
    w.reconcile()
    assert set(w.images().values()) == {"v2"}


def test_an_abort_undoes_what_the_rollout_has_changed() -> None:
    w = world()
    w.deploy("v2")
    w.mark(compute.ANNOTATION_ROLLOUT_ABORTED, w.hash)
    w.settle()
    assert set(w.images().values()) == {"v1"}
    w.deploy("v3")
    w.reconcile()
    w.mark(compute.ANNOTATION_ROLLOUT_ABORTED, w.hash)
    w.settle()
    assert set(w.images().values()) == {"v1"}
    assert progress(w) == ("False", "RolledBack")


def test_a_skipped_city_is_not_waited_for_and_follows_when_it_is_back() -> None:
    w = world(waves("Undo"))
    w.cities["DFW"] = w.cities["DFW"].away()
    w.deploy("v2")
    w.reconcile()
    w.pass_time(minutes=5)
    w.mark(compute.ANNOTATION_ROLLOUT_SKIPPED, f"{w.hash}/DFW")
    w.settle()
    assert w.images() == {"DFW": "v2", "IAD": "v2", "LHR": "v2"}
    assert said(w) == f"template {w.hash} runs in IAD, LHR; skipped: DFW"
    w.pass_time(days=1)
    w.cities["DFW"] = w.cities["DFW"].rolled()
    w.settle()
    assert said(w) == f"template {w.hash} runs in DFW, IAD, LHR"


def test_a_city_that_is_skipped_before_its_wave_gets_the_template_after_the_others() -> None:
    w = world()
    w.cities["LHR"] = w.cities["LHR"].away()
    w.deploy("v2")
    w.mark(compute.ANNOTATION_ROLLOUT_SKIPPED, f"{w.hash}/lhr")
    w.settle()
    assert w.images() == {"DFW": "v2", "IAD": "v2", "LHR": "v1"}
    assert progress(w) == ("True", "Complete")
    assert w.plan().outdated == {name_of("LHR")}
    w.cities["LHR"] = replace(w.cities["LHR"], reachable=True)
    w.settle()
    assert set(w.images().values()) == {"v2"}


def test_a_deployment_with_another_template_is_outdated() -> None:
    w = world()
    w.deploy("v2")
    w.reconcile()
    assert w.plan().outdated == {name_of("IAD"), name_of("LHR")}
    restarted = template("v2", restartedAt="2026-03-04T00:00:00Z")
    w.cities["DFW"] = replace(w.cities["DFW"], template=restarted)
    assert w.plan().outdated == {name_of("IAD"), name_of("LHR")}


def test_a_policy_that_cannot_be_read_rolls_nothing() -> None:
    w = world('{"waves": [["DFW"]], "soak": 5}')
    w.deploy("v2")
    w.settle()
    assert set(w.images().values()) == {"v1"}
    assert progress(w) == ("False", "InvalidRolloutPolicy")
    assert said(w) == (
        "metadata.annotations[compute.datumapis.com/rollout].soak: "
        'Invalid value: "integer": must be a string'
    )


def test_a_workload_older_than_its_deployments_is_read_again() -> None:
    w = world()
    w.cities["DFW"] = City(template("v2"), recorded("v2", generation=5))
    plan = w.plan(live=False)
    assert plan.needs_live_read
    assert {name: step.template for name, step in plan.steps.items()} == {
        name_of(city): each.template for city, each in w.cities.items()
    }
    # What the server has is what counts, whatever was written on a deployment.
    w.settle()
    assert set(w.images().values()) == {"v1"}


def test_only_what_the_server_has_moves_a_template() -> None:
    w = world()
    assert not w.plan(live=False).needs_live_read
    w.deploy("v2")
    assert w.plan(live=False).needs_live_read


def test_a_restart_of_the_controller_begins_soak_and_timeout_anew() -> None:
    """What happened while it was down cannot be known."""
    w = soaking(soak="60s", timeout="5m")
    w.restart()
    w.pass_time(days=365)
    assert w.reconcile().look_again == timedelta(seconds=60)
    assert w.images()["IAD"] == "v1"
    w.cities["DFW"] = w.cities["DFW"].broken("ProvisioningInstances")
    w.reconcile()
    w.restart()
    w.pass_time(days=365)
    assert w.reconcile().look_again == timedelta(minutes=5)
    assert progress(w) == ("True", "WaveInProgress")


@pytest.mark.parametrize("years", [-1, 1])
def test_a_wall_clock_that_is_set_changes_neither_soak_nor_timeout(years: int) -> None:
    w = soaking(soak="60s", timeout="5m")
    w.pass_time(seconds=20)
    w.now += timedelta(days=365 * years)
    assert w.reconcile().look_again == timedelta(seconds=40)
    w.cities["DFW"] = w.cities["DFW"].broken("ProvisioningInstances")
    w.reconcile()
    w.now += timedelta(days=365 * years)
    assert w.reconcile().look_again == timedelta(minutes=5)


def test_an_outage_that_no_pass_has_seen_begins_the_soak_anew() -> None:
    w = soaking(soak="60s")
    w.pass_time(seconds=59)
    w.cities["DFW"] = w.cities["DFW"].broken().rolled()
    assert w.reconcile().look_again == timedelta(seconds=60)
    w.cities["DFW"] = w.cities["DFW"].wiped()  # and restored with the times it had
    w.cities["DFW"] = w.cities["DFW"].rolled()
    w.pass_time(seconds=1)
    assert w.reconcile().look_again == timedelta(seconds=59)


def soaking(**more: str) -> World:
    """The first wave is ready with the second template."""
    w = world(waves(**more))
    w.deploy("v2")
    w.reconcile()
    w.cities["DFW"] = w.cities["DFW"].rolled()
    w.reconcile()
    assert progress(w) == ("True", "Soaking")
    return w


def test_a_template_whose_state_was_lost_is_undone_too() -> None:
    w = fails_in_iad(world(waves("Undo")))
    kept = {key: text for key, text in w.cities["DFW"].annotations.items() if "state" not in key}
    w.cities["DFW"] = replace(w.cities["DFW"], annotations=kept)
    w.settle(bad=["v2"])
    assert set(w.images().values()) == {"v1"}


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"spec": 5}', '{"spec": {"runtime": 5}}'])
def test_a_way_back_that_cannot_be_read_is_taken_from_another_city(text: str) -> None:
    w = fails_in_iad(world(waves("Undo")))
    notes = {**w.cities["DFW"].annotations, compute.ANNOTATION_LAST_GOOD_TEMPLATE: text}
    w.cities["DFW"] = replace(w.cities["DFW"], annotations=notes)
    w.settle(bad=["v2"])
    assert set(w.images().values()) == {"v1"}


def test_a_deployment_that_is_created_gets_a_template_that_completed_before() -> None:
    w = world()
    w.deploy("v2")  # reaches DFW, and does not complete there
    w.reconcile()
    w.annotations[compute.ANNOTATION_ROLLOUT_PAUSED] = "me"
    w.deploy("v3")
    del w.cities["LHR"]
    w.reconcile()
    assert w.images() == {"DFW": "v2", "IAD": "v1", "LHR": "v1"}


def test_an_abort_leaves_a_skipped_city_that_never_had_the_template() -> None:
    w = world()
    w.deploy("v2")
    w.mark(compute.ANNOTATION_ROLLOUT_SKIPPED, f"{w.hash}/LHR")
    w.reconcile()
    w.mark(compute.ANNOTATION_ROLLOUT_ABORTED, w.hash)
    w.settle()
    assert set(w.images().values()) == {"v1"}
    assert said(w).endswith("the last good template is back in DFW")
    state = w.cities["LHR"].state
    assert state is not None
    assert state.outcome is RolloutOutcome.SKIPPED


def test_an_abort_without_a_way_back_says_so() -> None:
    w = World(WAVES, template("v1"), {})
    w.mark(compute.ANNOTATION_ROLLOUT_ABORTED, w.hash)
    w.settle()
    assert said(w) == (
        f"template {w.hash} was undone: aborted by a user; it stays in DFW, IAD, LHR,"
        " with no other to go back to"
    )
