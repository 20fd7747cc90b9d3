"""A reader that applies the messages knows what the board knows, however often it reads."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.cli.console import board as boards
from datum_compute.cli.console.board import Board, is_detail, stream
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import run

KEYS = ("workloads/a", "workloads/b", "instances/c", "why/a", "why/b")
STATES = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3))


def apply(known: dict[str, Any], changes: dict[str, bytes]) -> None:
    for key, value in changes.items():
        decoded = msgspec.json.decode(value)
        known.pop(key, None) if decoded is None else known.update({key: decoded})


@given(st.lists(st.tuples(STATES, st.booleans()), max_size=12), st.sampled_from(["", "a", "b"]))
def test_a_reader_knows_what_the_board_knows(
    steps: list[tuple[dict[str, int], bool]], focus: str
) -> None:
    async def follow() -> None:
        board = Board("test")
        known: dict[str, Any] = {}
        since = 0
        state: dict[str, int] = {}
        for state, reads in steps:
            board.replace(state, lambda _: True)
            if reads:
                apply(known, board.changes(since, focus))
                since = board.revision
        apply(known, board.changes(since, focus))
        assert known == {
            key: value
            for key, value in state.items()
            if not is_detail(key) or key == f"why/{focus}"
        }

    run(follow())


def test_what_is_not_owned_stays() -> None:
    async def work() -> None:
        board = Board("test")
        board.replace({"workloads/a": 1}, lambda key: not is_detail(key))
        board.replace({"why/a": 2}, is_detail)
        board.replace({}, is_detail)

        assert board.changes(0, "a") == {"workloads/a": b"1", "why/a": b"null"}

    run(work())


def test_the_same_models_are_no_change() -> None:
    async def work() -> None:
        board = Board("test")
        board.replace({"workloads/a": 1}, lambda _: True)
        board.replace({"workloads/a": 1}, lambda _: True)

        assert board.revision == 1

    run(work())


def test_removed_models_are_remembered_in_a_bounded_number() -> None:
    """A reader from before what was forgotten gets everything."""

    async def work() -> None:
        board = Board("test")
        for number in range(boards.MAX_REMOVED + 10):
            board.replace({f"instances/{number}": 1}, lambda _: True)

        assert len(board.changes(0, "")) <= boards.MAX_REMOVED + 1
        assert not board.knows(0)
        assert board.knows(board.revision)
        assert not board.knows(board.revision + 1)

    run(work())


def test_a_stream_sends_no_more_than_five_messages_a_second() -> None:
    async def work() -> None:
        board, env = Board("test"), SimulatedEnvironment(1)
        loop = asyncio.get_running_loop()

        async def change() -> None:
            for number in range(1000):
                board.replace({"workloads/a": number}, lambda _: True)
                await asyncio.sleep(0.01)

        changing = asyncio.create_task(change())
        messages = 0
        async for chunk in stream(env, board, "", ""):
            messages += chunk.endswith(b"\n\n")
            if loop.time() > 9:
                break
        changing.cancel()

        assert 20 < messages <= 50

    run(work())


def test_a_stream_says_that_it_is_there_though_nothing_changes() -> None:
    async def work() -> None:
        board, env = Board("test"), SimulatedEnvironment(1)
        board.replace({"workloads/a": 1}, lambda _: True)
        chunks = stream(env, board, "", "")
        first, second = await anext(chunks), await anext(chunks)

        assert b'"workloads/a":1' in first
        assert b'"models":{}' in second
        assert asyncio.get_running_loop().time() < 20

    run(work())


def test_a_large_message_is_sent_in_parts() -> None:
    async def work() -> None:
        board, env = Board("test"), SimulatedEnvironment(1)
        board.replace({f"instances/{n}": "x" * 1000 for n in range(1000)}, lambda _: True)
        chunks = stream(env, board, "", "")
        parts = [await anext(chunks)]
        while not parts[-1].endswith(b"\n\n"):
            parts.append(await anext(chunks))

        assert max(map(len, parts)) < 2 * boards.CHUNK_BYTES
        data = b"".join(parts).split(b"data: ")[1]
        assert len(msgspec.json.decode(data)["models"]) == 1000

    run(work())
