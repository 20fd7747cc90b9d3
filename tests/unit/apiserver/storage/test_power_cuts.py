"""After a power cut at any moment the store has every write that was acknowledged.

A server writes to a recorded disk: with managed fields, rules in CEL, applies, deletions and
compaction. Each case replays what was written up to one moment, loses what was not synced, and
opens the store.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from datum_compute.apiserver.storage.protocol import Store
from datum_compute.apiserver.storage.sqlite.head_file import SUFFIX
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import run
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.recorded_disk import Operation, RecordedDisk, recorded_disk, replay
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller, widget

CUTS, QUICK, CHUNK = 2_000, 100, 50
"""How many cases there are, how many run with the ordinary tests, and how many at a time."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLY = {"content-type": "application/apply-patch+yaml"}

State = dict[tuple[str, str, str], tuple[bytes, object]]


@dataclass(frozen=True)
class Moment:
    """What was acknowledged, and how much had been written to the disk by then."""

    operations: int
    state: State
    head: bytes


@dataclass
class Recording:
    operations: list[Operation] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)


def state_of(store: Store) -> State:
    return {
        (name, table.resource, row.name): store.content(row)
        for name, plane in store.planes.items()
        for table in plane.all_tables()
        for row in table.in_order(None)
    }


async def change(caller: Caller, chance: random.Random) -> None:
    """One request of a client, acknowledged when this returns."""
    name = f"n{chance.randrange(12)}"
    spec = {"size": chance.randrange(100), "color": "x" * chance.choice((10, 500, 9_000))}
    path = f"{WIDGETS_PATH}/{name}"
    match chance.randrange(6):
        case 0 | 1:
            query = {"fieldManager": chance.choice(("ana", "ben")), "force": "true"}
            body = widget(name, spec)
            code, _ = await caller.call("PATCH", path, body, headers=APPLY, query=query)
        case 2:
            code, _ = await caller.call("POST", WIDGETS_PATH, widget(name, spec))
        case 3:
            code, _ = await caller.patch(name, {"status": {"phase": str(spec["size"])}}, "status")
        case 4:
            code, _ = await caller.patch(name, {"spec": {"size": -1}})
        case _:
            code, _ = await caller.delete(name)
    assert code in (200, 201, 404, 409, 422)


def ruled() -> dict[str, object]:
    """Widgets with a rule: the ordinary definition is the platform's own."""
    version = {**WIDGET_CRD["spec"]["versions"][0]}
    schema = {**version["schema"]["openAPIV3Schema"]}
    schema["x-kubernetes-validations"] = [
        {"rule": "!has(self.spec.size) || self.spec.size >= 0", "message": "not negative"}
    ]
    version["schema"] = {"openAPIV3Schema": schema}
    return {**WIDGET_CRD, "spec": {**WIDGET_CRD["spec"], "versions": [version]}}


def read(path: Path) -> bytes:
    return path.read_bytes()


async def record(path: Path, disk: RecordedDisk) -> Recording:
    chance = random.Random(1)
    recording = Recording()
    head = Path(f"{path}{SUFFIX}")
    async with embedded_server(
        path=path, crds_for=lambda _: [], cells=("dfw",), projects=()
    ) as embedded:
        caller, store = Caller(embedded, "cell/dfw"), embedded.store

        async def remember() -> None:
            await store.wait_durable()
            moment = Moment(len(disk.operations), state_of(store), read(head))
            recording.moments.append(moment)

        await remember()
        code, answer = await caller.call("POST", DEFINITIONS, ruled())
        assert code == 201, answer
        await remember()
        for number in range(300):
            await change(caller, chance)
            await remember()
            if number % 60 == 50:
                await asyncio.sleep(400)  # virtual: the history expires and is compacted
                while store.compact_step():
                    pass
                await remember()
        recording.operations = list(disk.operations)
    return recording


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    with recorded_disk() as disk:
        return run(record(tmp_path_factory.mktemp("disk") / "state.db", disk))


def outcome(recording: Recording, number: int, directory: Path) -> str:
    """Cut the power once and open what is left. Asserts what is promised, says how it ended."""
    chance = random.Random(number)
    moments = recording.moments
    cut = chance.randrange(moments[0].operations, len(recording.operations) + 1)
    last = max(at for at, each in enumerate(moments) if each.operations <= cut)
    for old in directory.iterdir():
        old.unlink()
    for name, content in replay(recording.operations[:cut], chance).items():
        (directory / name).write_bytes(content)
    # It is never synced: the kernel may have written any number until now, and none that is not.
    head = moments[max(0, last - chance.choice((0, 0, 1, 5, 400)))].head
    (directory / f"state.db{SUFFIX}").write_bytes(head)

    store = LogStore(SimulatedEnvironment(), str(directory / "state.db"))
    found = state_of(store)
    store.close()

    after = moments[min(last + 1, len(moments) - 1)]
    assert found in (moments[last].state, after.state), f"cut {number} after {cut} operations"
    return "as acknowledged" if found == moments[last].state else "one commit further"


def chunks() -> list[object]:
    """The first run with the ordinary tests, the others with the long ones."""
    return [
        pytest.param(number, marks=[] if number < QUICK // CHUNK else pytest.mark.long)
        for number in range(CUTS // CHUNK)
    ]


@pytest.mark.parametrize("chunk", chunks())
def test_no_power_cut_loses_what_was_acknowledged(
    recording: Recording, tmp_path: Path, chunk: int
) -> None:
    found = Counter(
        outcome(recording, number, tmp_path) for number in range(chunk * CHUNK, (chunk + 1) * CHUNK)
    )

    print("outcomes:", dict(found))
    assert found["as acknowledged"] > 0


def test_the_recording_has_syncs_applies_rules_and_compaction(recording: Recording) -> None:
    kinds = Counter((each.file, each.kind) for each in recording.operations)
    managers = [content for each in recording.moments for content in each.state.values()]

    assert kinds["state.db-wal", "sync"] > 100
    assert kinds["state.db", "sync"] >= 4
    assert kinds["state.db-wal", "truncate"] >= 4
    assert any(b"ana" in repr(managed).encode() for _, managed in managers)
    assert len({len(each.state) for each in recording.moments}) > 5


def test_a_disk_that_keeps_less_than_it_synced_would_be_noticed(
    recording: Recording, tmp_path: Path
) -> None:
    """So that the cases can fail: without its last synced writes the state is another."""
    moment = recording.moments[-1]
    operations = recording.operations[: moment.operations]
    wal = [at for at, each in enumerate(operations) if each.file.endswith("-wal")]
    lost = set(wal[-6:])
    kept = [each for at, each in enumerate(operations) if at not in lost]
    kept.append(Operation("state.db-wal", "sync"))
    for name, content in replay(kept, random.Random(0)).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / f"state.db{SUFFIX}").write_bytes(recording.moments[0].head)

    store = LogStore(SimulatedEnvironment(), str(tmp_path / "state.db"))
    found = state_of(store)
    store.close()

    assert found != moment.state
