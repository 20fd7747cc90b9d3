"""Messages of failures: no names of the API and no stack trace."""

from __future__ import annotations

import io
import json
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from datum_compute.cli.context import Streams
from datum_compute.cli.errors import Exit, from_client
from datum_compute.cli.explain.suggestions import Remark, Suggestion, command
from datum_compute.cli.history.entries import NAME_PREFIX
from datum_compute.cli.main import main, program_name
from datum_compute.cli.tables import CONFIG_MAPS, INSTANCES, LOCATION_BINDINGS, SECRETS, WORKLOADS
from datum_compute.client import errors
from datum_compute.client.call import AnyCall, ClientCall, RawCall
from datum_compute.client.errors import Fault
from datum_compute.client.http.faults import fault_of
from datum_compute.testing.environment import SimulatedEnvironment


def status(reason: str, message: str, **details: object) -> bytes:
    body = {"kind": "Status", "reason": reason, "message": message, "details": details}
    return json.dumps(body).encode()


WEB = ("default", "web", "", "demo")


@pytest.mark.parametrize(
    ("called", "code", "body", "text"),
    [
        (
            ClientCall("create", WORKLOADS, *WEB),
            400,
            status("BadRequest", "strict decoding error: unknown field"),
            'creating workload "web": strict decoding error: unknown field',
        ),
        (
            ClientCall("list", INSTANCES, "default"),
            400,
            status("BadRequest", "unable to parse"),
            "listing instances: unable to parse",
        ),
        (
            ClientCall("patch", WORKLOADS, *WEB),
            500,
            b"",
            'changing workload "web": no body',
        ),
        (
            ClientCall("list", LOCATION_BINDINGS),
            403,
            status("Forbidden", "no"),
            "listing cities: no",
        ),
        (
            RawCall("post", "/local/v1/users"),
            400,
            status("BadRequest", "name: no"),
            "name: no",
        ),
        (
            ClientCall("create", CONFIG_MAPS, *WEB),
            403,
            status("Forbidden", "no"),
            'creating ConfigMap "web": no',
        ),
        (
            ClientCall("patch", CONFIG_MAPS, "default", f"{NAME_PREFIX}web", "", "demo"),
            403,
            status("Forbidden", "no"),
            'changing the history of workload "web": no',
        ),
        (
            ClientCall("list", SECRETS, "default"),
            403,
            status("Forbidden", "no"),
            "listing Secrets: no",
        ),
        (
            ClientCall("get", WORKLOADS, *WEB),
            404,
            b"<!DOCTYPE HTML>\n<html>",
            "the server does not serve compute, or the project does not exist: "
            'reading workload "web": the server answered with a web page, not an API response',
        ),
    ],
)
def test_an_api_error_is_shown_without_api_names(
    called: AnyCall, code: int, body: bytes, text: str
) -> None:
    assert from_client(errors.error_for(code, body, call=called)).message == text


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "update", "patch", "delete"])
def test_each_request_verb_has_a_phrase(verb: str) -> None:
    failure = errors.Malformed("odd", call=ClientCall(verb, WORKLOADS, *WEB))

    assert from_client(failure).message.endswith('ing workload "web": odd')


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (ConnectionRefusedError(111, "refused"), "https://127.0.0.1:1 refused the connection"),
        (
            ssl.SSLCertVerificationError(1, "no"),
            "the certificate of https://127.0.0.1:1 is not trusted",
        ),
        (ssl.SSLEOFError(8, "EOF"), "https://127.0.0.1:1 does not speak TLS"),
        (socket.gaierror(-2, "no such name"), "cannot be resolved"),
        (OSError("broken"), "https://127.0.0.1:1: Server disconnected"),
    ],
)
def test_a_connection_failure_is_shown_by_its_fault(cause: Exception, text: str) -> None:
    failure = errors.Disconnected(
        "Server disconnected",
        call=ClientCall("get", WORKLOADS, *WEB),
        server="https://127.0.0.1:1",
        fault=fault_of(cause),
    )

    shown = from_client(failure)

    assert shown.message.startswith('reading workload "web": ')
    assert text in shown.message
    assert shown.retryable


@pytest.mark.parametrize(
    ("server", "suggestion"),
    [
        ("https://127.0.0.1:7443", command("local", "status")),
        ("https://compute.example:6443", Remark("check --server")),
    ],
)
def test_a_server_elsewhere_is_not_looked_for_in_the_local_platform(
    server: str, suggestion: Suggestion
) -> None:
    failure = errors.Disconnected("gone", server=server, fault=Fault.REFUSED)

    assert from_client(failure).suggestions == (suggestion,)


def call(*argv: str, stdout: io.StringIO | None = None) -> tuple[int, str, str]:
    out, err = stdout or io.StringIO(), io.StringIO()
    env = SimulatedEnvironment(1, variables={"XDG_STATE_HOME": "/nonexistent"})
    code = main(argv, env, Streams(io.StringIO(), out, err))
    return code, "" if stdout else out.getvalue(), err.getvalue()


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


