"""Instance control, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances.plan import (
    Create,
    Delete,
    DeleteReason,
    InstancePlan,
    PatchLabels,
    Step,
    Wait,
    WaitReason,
)
from datum_compute.decisions.instances.policies import POLICIES, UnknownPolicy, find_policy
from tests.support.decisions.builders import DEPLOYMENT, instance


def index_label(ordinal: int) -> dict[str, str]:
    return {compute.LABEL_INSTANCE_INDEX: str(ordinal)}


def decide(
    desired: int, *instances: compute.Instance, hold_rolls: str = "", policy: str = "OrderedReady"
) -> InstancePlan:
    return find_policy(policy)(
        deployment_name=DEPLOYMENT,
        desired=desired,
        template_hash="new",
        labels_for=index_label,
        instances=instances,
        hold_rolls=hold_rolls,
    )


def create(ordinal: int) -> Create:
    return Create(ordinal, f"{DEPLOYMENT}-{ordinal}")


def delete(ordinal: int | None, reason: DeleteReason, name: str = "") -> Delete:
    name = name or f"{DEPLOYMENT}-{ordinal}"
    return Delete(name, f"uid-of-{name}", ordinal, reason)


def wait(ordinal: int, reason: WaitReason = WaitReason.NOT_READY) -> Wait:
    return Wait(f"{DEPLOYMENT}-{ordinal}", ordinal, reason)


def held(plan: InstancePlan) -> list[Step]:
    return [*plan.queued, *(each.step for each in plan.held)]


GONE_SOON = WaitReason.BEING_DELETED


@pytest.mark.parametrize(
    ("desired", "world", "first"),
    [
        pytest.param(3, [], create(0), id="an empty world begins at 0"),
        pytest.param(3, [instance(0, ready=False)], wait(0), id="no 1 before 0 is ready"),
        pytest.param(3, [instance(0)], create(1), id="1 once 0 is ready"),
        pytest.param(3, [instance(0), instance(2)], create(1), id="a gap is filled"),
        pytest.param(
            2,
            [instance(0, deleting=True), instance(1)],
            wait(0, GONE_SOON),
            id="a slot is held until its Instance is gone",
        ),
        pytest.param(
            3,
            [instance(0, hash="old"), instance(1, hash="old"), instance(2, hash="old")],
            delete(2, DeleteReason.RECREATE),
            id="a roll begins at the top",
        ),
        pytest.param(
            3,
            [instance(0, hash="old"), instance(1, hash="old"), instance(2, ready=False)],
            wait(2),
            id="a roll waits for the replacement",
        ),
        pytest.param(
            3,
            [instance(0, hash="old"), instance(1, hash="old"), instance(2)],
            delete(1, DeleteReason.RECREATE),
            id="a roll goes down",
        ),
        pytest.param(
            3,
            [instance(0, hash="old", ready=False), instance(1, hash="old"), instance(2)],
            delete(0, DeleteReason.REPLACE_UNREADY),
            id="stale and unready goes before stale and ready",
        ),
        pytest.param(
            3,
            [instance(0, ready=False), instance(1, hash="old", ready=False), instance(2)],
            delete(1, DeleteReason.REPLACE_UNREADY),
            id="stale and unready goes before waiting for a current one",
        ),
        pytest.param(
            3,
            [instance(0, hash="old", ready=False)],
            delete(0, DeleteReason.REPLACE_UNREADY),
            id="a bad first one is replaced before the second is created",
        ),
        pytest.param(
            2,
            [instance(0, hash="old", ready=False), instance(1, hash="old", deleting=True)],
            wait(1, GONE_SOON),
            id="unready ones too go one at a time",
        ),
        pytest.param(
            3,
            [instance(0, hash="old", ready=False), instance(2, hash="old", deleting=True)],
            wait(2, GONE_SOON),
            id="a gap above a bad one stays while another slot is emptied",
        ),
        pytest.param(
            1, [instance(0, hash=None)], delete(0, DeleteReason.RECREATE), id="no hash is stale"
        ),
        pytest.param(
            4,
            [instance(0, hash="old"), instance(1, hash="old"), instance(2, hash="old")],
            create(3),
            id="growing during a roll creates first",
        ),
        pytest.param(
            1,
            [instance(0), instance(1), instance(2)],
            delete(2, DeleteReason.SCALE_DOWN),
            id="shrinking begins at the top",
        ),
        pytest.param(
            1,
            [instance(0), instance(1), instance(2, deleting=True)],
            wait(2, GONE_SOON),
            id="shrinking waits until one is gone",
        ),
        pytest.param(
            1,
            [instance(0), instance(1, deleting=True), instance(2)],
            wait(1, GONE_SOON),
            id="a removal under way is finished first",
        ),
        pytest.param(
            1,
            [instance(0, ready=False), instance(1)],
            wait(0),
            id="no shrinking while what stays is not ready",
        ),
        pytest.param(
            1,
            [instance(0, hash="old"), instance(1, hash="old")],
            delete(0, DeleteReason.RECREATE),
            id="no shrinking while what stays is stale",
        ),
        pytest.param(
            1,
            [instance(0), instance(None, name="web-default-dfw-x")],
            delete(None, DeleteReason.STRAY, "web-default-dfw-x"),
            id="one without an ordinal is a stray",
        ),
        pytest.param(
            2,
            [instance(1, name="web-default-dfw-0")],
            delete(1, DeleteReason.STRAY, "web-default-dfw-0"),
            id="one under the name of another ordinal is a stray",
        ),
        pytest.param(
            2,
            [instance(0, hash="old", ready=False), instance(None, name="who", labels={})],
            delete(None, DeleteReason.STRAY, "who"),
            id="strays go before all else",
        ),
        pytest.param(
            1,
            [instance(None, name="web-default-dfw-0", labels={}, ready=False)],
            wait(0),
            id="the name has the ordinal where the label is missing",
        ),
    ],
)
def test_the_first_action_of_a_plan(
    desired: int, world: Sequence[compute.Instance], first: Step
) -> None:
    plan = decide(desired, *world)

    assert [step for step in plan.actions if not isinstance(step, PatchLabels)] == [first]


def test_settled_instances_need_no_action() -> None:
    plan = decide(2, instance(1), instance(0))

    assert plan == InstancePlan()
    assert plan.settled


def test_creates_wait_for_the_instance_before_them() -> None:
    plan = decide(3, instance(0, ready=False))

    assert held(plan) == [create(1), create(2)]
    assert not plan.settled


def test_a_plan_with_one_action_has_none_waiting() -> None:
    assert decide(1) == InstancePlan(actions=(create(0),))


def test_stale_unready_instances_are_replaced_one_by_one_from_the_highest_ordinal() -> None:
    plan = decide(3, *(instance(ordinal, hash="old", ready=False) for ordinal in range(3)))

    assert [*plan.actions, *held(plan)] == [
        delete(ordinal, DeleteReason.REPLACE_UNREADY) for ordinal in (2, 1, 0)
    ]


def test_only_wrong_labels_are_corrected() -> None:
    def two_labels(ordinal: int) -> dict[str, str]:
        return {**index_label(ordinal), "wanted": "new"}

    plan = find_policy("OrderedReady")(
        deployment_name=DEPLOYMENT,
        desired=1,
        template_hash="new",
        labels_for=two_labels,
        instances=[instance(0, labels={**index_label(0), "wanted": "old", "own": "kept"})],
    )

    (patch,) = plan.actions
    assert isinstance(patch, PatchLabels)
    assert patch.labels == {"wanted": "new"}


def test_a_roll_lists_its_waiting_actions() -> None:
    plan = decide(2, *(instance(ordinal, hash="old") for ordinal in range(4)))

    assert plan.actions == (delete(1, DeleteReason.RECREATE),)
    assert held(plan) == [
        delete(0, DeleteReason.RECREATE),
        delete(3, DeleteReason.SCALE_DOWN),
        delete(2, DeleteReason.SCALE_DOWN),
    ]


def test_scaling_to_zero_deletes_all_at_once() -> None:
    stray = instance(None, name="who")

    plan = decide(0, instance(0, ready=False), instance(1, deleting=True), instance(2), stray)

    assert plan.actions == (
        delete(0, DeleteReason.DRAIN),
        wait(1, GONE_SOON),
        delete(2, DeleteReason.DRAIN),
        delete(None, DeleteReason.DRAIN, "who"),
    )
    assert held(plan) == []


def test_labels_are_corrected_regardless_of_order() -> None:
    plan = decide(
        3,
        instance(0, ready=False, labels={"mine": "kept"}, name=f"{DEPLOYMENT}-0"),
        instance(1, labels={}, name=f"{DEPLOYMENT}-1"),
        instance(2, deleting=True, labels={}, name=f"{DEPLOYMENT}-2"),
    )

    assert plan.actions == (
        wait(0),
        PatchLabels(f"{DEPLOYMENT}-0", f"uid-of-{DEPLOYMENT}-0", index_label(0)),
        PatchLabels(f"{DEPLOYMENT}-1", f"uid-of-{DEPLOYMENT}-1", index_label(1)),
    )


def test_a_plan_is_immutable() -> None:
    plan = decide(2, instance(0, labels={}, name=f"{DEPLOYMENT}-0"))
    (step, patch) = plan.actions

    for record, attribute in ((plan, "actions"), (step, "name"), (patch, "labels")):
        with pytest.raises(FrozenInstanceError):
            setattr(record, attribute, ())
    assert isinstance(patch, PatchLabels)
    with pytest.raises(TypeError):
        patch.labels["other"] = "value"  # type: ignore[index]


def test_a_surplus_instance_is_deleted_without_correcting_its_labels() -> None:
    plan = decide(1, instance(0), instance(None, name=f"{DEPLOYMENT}-1", labels={}))

    assert plan.actions == (delete(1, DeleteReason.SCALE_DOWN),)


def test_a_held_roll_does_not_hold_other_actions() -> None:
    world = [instance(0, hash="old"), instance(1, hash="old", ready=False), instance(2)]

    plan = decide(2, *world, hold_rolls="CellDisconnected")

    assert plan.actions == (delete(2, DeleteReason.SCALE_DOWN),)
    assert [(each.step, each.reason) for each in plan.held] == [
        (delete(1, DeleteReason.REPLACE_UNREADY), "CellDisconnected"),
        (delete(0, DeleteReason.RECREATE), "CellDisconnected"),
    ]


def test_a_held_roll_holds_the_replacement_of_an_unready_instance_and_the_next_create() -> None:
    plan = decide(2, instance(0, hash="old", ready=False), hold_rolls="CellDisconnected")

    assert plan.actions == ()
    assert held(plan) == [delete(0, DeleteReason.REPLACE_UNREADY), create(1)]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UnknownPolicy, match="Parallel"):
        decide(1, policy="Parallel")


def test_every_declared_policy_has_a_decision() -> None:
    assert set(POLICIES) == set(compute.POLICIES)


def test_a_missing_policy_means_the_default_policy() -> None:
    assert decide(1, policy="").actions == (create(0),)
