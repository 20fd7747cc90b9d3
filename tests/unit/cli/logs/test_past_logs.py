"""Lines of the past are shown while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from datum_compute.cli.commands.logs.command import _timed
from datum_compute.cli.commands.logs.past import PastLines, merge, split_lines
from datum_compute.client import errors
from datum_compute.testing.environment import START


def _line(second: int, text: str) -> bytes:
    return f"{START + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ} {text}\n".encode()


class _Server:
    """One log; its connection breaks after so many lines, once for each number."""

    def __init__(self, lines: list[bytes], breaks: tuple[int, ...] = ()) -> None:
        self.lines = lines
        self.breaks = list(breaks)
        self.asked: list[tuple[float | None, int | None]] = []
        self.sent = 0

    def open(self, since: float | None, tail: int | None) -> Iterator[bytes]:
        self.asked.append((since, tail))
        end = self.breaks.pop(0) if self.breaks else None
        lines = self.lines if tail is None else self.lines[-tail:]
        for line in lines[:end]:
            self.sent += 1
            yield line
        if end is not None:
            raise errors.Disconnected("cut off")

    def past(self, tail: int | None = None) -> Iterator[tuple[datetime, tuple[datetime, str]]]:
        now = START + timedelta(seconds=60)
        return iter(PastLines(self.open, _timed, lambda: now, since=None, tail=tail))


def _texts(server: _Server, tail: int | None = None) -> list[str]:
    return [line[1] for _, line in server.past(tail)]


def test_the_first_line_is_there_before_the_second_part_is_read() -> None:
    server = _Server([_line(1, "a"), _line(2, "b"), _line(3, "c")])

    lines = merge([("one", server.past())])

    assert (next(lines)[2], server.sent) == ("a", 1)


def test_lines_of_two_instances_are_merged_and_each_keeps_its_order() -> None:
    one = _Server([_line(1, "a"), b"no time\n", _line(5, "late"), _line(2, "early")])
    two = _Server([_line(1, "b"), _line(4, "c"), _line(5, "d")])

    found = [text for _, _, text in merge([("one", one.past()), ("two", two.past())])]

    assert found == ["a", "no time", "b", "c", "late", "early", "d"]


def test_a_broken_read_goes_on_behind_its_last_line() -> None:
    lines = [_line(second, f"{second}{part}") for second in (1, 2, 3) for part in "abc"]
    server = _Server(lines, breaks=(5, 7))

    assert _texts(server) == [f"{second}{part}" for second in (1, 2, 3) for part in "abc"]
    assert [since for since, _ in server.asked] == [None, 63.0, 62.0]


def test_a_broken_read_of_the_last_lines_shows_no_more_than_these() -> None:
    server = _Server([_line(second, str(second)) for second in range(9)], breaks=(2,))
    reading = server.past(tail=4)
    first = [next(reading)[1][1] for _ in range(2)]
    server.lines.append(_line(9, "9"))  # written meanwhile

    assert first + [line[1] for _, line in reading] == ["5", "6", "7", "8"]


def test_a_server_that_breaks_off_without_a_new_line_is_an_error() -> None:
    server = _Server([_line(1, "a"), _line(2, "b")], breaks=(1, 1))
    reading = server.past()
    assert next(reading)[1][1] == "a"

    try:
        next(reading)
    except errors.Disconnected:
        return
    raise AssertionError("it went on")


def test_a_line_that_comes_in_two_parts_is_one_line() -> None:
    parts = iter(["gr\u00fcn\nro".encode()[:3], "gr\u00fcn\nro".encode()[3:], b"t\n\nend"])

    assert list(split_lines(parts)) == ["gr\u00fcn", "rot", "", "end"]