class Hopeless(io.StringIO):
    def write(self, text: str) -> int:
        raise ZeroDivisionError("surprise")


def test_a_full_disk_is_named_without_a_stack_trace() -> None:
    code, _, err = call("version", stdout=Full())

    assert (code, err) == (1, "Error: No space left on device\n")


class Unencodable(io.StringIO):
    def write(self, text: str) -> int:
        return len(os.fsdecode(b"\xff").encode())


def test_a_value_that_is_not_utf8_is_the_users_mistake() -> None:
    code, _, err = call("version", stdout=Unencodable())

    assert (code, err) == (2, "Error: a value that was given is not UTF-8 text\n")


def test_an_internal_error_shows_how_to_get_a_traceback_instead_of_one() -> None:
    code, _, err = call("version", stdout=Hopeless())

    assert code == 1
    assert "Traceback" not in err
    assert "ZeroDivisionError: surprise" in err
    assert "DATUM_COMPUTE_TRACEBACK=1" in err


@pytest.mark.parametrize(
    "argv",
    [
        ("status", "a/b"),
        ("status", ""),
        ("status", "Bäd Name"),
        ("scale", "..", "--min", "3"),
        ("destroy", "a%2fb", "--yes"),
        ("status", "web", "--project", "a/b"),
        ("status", "web", "--project", ""),
        ("status", "web", "--server", "https://x:y", "--token", "t", "--project", "p"),
        ("status", "web", "--server", "ftp://x", "--token", "t", "--project", "p"),
        ("status", "web", "--server", "https://", "--token", "t", "--project", "p"),
        ("status", "web", "--server", "x?path", "--token", "t", "--project", "p"),
        ("status", "web", "--server", "x", "--token", "a\nb", "--project", "p"),
    ],
)
def test_an_invalid_name_or_address_is_refused_before_any_request(
    argv: tuple[str, ...],
) -> None:
    code, out, err = call(*argv)

    assert (code, out) == (Exit.USAGE, "")
    assert err.startswith("Error: ")
    assert "datumapis.com" not in err


@pytest.mark.parametrize("content", [b"hello", b"\xff"])
def test_an_invalid_certificate_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(content)

    code, _, err = call(
        *("status", "web", "--server", "x", "--token", "t", "--project", "p"),
        *("--certificate-authority", str(file)),
    )

    assert code == Exit.USAGE
    assert "unusable certificate data: expected certificates in PEM\n" in err


def started(*argv: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "datum_compute.cli", *argv],
        stderr=subprocess.PIPE,
        check=False,
        timeout=30,
        **options,
    )


def test_a_closed_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = started("version", stdout=writing)

    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_closed_streams_are_no_error(closed: int) -> None:
    done = started("version", stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(closed))

    assert (done.returncode, done.stderr) == (0, b"")


def test_characters_outside_the_terminals_encoding_are_no_error(tmp_path: Path) -> None:
    done = started(
        *("status", "ü—"),
        stdout=subprocess.PIPE,
        env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PATH": os.defpath},
    )

    assert done.returncode == Exit.USAGE
    assert b"Traceback" not in done.stderr


def test_suggested_commands_can_be_typed_as_printed(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "datumctl-compute"
    program.parent.mkdir()
    program.touch(mode=0o755)
    path = {"PATH": str(program.parent)}

    def name(variables: dict[str, str], started_as: str) -> str:
        return program_name(SimulatedEnvironment(variables=variables), started_as)

    assert name(path, str(program)) == "datumctl-compute"
    assert name({"PATH": "/nowhere"}, str(program)) == str(program)
    assert name({"PATH": "/nowhere"}, ".venv/bin/datumctl-compute") == ".venv/bin/datumctl-compute"
    assert name({**path, "DATUM_API_HOST": "api"}, str(program)) == "datumctl compute"
    assert name(path, "/x/datum_compute/cli/__main__.py").endswith(" -m datum_compute.cli")


def test_hints_use_the_name_the_program_was_started_by() -> None:
    err = io.StringIO()
    env = SimulatedEnvironment(1, variables={"XDG_STATE_HOME": "/nonexistent"})

    main(["instances"], env, Streams(io.StringIO(), io.StringIO(), err), "bin/datumctl-compute")

    assert "Try:  bin/datumctl-compute local up --detach" in err.getvalue()


INTERRUPTED_WHILE_LOADING = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["datumctl-compute", "status", "web"]
from datum_compute.cli.quick.start import run
sys.exit(run())
"""


@pytest.mark.parametrize(
    "module", ["datum_compute.cli.main", "argparse", "datum_compute.cli.commands.status"]
)
def test_ctrl_c_during_start_up_shows_no_stack_trace(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_LOADING.format(module=module)],
        capture_output=True,
        check=False,
        timeout=30,
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"Interrupted.\n")
