"""A reader that has closed its pipe, as ``| head`` does, ends a command that prints. One that
changes something or waits goes on, and its exit code says what came of it."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import pytest

from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from tests.support.cli.session import CliSession, SessionReach, cli_session

DEPLOY = "deploy api --image=a/api:1 --city=DFW --window=0s"


@contextmanager
def closed_pipe() -> Iterator[TextIO]:
    """The end for writing of a pipe that has no reader any more."""
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    yield stream
    with suppress(BrokenPipeError):
        stream.close()


def run(here: CliSession, line: str, *, closed: str) -> int:
    with closed_pipe() as gone:
        out = gone if "stdout" in closed else io.StringIO()
        err = gone if "stderr" in closed else io.StringIO()
        streams = Streams(io.StringIO(), out, err)
        return main(shlex.split(line), here.env, streams, reach=SessionReach(here))


CLOSED = pytest.mark.parametrize("closed", ["stderr", "stdout", "stdout and stderr"])


@CLOSED
def test_a_change_is_made_although_its_output_is_not_read(closed: str) -> None:
    with cli_session("DFW") as here:
        assert run(here, DEPLOY, closed=closed) == 0
        assert here.run("status api -o json").json["health"] == "Available"

        assert run(here, "scale api --min 2 --window=0s", closed=closed) == 0
        assert here.run("status api -o json").json["placements"][0]["desired"] == 2

        assert run(here, "destroy api --yes", closed=closed) == 0
        assert here.run("status api").code == 5


@CLOSED
def test_the_exit_code_of_a_change_that_fails_is_its_own(closed: str) -> None:
    with cli_session("DFW") as here:
        assert run(here, "destroy absent --yes", closed=closed) == 5
        assert run(here, "deploy api --image=a/api:1 --city=NYC", closed=closed) == 7
        assert run(here, DEPLOY, closed=closed) == 0
        assert run(here, "destroy api", closed=closed) == 2, "it cannot ask"
        assert run(here, "deploy api --image=b:2 --dry-run --exit-code", closed=closed) == 1


@CLOSED
def test_a_command_that_waits_for_a_rollout_tells_how_it_ended(closed: str) -> None:
    with cli_session("DFW", grant={"instances": 1}) as here:
        here.run(f"{DEPLOY} --min=2 --no-wait")

        assert run(here, "rollout status api", closed=closed) == 7


@pytest.mark.parametrize("line", ["workloads", "status api", "instances -o json"])
def test_a_command_that_prints_ends_quietly_with_its_reader(line: str) -> None:
    with cli_session("DFW") as here:
        here.run(DEPLOY)

        assert run(here, line, closed="stdout") == 0
        assert run(here, line, closed="stderr") == 0


def test_a_watch_ends_with_its_reader() -> None:
    with cli_session("DFW") as here:
        here.run(DEPLOY)

        assert run(here, "workloads --watch", closed="stdout") == 0
