"""Rolls beside a competitor that takes all quota released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, ConditionState
from datum_compute.api.quota import v1alpha1 as quota_api
from datum_compute.decisions import connectivity, quota
from datum_compute.decisions.instances.gates import may_clear_gate
from datum_compute.decisions.instances.plan import InstancePlan
from datum_compute.decisions.quota import Size
from tests.support.decisions.builders import DEPLOYMENT, condition, deployment, instance
from tests.support.decisions.model import ModelDeployment, ModelInstance, settled, slot

SMALL, LARGE = Size(1000, 2048), Size(2000, 2048)


def spec_of(size: Size) -> compute.InstanceSpec:
    limits = {"cpu": f"{size.millicores}m", "memory": f"{size.mebibytes}Mi"}
    container = {"name": "app", "resources": {"limits": limits}}
    return msgspec.convert(
        {"runtime": {"sandbox": {"containers": [container]}}}, compute.InstanceSpec
    )


def deployment_of(desired: int, size: Size) -> compute.WorkloadDeployment:
    of = deployment(minimum=desired, name=DEPLOYMENT)
    template = compute.InstanceTemplate(spec=spec_of(size))
    return msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, template=template))


@dataclass
class Budget:
    """A limit, the claims on it, and a competitor that takes all that is free."""

    limit: dict[str, int]
    claims: dict[str, quota_api.ResourceClaim] = field(default_factory=dict)
    taken: int = 0
    """Instances' worth of vCPUs that the competitor holds."""

    def free(self) -> dict[str, int]:
        free = dict(self.limit)
        for claim in self.claims.values():
            for request in claim.spec.requests:
                free[request.resource_type] -= request.amount
        free[quota.RESOURCE_VCPUS] -= self.taken
        return free

    def ask(self, name: str, size: Size) -> None:
        """A new claim and its decision. A denied claim reserves nothing."""
        fits = all(self.free()[kind] >= amount for kind, amount in size.requests().items())
        body = quota.build_claim(
            instance_name=name,
            instance_namespace="ns-1",
            claim_namespace="default",
            project="demo",
            source_cluster="dfw",
            size=size,
        )
        given = ("True", "QuotaAvailable") if fits else ("False", "QuotaExceeded")
        claim = msgspec.convert(body, quota_api.ResourceClaim)
        status = quota_api.ResourceClaimStatus(conditions=(condition("Granted", *given),))
        if fits:
            self.claims[claim.metadata.name] = msgspec.structs.replace(claim, status=status)

    def is_competed_for(self) -> None:
        self.taken += max(0, self.free()[quota.RESOURCE_VCPUS])


@dataclass
class Claiming:
    """The model world with claims: one becomes ready only behind a grant of its own."""

    world: ModelDeployment
    budget: Budget
    size: Size
    """That of the template."""
    sizes: dict[str, Size] = field(default_factory=dict)
    """Of each Instance, by uid."""
    granted: dict[str, Condition] = field(default_factory=dict)
    """The QuotaGranted condition of each, by uid."""

    def deployment(self) -> compute.WorkloadDeployment:
        return deployment_of(self.world.desired, self.size)

    def step(self, random: Random, check: Callable[[Claiming], None]) -> InstancePlan:
        plan = self.world.plan()
        for action in plan.actions:
            self.world.do(action)
        for model in list(self.world.models.values()):
            self.sizes.setdefault(model.uid, self.size)
            if not model.deleting:
                self.evaluate(model)
        self.budget.is_competed_for()
        due = [model for model in self.world.due() if model.deleting or self.may_start(model)]
        if due:
            model = random.choice(due)
            if model.deleting:
                self.give_back(model)
            self.world.happens(model)
        self.sweep()
        self.budget.is_competed_for()
        check(self)
        return plan

    def evaluate(self, model: ModelInstance) -> None:
        """As the Instance controller does: take over a claim that fits, else create one."""
        name, size = names.claim_name(model.name), self.sizes[model.uid]
        held = self.budget.claims.get(name)
        if held is not None and not quota.claim_fits(held, size):
            del self.budget.claims[name]
            held = None
        if held is None:
            self.budget.ask(model.name, size)
        previous = self.granted.get(model.uid)
        decided = quota.decide_quota(self.budget.claims.get(name), previous)
        self.granted[model.uid] = replace_condition(decided)

    def may_start(self, model: ModelInstance) -> bool:
        given = (self.granted[model.uid],)
        return may_clear_gate(instance(0, gates=["Quota"], conditions=given), "Quota", given)

    def view(self, model: ModelInstance) -> compute.Instance:
        bare = instance(model.ordinal, name=model.name, uid=model.uid)
        return msgspec.structs.replace(bare, spec=spec_of(self.sizes[model.uid]))

    def give_back(self, model: ModelInstance) -> None:
        if not connectivity.is_claim_kept(self.view(model), self.deployment()):
            self.budget.claims.pop(names.claim_name(model.name), None)

    def sweep(self) -> None:
        for name, claim in list(self.budget.claims.items()):
            if names.instance_of_claim(name) in self.world.models:
                continue
            left = connectivity.decide_sweep(
                source_cluster="dfw",
                namespace="ns-1",
                copy=None,
                claim=claim,
                deployment=self.deployment(),
            )
            if left.claim:
                del self.budget.claims[name]

    def holds(self) -> set[str]:
        return {names.instance_of_claim(name) for name in self.budget.claims}


