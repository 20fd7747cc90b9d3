"""Log lines of many instances are one stream, ordered by time."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from datum_compute.cli.context import Runner, Streams
from datum_compute.cli.main import main
from datum_compute.cli.tables import WORKLOADS
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.cli.read_screens import manifest
from tests.support.cli.session import CliSession, SessionReach, cli_session

T = TypeVar("T")

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
            f"{DFW} | first",
            f"{LHR} | second",
            f"{LHR} | without a time",
            f"{DFW} | third",
        ]


def test_only_a_newline_ends_a_line() -> None:
    """A progress bar returns the carriage, and some programs write form feeds."""
    with cli_session() as here:
        here.run(DEPLOY)
        here.logs[f"{DFW}/log"] = (
            "2026-01-01T00:00:01Z first\n2026-01-01T00:00:02Z 10%\r100%\n"
            "2026-01-01T00:00:03Z one\ftwo\u2028three\n2026-01-01T00:00:04Z \n"
        )

        result = here.run(f"logs {DFW} --raw")

        assert result.out == (
            f"{DFW} | first\n{DFW} | 10%\r100%\n{DFW} | one\ftwo\u2028three\n{DFW} | \n"
        )


def test_timestamps_show_the_time_of_each_line() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        here.logs[f"{DFW}/log"] = "2026-01-01T00:00:01.123456789Z first\nwithout a time\n"
        here.logs[f"{LHR}/log"] = "2026-01-01T01:00:00+00:00 second\n"

        result = here.run("logs api --timestamps")

        assert result.out.splitlines() == [
            f"{DFW} | 2026-01-01T00:00:01.123456Z first",
            f"{DFW} | {'-':27} without a time",
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


@dataclass
class Interruptible(SessionReach):
    """Runs as asyncio's own runner does: Ctrl-C cancels what runs, and is raised then."""

    task: asyncio.Task[Any] | None = None

    def runner(self) -> Runner:
        return self

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        self.task = self.session.loop.create_task(coro)
        try:
            found: T = self.session.loop.run_until_complete(self.task)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        return found

    def close(self) -> None: ...


class Reader(io.StringIO):
    """Reads so many lines, then presses Ctrl-C."""

    def __init__(self, lines: int, reach: Interruptible) -> None:
        super().__init__()
        self._lines = lines
        self._reach = reach

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.getvalue().count("\n") >= self._lines and self._reach.task is not None:
            self._reach.task.cancel()
        return written


def follow(here: CliSession, line: str, lines: int) -> tuple[list[str], str]:
    """The first lines that were read, and what was said."""
    reach = Interruptible(here)
    out, err = Reader(lines, reach), io.StringIO()
    words = ["logs", *line.split(), "--follow"]
    assert main(words, here.env, Streams(io.StringIO(), out, err), reach=reach) == 130
    return out.getvalue().splitlines(), err.getvalue()


STARTED = "simulated: started {} (no container runs)"


def test_following_shows_each_line_once_and_asks_the_server_once() -> None:
    with cli_session() as here:
        here.run("deploy -f -", stdin=json.dumps(manifest("api", crash_after_seconds="60")))
        asked: list[str] = []
        handle = here.platform.server.handle

        async def counted(request: HttpRequest) -> HttpResponse:
            asked.append(request.path.rpartition("/")[2])
            return await handle(request)

        here.platform.server.handle = counted  # type: ignore[method-assign]
        lines, _ = follow(here, "api --tail 1", 8)

        texts = [line.partition(" | simulated: ")[2].partition(" ")[0] for line in lines]
        assert texts == ["started"] * 4 + ["failed:"] * 4
        assert len(set(lines)) == 8
        assert asked.count("log") == 4
        assert here.loop.time() > 60


def test_following_goes_on_when_instances_are_replaced_and_added() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW --window=0s")
        spec = here.run("status api -o json").json["object"]["spec"]
        spec["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = "a:2"
        spec["placements"][0]["scaleSettings"]["minReplicas"] = 2

        async def update() -> None:
            await asyncio.sleep(5)
            await here.client().patch(WORKLOADS, "api", merge({"spec": spec}), "default")

        here.tasks.append(here.loop.create_task(update()))

        lines, _ = follow(here, "api", 4)

        assert sorted(lines[1:]) == [
            f"{DFW} | {STARTED.format('a:2')}",
            f"{DFW} | simulated: stopped",
            f"api-default-dfw-1 | {STARTED.format('a:2')}",
        ]
        assert lines[0] == f"{DFW} | {STARTED.format('a:1')}"


def test_following_names_a_city_that_does_not_answer_and_shows_its_lines_later() -> None:
    with cli_session() as here:
        here.run("deploy -f -", stdin=json.dumps(manifest("api", crash_after_seconds="60")))
        here.loop.call_later(3.5, here.platform.partitions.disconnect, "dfw")
        here.loop.call_later(90.5, here.platform.partitions.connect, "dfw")

        lines, said = follow(here, "api", 8)

        assert len(set(lines)) == 8
        assert [line[:15] for line in lines[-2:]] == ["api-default-dfw"] * 2
        assert said.count("cell dfw is disconnected") == 1  # not for each of its instances


def test_logs_on_a_platform_without_logs_exits_13() -> None:
    with cli_session("DFW") as here:
        here.run("deploy api --image=a:1 --city=DFW")
        here.without_logs = True

        result = here.run("logs api")

        assert result.code == 13
        assert "this platform offers no instance logs" in result.err


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


def test_a_disconnected_city_is_named_once_and_does_not_hide_the_logs_of_others() -> None:
    with cli_session() as here:
        here.run(f"{DEPLOY} --min=3")
        here.platform.partitions.disconnect("dfw")

        both = here.run("logs api --city LHR")
        fresh = here.run("logs api")
        here.wait(600)
        later = here.run("logs api")
        alone = here.run("logs --city DFW")

        why = "cell dfw is disconnected, so the logs of its instances cannot be read"
        assert (both.code, both.err) == (0, "")
        assert (fresh.code, later.code) == (0, 0)
        assert fresh.err.startswith(f"{DFW} and 2 more: {why}\n")
        assert later.err.startswith(f"{DFW} and 2 more: {why}; last report over 9m")
        assert "Try:  datumctl-compute cities" in later.err
        assert later.out == both.out
        assert alone.code == 1
        assert f"logs are unavailable: {why}" in alone.err


def test_lines_of_the_same_second_keep_the_order_of_their_instance() -> None:
    """podman tells times in whole seconds."""
    lines = [f"2026-01-01T00:00:0{number // 4}Z {number}" for number in range(12)]
    with cli_session() as here:
        here.run(DEPLOY)
        for name in (DFW, LHR):
            here.logs[f"{name}/log"] = "\n".join(lines) + "\n"

        shown = here.run("logs api --timestamps").out.splitlines()

        times = [line.split(" | ")[1].split()[0] for line in shown]
        assert times == sorted(times)
        for name in (DFW, LHR):
            numbers = [int(line.split()[-1]) for line in shown if line.startswith(name)]
            assert numbers == list(range(12))
