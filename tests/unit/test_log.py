"""Every field a log line is given reaches the line, and there is one way to give it."""

from __future__ import annotations

import ast
import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import datum_compute
from datum_compute.apiserver.server import ApiServer
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.assembly.logs import JsonFormatter, TextFormatter
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.log import get_logger
from datum_compute.testing.environment import SimulatedEnvironment

PACKAGE = Path(datum_compute.__file__).parent

STANDARD_LOGGERS = {"log.py", "assembly/local/process.py"}
"""The helper itself, and the local process, which sets the level of the root logger."""


@contextmanager
def lines_of(name: str, formatter: logging.Formatter) -> Iterator[list[str]]:
    """The lines a real handler writes for one logger, as text."""
    stream, lines = io.StringIO(), list[str]()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        lines += stream.getvalue().splitlines()


def test_a_text_line_ends_with_its_fields() -> None:
    with lines_of("tests.log", TextFormatter()) as lines:
        get_logger("tests.log").warning("certificate not reloaded", server="webhook", name="a b")

    assert lines[0].endswith(
        'WARNING tests.log: certificate not reloaded server=webhook name="a b"'
    )


def test_a_json_line_holds_its_fields_and_the_stack_trace() -> None:
    with lines_of("tests.log", JsonFormatter()) as lines:
        try:
            raise ValueError("our bug")
        except ValueError as error:
            get_logger("tests.log").error("review failed", exc_info=error, path="/validate")

    line = json.loads(lines[0])
    assert (line["msg"], line["path"]) == ("review failed", "/validate")
    assert "ValueError: our bug" in line["stacktrace"]


def test_a_line_names_the_caller_and_not_the_helper() -> None:
    formatter = logging.Formatter("%(filename)s %(funcName)s")
    with lines_of("tests.log", formatter) as lines:
        log = get_logger("tests.log")
        log.warning("one")
        log.error("two")
        log.log(logging.WARNING, "three")

    caller = f"{Path(__file__).name} {test_a_line_names_the_caller_and_not_the_helper.__name__}"
    assert lines == [caller] * 3


async def test_a_failed_request_is_named_in_the_line_of_the_api_server() -> None:
    async def local(_: HttpRequest) -> HttpResponse:
        raise RuntimeError("our bug")

    env = SimulatedEnvironment()
    server = ApiServer(env, LogStore(env), crds_for=lambda _: (), local=local)
    server.add_user("admin", ["system:masters"], "token")
    request = HttpRequest("POST", "/local/v1/cells", headers={"authorization": "Bearer token"})

    with lines_of("datum_compute.apiserver", TextFormatter()) as lines:
        response = await server.handle(request)

    assert response.status == 500
    assert lines[0].endswith("request failed method=POST path=/local/v1/cells")


def test_log_lines_are_written_through_the_helper() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).as_posix() not in STANDARD_LOGGERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "getLogger"
    ]

    assert not found, "use datum_compute.log.get_logger: its fields reach the line"
