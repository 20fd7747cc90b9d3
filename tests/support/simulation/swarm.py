"""A federation under faults: every process apart, a network between them, three projects.

:func:`boot` makes the state that all seeds start from: the planes, four cells and three
projects. A :class:`SwarmFederation` is one seed: it draws its faults, its wrong clocks and its
accidents, runs the operations of the users of all projects at once, and then, when all faults
have ended, checks that every plane matches the last specs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random

from datum_compute.api import core
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly.local import bootstrap
from datum_compute.assembly.local.platform import (
    ADMIN,
    LocalPlatform,
    ManagerFactory,
    in_process_transport,
)
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Handler, Transport
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing import loop
from datum_compute.testing.calls import RecordingAuthorizer
from datum_compute.testing.environment import START, SimulatedEnvironment, SkewedEnvironment
from datum_compute.testing.expectations import eventually
from datum_compute.testing.network import Direction, SimulatedNetwork
from datum_compute.testing.network_faults import NO_FAULTS, draw_faults
from datum_compute.testing.processes import Process
from datum_compute.testing.trace import Trace
from tests.support.client.intercepted_transport import InterceptedTransport
from tests.support.simulation.commit_checker import EXPIRED_EVENTS, CommitChecker
from tests.support.simulation.commits import RuleChecker
from tests.support.simulation.power_cut import (
    PowerSupply,
    discard_dead_tasks,
    random_power_supplies,
    run_until_power_cut,
)
from tests.support.simulation.random_operations import (
    PAUSES,
    OperationSequence,
    SequenceGenerator,
    Step,
    deploy_again,
    end_rollouts,
    perform,
)
from tests.support.simulation.rules import all_rules
from tests.support.simulation.settled import unsettled
from tests.support.simulation.writers import WriterChecker, signed_by

CITIES = ("DFW", "IAD", "LHR", "SIN")
PROJECTS = ("acme", "demo", "zulu")
SETTINGS = LocalSettings(cities=CITIES, propagation_max_delay=1000.0)
"""With Karmada's default for changes that wait for a lost cell."""
CHOICES = (("DFW",), ("LHR",), ("SIN",), ("DFW", "LHR"), ("IAD", "SIN"), CITIES)
LENGTHS = (2, 4, 7)
USERS_DO = (3, 7, 1, 1, 0, 0, 0, 1)
"""Weights of the deeds: people use what they have; accidents are the network's business."""
CARELESS_DO = (3, 7, 1, 1, 1, 4, 2, 1)
"""In every fourth seed: people who delete and edit, on any plane, what is not theirs."""
PATIENT_FROM = 101
PATIENT_PAUSES = (0.0, 0.1, 3.0, 20.0, 60.0, 60.0)
"""In the second half of all seeds: people who wait until they have what they asked for."""
CUT_SHARE = 0.3
"""Of all seeds: those in which the power goes once, for all processes and the store."""

SETTLED_WITHIN = 900.0
"""What waits for a lost cell is tried again after up to twice the time for which it was lost."""
QUIET_FOR = 300.0
QUIET_FOR_LONG = 1800.0
"""In every twentieth seed."""
SEED_OFFSET = 1_000_000
"""Between the seeds of the two runs of a federation: no id is used twice."""
LEAST_DELAY = 0.005
"""Every message takes some time. Otherwise a controller that answers each event with a write
while another watch lags would do so for ever without time passing."""
GRACE = 90_000
"""Milliseconds: two slow messages, and the timeout of a caller between them."""


def boot(path: Path) -> None:
    loop.run(_boot(path))


async def _boot(path: Path) -> None:
    env = SimulatedEnvironment()
    async with LocalPlatform(env, path, SETTINGS).run(admin_token="simulated-admin") as platform:
        root_client = platform.client("root", ADMIN)
        for project in PROJECTS:
            settings = replace(SETTINGS, project=project)
            await bootstrap.ensure_root(root_client, settings)
            await eventually("plane", partial(_missing_plane, platform, project))
            await bootstrap.ensure_project(
                platform.client(f"project/{project}", ADMIN), env, settings
            )
        await asyncio.sleep(60)


async def _missing_plane(platform: LocalPlatform, project: str) -> str:
    root_client = platform.client("root", ADMIN)
    obj = await root_client.get(resourcemanager.PROJECTS, project)
    ready = b'"Ready"' in bytes(obj.status) and b'"True"' in bytes(obj.status)
    return "" if ready else f"project {project} is not ready"


@dataclass
class ProjectPlatform:
    """The federation as one project's users see it."""

    federation: SwarmFederation
    settings: LocalSettings
    shared_namespace: str = ""
    commit_checker: CommitChecker | None = None

    @property
    def project(self) -> Client:
        return self.client(f"project/{self.settings.project}")

    def client(self, plane: str) -> Client:
        return self.federation.platform.client(plane, ADMIN)


