"""Log lines of many instances are one stream, ordered by time."""

from __future__ import annotations

import io
import json

from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from tests.support.cli.read_screens import manifest
from tests.support.cli.session import SessionReach, cli_session

DEPLOY = "deploy api --image=a:1 --city=DFW,LHR"
DFW, LHR = "api-default-dfw-0", "api-default-lhr-0"


def test_lines_are_merged_by_time_and_prefixed_with_their_instance() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        here.logs[f"{DFW}/log"] = (
            "2026-01-01T00:00:01.123456789Z first\n2026-01-01T00:00:03Z third\n"
        )
        here.logs[f"{LHR}/log"] = "2026-01-01T00:00:02Z second\nwithout a time\n"

        result = here.run("logs api")

        assert result.code == 0
        assert result.out.splitlines() == [
            f"{LHR} | without a time",
            f"{DFW} | first",
            f"{LHR} | second",
            f"{DFW} | third",
        ]


def test_timestamps_show_the_time_of_each_line() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        here.logs[f"{DFW}/log"] = "2026-01-01T00:00:01.123456789Z first\nwithout a time\n"
        here.logs[f"{LHR}/log"] = "2026-01-01T01:00:00+00:00 second\n"

        result = here.run("logs api --timestamps")

        assert result.out.splitlines() == [
            f"{DFW} | {'-':27} without a time",
            f"{DFW} | 2026-01-01T00:00:01.123456Z first",
            f"{LHR} | 2026-01-01T01:00:00.000000Z second",
        ]


def test_log_flags_become_query_parameters() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        here.logs = {f"{DFW}/log": "2026-01-01T00:00:01Z here", f"{LHR}/log": "there"}

        one = here.run(f"logs {DFW} --tail 5 --since 1h30m")
        city = here.run("logs --city lhr")

        assert one.out == f"{DFW} | here\n"
        assert city.out == f"{LHR} | there\n"
        assert here.log_queries == [
            {"timestamps": "true", "sinceSeconds": "5400", "tailLines": "5"},
            {"timestamps": "true"},
        ]


class Reader(io.StringIO):
    """Reads until a line it waits for."""

    def write(self, text: str) -> int:
        written = super().write(text)
        if "last" in text:
            raise KeyboardInterrupt
        return written


def test_following_prints_each_line_once() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW")
        lines = [f"2026-01-01T00:00:{second:02}Z line {second}" for second in range(4)]
        here.logs[f"{DFW}/log"] = "\n".join(lines[:2])

        def more() -> None:
            here.logs[f"{DFW}/log"] = "\n".join([*lines, lines[3], "2026-01-01T00:01:00Z last"])

        here.loop.call_later(2.5, more)
        out = Reader()
        streams = Streams(io.StringIO(), out, io.StringIO())
        code = main(
            ["logs", "api", "-f", "--tail", "1"], here.env, streams, reach=SessionReach(here)
        )

        assert code == 130
        assert [line.partition(" | ")[2] for line in out.getvalue().splitlines()] == [
            "line 0",
            "line 1",
            "line 2",
            "line 3",
            "line 3",
            "last",
        ]
        assert here.log_queries[0] == {"timestamps": "true", "tailLines": "1"}
        assert all(query["sinceSeconds"] == "6" for query in here.log_queries[1:])


def test_logs_on_a_platform_without_logs_exits_13() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW")
        here.without_logs = True

        result = here.run("logs api")

        assert result.code == 13
        assert "this platform offers no logs of instances" in result.err


def test_instances_that_print_nothing_are_not_an_error() -> None:
    with cli_session("DFW") as here:
        none = here.run("logs")
        here.run("deploy api --image=a:1 --city=DFW")
        here.logs[f"{DFW}/log"] = ""

        fresh = here.run("logs api")
        chosen = here.run("logs api --since 1m")

        assert (none.code, none.out, none.err) == (0, "", "No instances in project demo.\n")
        assert (fresh.code, fresh.out, fresh.err) == (0, "", "No lines yet.\n")
        assert (chosen.code, chosen.out, chosen.err) == (0, "", "No matching lines.\n")


def test_a_disconnected_city_does_not_hide_the_logs_of_others() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        here.platform.partitions.disconnect("dfw")

        both = here.run("logs api")
        alone = here.run("logs --city DFW")

        why = "cell dfw is disconnected, so the logs of its instances cannot be read"
        assert both.code == 0
        assert both.err == f"{DFW}: {why}\n"
        assert both.out == f"{LHR} | simulated: started a:1 (no container runs)\n"
        assert alone.code == 1
        assert f"logs are unavailable: {why}" in alone.err


def test_lines_of_a_disconnected_city_are_shown_once_after_reconnect() -> None:
    with cli_session() as here:
        here.run("deploy -f -", stdin=json.dumps(manifest("api", crash_after_seconds="10")))
        here.logs = {f"api-default-lhr-{ordinal}/log": "" for ordinal in (0, 1)}
        here.loop.call_later(3.5, here.platform.partitions.disconnect, "dfw")
        here.loop.call_later(30.5, here.platform.partitions.connect, "dfw")
        here.loop.call_later(
            40.5, here.logs.__setitem__, f"{LHR}/log", "2027-01-01T00:00:00Z the last"
        )
        out, err = Reader(), io.StringIO()
        streams = Streams(io.StringIO(), out, err)

        code = main(["logs", "api", "-f"], here.env, streams, reach=SessionReach(here))

        messages = [line.partition(" | simulated: ")[2] for line in out.getvalue().splitlines()]
        assert code == 130
        assert [text.partition(" ")[0] for text in messages] == ["started"] * 2 + [
            "failed:"
        ] * 2 + [""]
        assert err.getvalue().count("is disconnected") == 2  # each instance once