def replace_condition(decided: ConditionState) -> Condition:
    given = condition("QuotaGranted", decided.status, decided.reason)
    return msgspec.structs.replace(given, observed_generation=1)


def granted(size: int, *, spare: int = 0) -> Claiming:
    """A settled deployment of an older template, each Instance with its claim; the rest of
    the budget, if any, is the competitor's at once."""
    limit = {kind: amount * (size + spare) for kind, amount in LARGE.requests().items()}
    limit[quota.RESOURCE_VCPUS] = SMALL.requests()[quota.RESOURCE_VCPUS] * (size + spare)
    models = [replace(model, uid=f"old-{model.ordinal}") for model in settled(size, "old")]
    claiming = Claiming(ModelDeployment.of(models, size), Budget(limit), SMALL)
    for model in models:
        claiming.sizes[model.uid] = SMALL
        claiming.evaluate(model)
    return claiming


def run(claiming: Claiming, random: Random, check: Callable[[Claiming], None]) -> None:
    for _ in range(300):
        if claiming.step(random, check).settled:
            return
    raise AssertionError("the roll does not end")


sizes = st.integers(1, 5)
randoms = st.randoms(use_true_random=False)


@given(sizes, st.integers(0, 2), randoms)
def test_a_roll_never_gives_up_its_quota(size: int, spare: int, random: Random) -> None:
    claiming = granted(size, spare=spare)
    every_slot = {slot(ordinal) for ordinal in range(size)}
    before = {name: id(claim) for name, claim in claiming.budget.claims.items()}

    def check(claiming: Claiming) -> None:
        assert claiming.holds() == every_slot
        assert claiming.world.ready >= size - 1

    run(claiming, random, check)

    assert claiming.world.as_wanted
    assert {name: id(claim) for name, claim in claiming.budget.claims.items()} == before
    assert claiming.budget.taken == spare * 1000


@given(st.integers(2, 5), st.data(), randoms)
def test_scale_down_releases_the_quota_of_removed_instances_only(
    size: int, data: st.DataObject, random: Random
) -> None:
    claiming = granted(size)
    left = claiming.world.desired = data.draw(st.integers(0, size - 1))

    def check(claiming: Claiming) -> None:
        assert claiming.holds() >= {slot(ordinal) for ordinal in range(left)}

    run(claiming, random, check)

    assert claiming.holds() == {slot(ordinal) for ordinal in range(left)}
    assert claiming.budget.taken == (size - left) * 1000


@given(sizes, randoms)
def test_another_size_needs_a_new_claim(size: int, random: Random) -> None:
    """What the old size held is released first, and the competitor may take it."""
    claiming = granted(size)
    claiming.size = LARGE

    for _ in range(4):
        claiming.step(random, lambda claiming: None)

    assert claiming.holds() == {slot(ordinal) for ordinal in range(size - 1)}
    assert all(quota.claim_fits(claim, SMALL) for claim in claiming.budget.claims.values())
    assert claiming.budget.taken == 1000