@dataclass
class SwarmFederation:
    seed: int
    database: Path
    trace: Trace = field(default_factory=Trace)
    commit_checker: CommitChecker = field(default_factory=lambda: CommitChecker(grace=GRACE))
    writers: WriterChecker = field(default_factory=WriterChecker)
    rule_checker: RuleChecker = field(init=False)
    sequences: dict[str, OperationSequence] = field(default_factory=dict)
    performed: Counter[str] = field(default_factory=Counter)
    faults: str = ""
    runs: int = 0
    power: PowerSupply = field(default_factory=PowerSupply)
    platform: LocalPlatform = field(init=False)
    env: SimulatedEnvironment = field(init=False)
    network: SimulatedNetwork = field(init=False)
    processes: dict[str, Process] = field(default_factory=dict)
    calls: RecordingAuthorizer = field(init=False)

    def __post_init__(self) -> None:
        self.rule_checker = RuleChecker(all_rules(self.commit_checker.ordered), GRACE)

    def run(self) -> str:
        """The digest of the run."""
        for power in random_power_supplies(self.seed, CUT_SHARE):
            self.power, self.runs = power, self.runs + 1
            if run_until_power_cut(self._run(), power, self.seed + SEED_OFFSET * (self.runs - 1)):
                break
            self.platform.abandon()
            discard_dead_tasks(self._forget)
        assert not self.broken, "\n".join(self.broken)
        assert not self.calls.denied, f"rights are missing: {sorted(self.calls.denied)}"
        assert self.writers.judged > 0
        return self.trace.digest

    def _forget(self) -> None:
        """Only the file and the recorded commits outlive a run."""
        del self.platform, self.network, self.env
        self.processes.clear()
        self.commit_checker.begin()
        self.rule_checker.forget()

    @property
    def broken(self) -> list[str]:
        """Rules that were broken, so far."""
        return self.commit_checker.broken + self.writers.broken + self.rule_checker.broken

    async def _run(self) -> None:
        start = START + timedelta(hours=1)
        if self.runs > 1:
            start = self.commit_checker.now + timedelta(seconds=self._dark())
        env = self.env = SimulatedEnvironment(self.seed + SEED_OFFSET * (self.runs - 1), start)
        env.on_fault("store.after-commit", self.commit_checker.committed)
        env.on_fault("store.after-commit", self.rule_checker.committed)
        self.power.supply(env)
        async with SimulatedNetwork(env, self.trace) as network:
            self.network = network
            self.platform = LocalPlatform(
                env,
                self.database,
                SETTINGS,
                transport_factory=self._carrier,
                supervise=self._supervise,
                listeners=[
                    self.commit_checker.changed,
                    self.writers.changed,
                    self.rule_checker.changed,
                ],
                guard=self._guard,
            )
            async with self.platform.run(admin_token="simulated-admin"):
                self.trace.follow_commits(self.platform.store, env)
                self.writers.begin(self.platform.store)
                if self.runs == 1:
                    self.rule_checker.begin(self.platform.store)
                await self._live()

    def _dark(self) -> float:
        return Random(f"dark {self.seed}").choice((1.0, 30.0, 900.0))

    def _carrier(self, handler: Handler, process: str, plane: str) -> Transport:
        inner = self._inner(handler, process, plane)
        transport = InterceptedTransport(inner, [signed_by(process)])
        return transport if process == ADMIN else self.network.transport(process, plane, transport)

    def _inner(self, handler: Handler, process: str, plane: str) -> Transport:
        return in_process_transport(handler, process, plane)

    def _guard(self, roles: Roles) -> RecordingAuthorizer:
        self.calls = RecordingAuthorizer(roles)
        return self.calls

    def _supervise(self, name: str, build: ManagerFactory) -> Process:
        chance = self.env.random(f"clock of {name}")
        skewed = chance.random() < 0.3
        offset = chance.uniform(-300, 300) if skewed else 0.0
        rate = chance.uniform(0.9, 1.1) if skewed else 1.0
        clock = SkewedEnvironment(self.env, offset=offset, rate=rate)
        process = self.processes[name] = Process(name, build, clock, self.network)
        return process

    async def _live(self) -> None:
        stages = [await self._stage(project) for project in PROJECTS]
        for number, stage in enumerate(stages):
            sequence = self.sequences.get(stage.settings.project) or self._write(number)
            self.sequences[stage.settings.project] = sequence
            if not self.performed[stage.settings.project]:
                await perform(stage, Step(0.0, "grant", amount=sequence.grant))
        self.commit_checker.quota_is_kept = not any(s.loses_claims for s in self.sequences.values())
        await asyncio.sleep(5)  # buckets exist before the first claim
        async with TaskGroup("users") as tasks:
            for stage in stages:
                project = stage.settings.project
                telling = self._perform_all(stage, self.sequences[project])
                tasks.start(telling, name=f"users of {project}")
            tasks.start(self._accidents(), name="accidents")
        await self._settle(stages)

    def _write(self, number: int) -> OperationSequence:
        weights = CARELESS_DO if self.seed % 4 == 3 else USERS_DO
        seed = self.seed * 10 + number
        pauses = PATIENT_PAUSES if self.seed >= PATIENT_FROM else PAUSES
        return SequenceGenerator(
            seed, cities=CHOICES, weights=weights, lengths=LENGTHS, pauses=pauses
        ).write()

    async def _stage(self, project: str) -> ProjectPlatform:
        stage = ProjectPlatform(self, replace(SETTINGS, project=project))
        namespace = await stage.project.get(core.NAMESPACES, "default")
        for obj in (await stage.project.list(quota.ALLOWANCE_BUCKETS)).items:
            bucket = obj.view(quota.AllowanceBucket)
            self.commit_checker.know_limit(project, bucket.spec.resource_type, bucket.status.limit)
        return replace(
            stage,
            shared_namespace=f"ns-{namespace.metadata.uid}",
            commit_checker=self.commit_checker,
        )

    async def _perform_all(self, stage: ProjectPlatform, sequence: OperationSequence) -> None:
        project = stage.settings.project
        for step in sequence.steps[self.performed[project] :]:
            await asyncio.sleep(step.pause)
            await perform(stage, step)
            self.performed[project] += 1

    # Faults, within the same few minutes as the users' operations.

    async def _accidents(self) -> None:
        chance, network = self.env.random("accidents"), self.network
        drawn = draw_faults(self.env)
        network.faults = replace(drawn, delay=max(drawn.delay, LEAST_DELAY))
        self.faults = str(network.faults)
        every = (self._crash, self._cut_site, self._cut_pair, self._heal, self._lag)
        kinds = [kind for kind in every if chance.random() < 0.5]
        for _ in range(chance.choice((2, 5, 10))):
            await asyncio.sleep(chance.choice((0.1, 1.0, 5.0, 20.0)))
            if kinds:
                chance.choice(kinds)()
        await asyncio.sleep(chance.choice((1.0, 10.0, 60.0)))
        network.faults = NO_FAULTS
        network.lags.clear()
        network.heal()

    def _crash(self) -> None:
        chance = self.env.random("accidents")
        name = chance.choice(sorted(self.processes))
        self.processes[name].crash(chance.choice((0.0, 0.0, 2.0, 40.0)))

    def _cut_site(self) -> None:
        """Cut a cell off from the centre."""
        chance = self.env.random("accidents")
        cell = chance.choice(SETTINGS.cells)
        within = {f"compute-cell-{cell}", f"provider-{cell}", f"cell/{cell}", "standin-network"}
        beyond = {"root", "hub", *(f"project/{name}" for name in PROJECTS)}
        beyond |= {name for name in self.processes if name not in within}
        self._cut(within, beyond)

    def _cut_pair(self) -> None:
        chance = self.env.random("accidents")
        planes = ["root", "hub", *(f"project/{name}" for name in PROJECTS)]
        planes += [f"cell/{cell}" for cell in SETTINGS.cells]
        self._cut({chance.choice(sorted(self.processes))}, {chance.choice(planes)})

    def _cut(self, left: set[str], right: set[str]) -> None:
        chance = self.env.random("accidents")
        direction = chance.choice((*Direction, Direction.BOTH))
        self.network.partition(left, right, direction=direction, silent=chance.random() < 0.5)

    def _heal(self) -> None:
        self.network.heal()

    def _lag(self) -> None:
        chance = self.env.random("accidents")
        name = chance.choice(sorted(self.processes))
        plural = chance.choice(("instances", "workloaddeployments", "resourceclaims", "works"))
        self.network.lags[name, plural] = chance.choice((0.5, 3.0, 15.0))

    async def _settle(self, stages: list[ProjectPlatform]) -> None:
        ended = asyncio.get_running_loop().time()
        self.power.cut_at = 0  # all operations are done
        assert not self.broken, "\n".join(self.broken)
        for stage in stages:
            await self._deploy_again(stage)

        async def missing() -> str:
            for stage in stages:
                project = stage.settings.project
                if problem := await unsettled(stage, self.sequences[project].wanted):
                    return f"{project}: {problem}"
            return ""

        await eventually("settled", missing, within=SETTLED_WITHIN, every=2.0)
        await asyncio.sleep(max(0.0, ended + SETTLED_WITHIN - asyncio.get_running_loop().time()))
        before = self._writes()
        await asyncio.sleep(QUIET_FOR if self.seed % 20 else QUIET_FOR_LONG)
        assert self._writes() == before, "there were writes without a cause"
        assert await missing() == "", "it was settled, and is not any more"

    async def _deploy_again(self, stage: ProjectPlatform) -> None:
        """A rollout in waves that has failed or was undone under faults ends with a new one."""
        wanted = self.sequences[stage.settings.project].wanted
        wanted.update({name: deploy_again(desired) for name, desired in wanted.items()})
        await end_rollouts(stage, wanted)

    def _writes(self) -> dict[str, int]:
        unasked = (core.LEASES.group_resource, EXPIRED_EVENTS)
        return {
            kind: count
            for kind, count in self.commit_checker.changes.items()
            if kind not in unasked
        }
