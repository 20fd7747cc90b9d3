"""What engines send, cut into lines."""

from __future__ import annotations

from datum_compute.providers.logs import LineSplitter


def test_a_long_line_that_comes_in_frames_is_one_line() -> None:
    lines = LineSplitter()
    found = lines.feed_frame(b"2026-11-17T04:16:30Z 0123")
    found += lines.feed_frame(b"2026-11-17T04:16:30Z 45 6\n")
    found += lines.feed_frame(b"2026-11-17T04:16:31Z end\n")

    assert [line.text for line in found] == ["012345 6", "end"]


def test_a_frame_without_a_time_continues_the_line() -> None:
    lines = LineSplitter()
    found = lines.feed_frame(b"2026-11-17T04:16:30Z one ")
    found += lines.feed_frame(b"line\n")

    assert [line.text for line in found] == ["one line"]
