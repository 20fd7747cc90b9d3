"""Operations of users on a platform, drawn from a seed.

A sequence is a list of steps, each a pause and an operation. Some operations state what is
wanted (deploy, scale, restart, destroy); others are accidents (an object deleted by hand, a spec
edited in a cell). A sequence always ends with something that can be had: the last image is good,
the networks exist and the quota is enough. ``wanted`` is what must then run.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.providers.simulated.behaviour import FAIL, FAILURES, START_SECONDS
from datum_compute.runtime.writes import patch
from tests.support.simulation.platform import (
    NAMESPACE,
    RunningPlatform,
    cell_planes,
    list_on_planes,
    workload,
)

WORKLOADS = ("web", "api", "job")
CITIES = (("DFW",), ("LHR",), ("DFW", "LHR"))
PAUSES = (0.0, 0.0, 0.02, 0.1, 0.5, 3.0, 20.0)
GRANT = "local-default"

LOSABLE: tuple[tuple[str, Resource], ...] = (
    ("project", compute.INSTANCES),
    ("project", compute.WORKLOAD_DEPLOYMENTS),
    ("project", quota.RESOURCE_CLAIMS),
    ("project", quota.ALLOWANCE_BUCKETS),
    ("hub", compute.INSTANCES),
    ("hub", compute.WORKLOAD_DEPLOYMENTS),
    ("hub", karmada.PROPAGATION_POLICIES),
    ("hub", karmada.RESOURCE_BINDINGS),
    ("hub", karmada.WORKS),
    ("cell", compute.WORKLOAD_DEPLOYMENTS),
    ("cell", compute.INSTANCES),
    ("cell", networking.NETWORK_BINDINGS),
    ("cell", networking.NETWORK_CONTEXTS),
    ("cell", networking.SUBNET_CLAIMS),
    ("cell", networking.SUBNETS),
    ("cell", networking.NETWORKS),
)


EDITABLE: tuple[tuple[str, Resource], ...] = (
    ("project", compute.WORKLOAD_DEPLOYMENTS),
    ("hub", compute.WORKLOAD_DEPLOYMENTS),
    ("cell", compute.WORKLOAD_DEPLOYMENTS),
    ("project", compute.INSTANCES),
    ("hub", compute.INSTANCES),
)
"""Copies: their controllers restore them."""


DATA_FIELDS = {"ConfigMap": "configMapRef", "Secret": "secretRef"}
SOURCES: tuple[tuple[Resource, str], ...] = (
    (core.CONFIG_MAPS, "settings"),
    (core.SECRETS, "keys"),
)
"""What workloads may name."""
DATA_SHARE = 0.3
"""Of all sequences: those in which workloads name data."""


WAVES_SHARE = 0.4
"""Of all sequences: those in which templates reach the cities in waves."""
STEERS: tuple[tuple[str, str | None], ...] = (
    ("paused", "a user"),
    ("paused", None),
    ("promoted", "HASH/2"),
    ("promoted", "HASH/all"),
    ("aborted", "HASH"),
    ("skipped", "HASH/DFW"),
)
"""Annotations by which users steer a rollout, and their values."""


@dataclass(frozen=True)
class DesiredWorkload:
    """A workload as its owner last described it."""

    name: str
    image: str
    minimum: int
    cities: tuple[str, ...]
    fail: str = ""
    restarted: str = ""
    start_seconds: str = ""
    data: tuple[str, ...] = ()
    """Entries of the ConfigMaps and Secrets of which every key becomes a variable."""
    rollout: str | None = None
    """The policy of its rollouts; empty for none, and None where it is not spoken of."""

    def body(self) -> dict[str, Any]:
        body = workload(self.image, self.minimum, self.cities)
        body["metadata"]["name"] = self.name
        if self.data:
            [container] = body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"]
            container["envFrom"] = [
                {DATA_FIELDS[kind]: {"name": name}}
                for kind, _, name in (entry.partition("/") for entry in self.data)
            ]
        annotations = {
            FAIL: self.fail,
            START_SECONDS: self.start_seconds,
            compute.ANNOTATION_RESTARTED_AT: self.restarted,
        }
        if self.rollout is not None:
            body["metadata"]["annotations"] = {compute.ANNOTATION_ROLLOUT: self.rollout or None}
        # Null removes a key in a merge patch and stands for nothing in a new object.
        body["spec"]["template"]["metadata"] = {
            "annotations": {key: value or None for key, value in annotations.items()}
        }
        return body

    def to_create(self) -> dict[str, Any]:
        body = self.body()
        for metadata in (body["metadata"], body["spec"]["template"]["metadata"]):
            kept = metadata.pop("annotations", {})
            if kept:
                metadata["annotations"] = {key: value for key, value in kept.items() if value}
        return body


@dataclass(frozen=True)
class Step:
    pause: float
    operation: str
    desired: DesiredWorkload | None = None
    amount: int = 0
    target: int = 0
    """For accidents: which kind, and a number that picks one object of it."""
    pick: int = 0


@dataclass
class OperationSequence:
    seed: int
    steps: list[Step] = field(default_factory=list)
    wanted: dict[str, DesiredWorkload] = field(default_factory=dict)
    grant: int = 100
    """Instances the project may have at first."""

    @property
    def loses_claims(self) -> bool:
        return any(
            step.operation == "lose" and LOSABLE[step.target][1] == quota.RESOURCE_CLAIMS
            for step in self.steps
        )


OPERATIONS = ("deploy", "change", "destroy", "recreate", "network", "lose", "drift", "withdraw")
WEIGHTS = (2, 7, 1, 1, 1, 5, 2, 0)
LENGTHS = (4, 6, 9, 16)


class SequenceGenerator:
    def __init__(
        self,
        seed: int,
        *,
        cities: Sequence[tuple[str, ...]] = CITIES,
        weights: Sequence[int] = WEIGHTS,
        lengths: Sequence[int] = LENGTHS,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        """``weights`` are those of :data:`OPERATIONS`; a sequence has one of these ``lengths``, and
        one of these ``pauses`` before each step."""
        self._chance = Random(seed)
        self._sequence = OperationSequence(seed)
        self._cities = cities
        self._weights = weights
        self._lengths = lengths
        self._pauses = pauses
        self._images = 0
        self._granted = 100
        self._replaced = False
        """Whether a city was removed: it may stay, with its quota, until another serves."""

    def write(self) -> OperationSequence:
        chance, sequence = self._chance, self._sequence
        if chance.random() < 0.4:
            sequence.grant = self._granted = chance.randint(2, 5)
        self._deploy()
        operations = {
            "deploy": self._deploy,
            "change": self._change,
            "destroy": self._destroy,
            "recreate": self._recreate,
            "network": self._network,
            "lose": self._lose,
            "drift": self._drift,
            "withdraw": self._withdraw,
        }
        for _ in range(chance.choice(self._lengths)):
            operations[chance.choices(OPERATIONS, self._weights)[0]]()
        self._end()
        name_data(sequence)
        roll_in_waves(sequence)
        return sequence

    def _add(self, operation: str, desired: DesiredWorkload | None = None, **rest: int) -> None:
        self._sequence.steps.append(
            Step(self._chance.choice(self._pauses), operation, desired, **rest)
        )

    def _want(self, desired: DesiredWorkload, operation: str = "apply") -> None:
        before = self._sequence.wanted.get(desired.name)
        if before is not None and {*before.cities} - {*desired.cities}:
            self._replaced = True
        self._sequence.wanted[desired.name] = desired
        self._add(operation, desired)

    def _image(self) -> str:
        self._images += 1
        return f"acme/app:{self._images}"

    def _deploy(self) -> None:
        free = [name for name in WORKLOADS if name not in self._sequence.wanted]
        if not free:
            return self._change()
        chance = self._chance
        desired = DesiredWorkload(
            chance.choice(free), self._image(), chance.randint(1, 3), chance.choice(self._cities)
        )
        if chance.random() < 0.2:
            desired = replace(desired, start_seconds=chance.choice(("0.3", "5")))
        return self._want(desired)

    def _any(self) -> DesiredWorkload | None:
        wanted = self._sequence.wanted
        return wanted[self._chance.choice(sorted(wanted))] if wanted else None

    def _change(self) -> None:
        desired, chance = self._any(), self._chance
        if desired is None:
            return self._deploy()
        match chance.randint(0, 5):
            case 0 | 1:
                desired = replace(desired, image=self._image(), fail="")
            case 2:
                desired = replace(desired, minimum=chance.randint(1, 4))
            case 3:
                desired = replace(desired, cities=chance.choice(self._cities))
            case 4:
                self._images += 1
                desired = replace(desired, restarted=f"2026-01-01T00:00:{self._images:02}Z")
            case _:
                desired = replace(desired, image=self._image(), fail=chance.choice(FAILURES))
        return self._want(desired)

    def _destroy(self) -> None:
        desired = self._any()
        if desired is not None:
            del self._sequence.wanted[desired.name]
            self._add("destroy", desired)

    def _recreate(self) -> None:
        desired = self._any()
        if desired is not None:
            chance = self._chance
            changed = chance.random() < 0.5
            self._want(replace(desired, image=self._image()) if changed else desired, "recreate")

    def _network(self) -> None:
        self._add("network")

    def _lose(self) -> None:
        chance = self._chance
        self._add("lose", target=chance.randrange(len(LOSABLE)), pick=chance.randrange(1000))

    def _drift(self) -> None:
        chance = self._chance
        self._add(
            "drift",
            amount=chance.randint(0, 1),
            target=chance.randrange(len(EDITABLE)),
            pick=chance.randrange(1000),
        )

    def _withdraw(self) -> None:
        cities = sorted({city for choice in self._cities for city in choice})
        pick = self._chance.randrange(len(cities))
        self._add("withdraw", target=pick, amount=self._chance.choice((1, 5, 20)))

    def _end(self) -> None:
        """Make what is wanted possible."""
        wanted, chance = self._sequence.wanted, self._chance
        for name in sorted(wanted):
            if wanted[name].fail:
                self._want(replace(wanted[name], image=self._image(), fail=""))
        needed = sum(desired.minimum * len(desired.cities) for desired in wanted.values())
        if needed > self._granted:
            if chance.random() < 0.5:
                self._add("grant", amount=needed)
            else:
                for name in sorted(wanted):
                    self._want(replace(wanted[name], minimum=1))
                needed = sum(desired.minimum * len(desired.cities) for desired in wanted.values())
                if needed > self._granted:
                    self._add("grant", amount=needed)
        if self._replaced and self._granted < 100:
            self._add("grant", amount=100)


def name_data(sequence: OperationSequence) -> None:
    """In a share of all sequences: let workloads name data that is created, changed, deleted and
    lost in between, and exists in the end. Other random numbers than those of the sequence, which
    stays the same otherwise."""
    chance = Random(f"data {sequence.seed}")
    if chance.random() >= DATA_SHARE:
        return
    entries = [f"{resource.kind}/{name}" for resource, name in SOURCES]
    named = {
        name: tuple(chance.sample(entries, chance.randint(0, 2))) for name in sorted(WORKLOADS)
    }

    def with_data(desired: DesiredWorkload) -> DesiredWorkload:
        changed = chance.random() < 0.2
        if changed:
            named[desired.name] = tuple(chance.sample(entries, chance.randint(0, 2)))
        return replace(desired, data=named[desired.name])

    steps: list[Step] = []
    for step in sequence.steps:
        while chance.random() < 0.4:
            operation = chance.choice(("source", "source", "source", "no_source", "lose_data"))
            steps.append(
                Step(
                    chance.choice(PAUSES),
                    operation,
                    amount=chance.randrange(1000),
                    target=chance.randrange(len(SOURCES)),
                    pick=chance.randrange(1000),
                )
            )
        desired = step.desired
        if desired is not None and step.operation != "destroy":
            desired = with_data(desired)
            if desired.name in sequence.wanted:
                sequence.wanted[desired.name] = replace(
                    sequence.wanted[desired.name], data=desired.data
                )
        steps.append(replace(step, desired=desired))
    steps += [Step(0.0, "source", amount=1000, target=each) for each in range(len(SOURCES))]
    sequence.steps = steps


def roll_in_waves(sequence: OperationSequence) -> None:
    """In a share of all sequences: let templates reach the cities in waves, which users pause,
    resume, promote and abort in between. With random numbers of its own, as above."""
    chance = Random(f"waves {sequence.seed}")
    if chance.random() >= WAVES_SHARE:
        return
    policies = {name: _draw_policy(chance) for name in sorted(WORKLOADS)}
    steps: list[Step] = []
    for step in sequence.steps:
        desired = step.desired
        if desired is not None and step.operation != "destroy":
            if chance.random() < 0.2:
                policies[desired.name] = _draw_policy(chance)
            desired = replace(desired, rollout=policies[desired.name])
        steps.append(replace(step, desired=desired))
        while desired is not None and chance.random() < 0.3:
            pause, target = chance.choice(PAUSES), chance.randrange(len(STEERS))
            steps.append(Step(pause, "steer", desired, target=target))
    sequence.steps = steps
    sequence.wanted = {
        name: replace(desired, rollout=policies[name]) for name, desired in sequence.wanted.items()
    }


def _draw_policy(chance: Random) -> str:
    if chance.random() < 0.2:
        return ""
    policy = {
        "waves": chance.choice(("each", [["DFW"], ["*"]], [["SIN", "LHR"], ["*"]])),
        "soak": chance.choice(("0s", "2s", "20s")),
        "timeout": chance.choice(("20s", "2m")),
        "onFailure": chance.choice(("Pause", "Undo", "Continue")),
    }
    return json.dumps(policy)


def deploy_again(desired: DesiredWorkload) -> DesiredWorkload:
    """What a user does who finds a rollout failed or undone when the faults are over: another
    template, with time enough for what had to wait."""
    if not desired.rollout:
        return desired
    policy = json.dumps({**json.loads(desired.rollout), "timeout": "15m"})
    return replace(desired, image=f"{desired.image}-again", rollout=policy)


async def end_rollouts(platform: RunningPlatform, wanted: Mapping[str, DesiredWorkload]) -> None:
    """Apply what :func:`deploy_again` gives, without anything that holds a rollout back."""
    for name, desired in wanted.items():
        if desired.rollout:
            for verb in ("paused", "skipped"):
                await steer(platform, name, verb, None)
            await perform(platform, Step(0.0, "apply", desired))


def generate_sequence(seed: int) -> OperationSequence:
    return SequenceGenerator(seed).write()


async def perform(platform: RunningPlatform, step: Step) -> None:
    """Perform one operation; it is idempotent, since the power may be cut in between."""
    match step.operation, step.desired:
        case "apply", DesiredWorkload() as desired:
            await _apply(platform, desired)
        case "destroy", DesiredWorkload() as desired:
            await _delete(platform, desired.name)
        case "recreate", DesiredWorkload() as desired:
            await _delete(platform, desired.name)
            await _create_when_free(platform, desired)
        case "steer", DesiredWorkload() as desired:
            await steer(platform, desired.name, *STEERS[step.target])
        case "network", _:
            await _replace_network(platform)
        case "grant", _:
            await _grant(platform, step.amount)
        case "lose", _:
            await _lose(platform, step)
        case "drift", _:
            await _drift(platform, step)
        case "withdraw", _:
            await _withdraw(platform, step)
        case "source", _:
            await _write_source(platform, step)
        case "no_source", _:
            await _delete_source(platform, step)
        case "lose_data", _:
            await _lose_companion(platform, step)
        case _:
            raise ValueError(f"unknown operation {step.operation}")


async def _apply(platform: RunningPlatform, desired: DesiredWorkload) -> None:
    try:
        await platform.project.create(compute.WORKLOADS, desired.to_create(), NAMESPACE)
    except errors.AlreadyExists:
        there = await platform.project.get(compute.WORKLOADS, desired.name, NAMESPACE)
        if there.metadata.deleting:
            return await _create_when_free(platform, desired)
        body = desired.body()
        changed = {"spec": body["spec"]}
        if annotations := body["metadata"].get("annotations"):
            changed["metadata"] = {"annotations": annotations}
        await platform.project.patch(compute.WORKLOADS, desired.name, merge(changed), NAMESPACE)


async def steer(platform: RunningPlatform, name: str, verb: str, value: str | None) -> None:
    """As the commands do; ``HASH`` stands for that of the present template."""
    try:
        live = await platform.project.get(compute.WORKLOADS, name, NAMESPACE)
        hash = template_hash(patch.values(live.spec)["template"])
        note = {f"compute.datumapis.com/rollout-{verb}": value and value.replace("HASH", hash)}
        body = merge({"metadata": {"uid": live.metadata.uid, "annotations": note}})
        await platform.project.patch(compute.WORKLOADS, name, body, NAMESPACE)
    except (errors.NotFound, errors.Conflict):
        pass  # destroyed, or another of its name by now


async def _create_when_free(platform: RunningPlatform, desired: DesiredWorkload) -> None:
    while True:
        try:
            await platform.project.create(compute.WORKLOADS, desired.to_create(), NAMESPACE)
        except errors.AlreadyExists:
            await asyncio.sleep(0.5)
        else:
            return


async def _delete(platform: RunningPlatform, name: str) -> None:
    try:
        await platform.project.delete(compute.WORKLOADS, name, NAMESPACE)
    except errors.NotFound:
        pass  # a power cut followed it


async def _replace_network(platform: RunningPlatform) -> None:
    body = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
    try:
        await platform.project.delete(networking.NETWORKS, "default", NAMESPACE)
    except errors.NotFound:
        pass  # a power cut came between the two
    await asyncio.sleep(0.2)
    while True:
        try:
            await platform.project.create(networking.NETWORKS, body, NAMESPACE)
        except errors.AlreadyExists:
            await asyncio.sleep(0.05)
        else:
            return


async def _grant(platform: RunningPlatform, amount: int) -> None:
    grant = await platform.project.get(quota.RESOURCE_GRANTS, GRANT, "milo-system")
    allowances = [
        {
            "resourceType": each.resource_type,
            "buckets": [
                {
                    "amount": amount
                    if each.resource_type.endswith("/instances")
                    else each.buckets[0].amount
                }
            ],
        }
        for each in grant.view(quota.ResourceGrant).spec.allowances
    ]
    patch = merge({"spec": {"allowances": allowances}})
    await platform.project.patch(quota.RESOURCE_GRANTS, GRANT, patch, "milo-system")


async def _write_source(platform: RunningPlatform, step: Step) -> None:
    resource, name = SOURCES[step.target]
    data = {"data": {"value": base64.b64encode(str(step.amount).encode()).decode()}}
    try:
        body = {"metadata": {"name": name}, **data}
        await platform.project.create(resource, body, NAMESPACE)
    except errors.AlreadyExists:
        await platform.project.patch(resource, name, merge(data), NAMESPACE)


async def _delete_source(platform: RunningPlatform, step: Step) -> None:
    resource, name = SOURCES[step.target]
    try:
        await platform.project.delete(resource, name, NAMESPACE)
    except errors.NotFound:
        pass  # there was none


async def _lose_companion(platform: RunningPlatform, step: Step) -> None:
    resource, _ = SOURCES[step.target]
    await _lose_one(platform, ("hub", "cell")[step.pick % 2], resource, step.pick)


async def _withdraw(platform: RunningPlatform, step: Step) -> None:
    """Let the project not use a city for a while. What it has there stays."""
    bindings = (await platform.project.list(networking.LOCATION_BINDINGS)).items
    name = bindings[step.target % len(bindings)].name
    for status, seconds in (("False", step.amount), ("True", 0)):
        condition = {
            "type": "Available",
            "status": status,
            "reason": "Maintenance",
            "message": "set by a user",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = merge({"status": {"conditions": [condition]}})
        await platform.project.patch(networking.LOCATION_BINDINGS, name, body, subresource="status")
        await asyncio.sleep(seconds)


def _planes(platform: RunningPlatform, kind: str) -> tuple[str, ...]:
    if kind == "project":
        return (f"project/{platform.settings.project}",)
    return tuple(cell_planes(platform)) if kind == "cell" else (kind,)


async def _pick(
    platform: RunningPlatform, kind: str, resource: Resource, pick: int
) -> tuple[str, Object] | None:
    found = [
        (plane, obj)
        for plane in _planes(platform, kind)
        for obj in await list_on_planes(platform, resource, plane)
    ]
    return found[pick % len(found)] if found else None


async def _lose(platform: RunningPlatform, step: Step) -> None:
    await _lose_one(platform, *LOSABLE[step.target], step.pick)


async def _lose_one(platform: RunningPlatform, kind: str, resource: Resource, pick: int) -> None:
    picked = await _pick(platform, kind, resource, pick)
    if picked is None:
        return
    plane, obj = picked
    if platform.commit_checker is not None:
        platform.commit_checker.ordered.add(obj.metadata.uid)
    try:
        await platform.client(plane).delete(resource, obj.name, obj.namespace, uid=obj.metadata.uid)
    except (errors.NotFound, errors.Conflict):
        pass  # deleted by its controller


async def _drift(platform: RunningPlatform, step: Step) -> None:
    kind, resource = EDITABLE[step.target]
    picked = await _pick(platform, kind, resource, step.pick)
    if picked is None:
        return
    plane, obj = picked
    containers = [{"name": "app", "image": "stranger/app:1"}]
    spec: dict[str, Any] = {"runtime": {"sandbox": {"containers": containers}}}
    if resource == compute.WORKLOAD_DEPLOYMENTS:
        scaled = {"scaleSettings": {"minReplicas": 5}}
        spec = {"template": {"spec": spec}} if step.amount else scaled
    try:
        await platform.client(plane).patch(resource, obj.name, merge({"spec": spec}), obj.namespace)
    except errors.NotFound:
        pass  # deleted by its controller
