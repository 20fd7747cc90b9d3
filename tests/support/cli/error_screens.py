"""Every error of the command line, as it is shown.

Each is caused by a command, with or without a platform; the file ``cli-errors.txt`` has the
command, the exit code, the code for programs and the message, in the order of the source.
After an intended change::

    python -m tests.support.cli.error_screens
"""

from __future__ import annotations

import io
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

import apsw

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import CONFIG_MAPS, SECRETS
from datum_compute.api.services import v1alpha1 as services
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.assembly.local import process
from datum_compute.assembly.local.state import (
    LocalSettings,
    RunningPlatform,
    StateDirectory,
    StateLost,
)
from datum_compute.cli.context import Destination, Reach, Streams
from datum_compute.cli.history.entries import NAME_PREFIX
from datum_compute.cli.main import main
from datum_compute.cli.quick.reader import Reader
from datum_compute.client import errors
from datum_compute.client.kubeconfig import render
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.env import Environment
from datum_compute.providers.container import sockets
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.cli.error_sites import ErrorRecorder
from tests.support.cli.intercepted_session import InterceptedSession, _Reach
from tests.support.cli.read_screens import manifest
from tests.support.cli.session import (
    PROGRAM,
    CliSession,
    SessionDestination,
    SessionReach,
    SessionReader,
    cli_session,
)
from tests.support.decisions.workloads import MACHINE
from tests.support.paths import GOLDEN
from tests.support.providers.commands import ScriptedCommands

FILE = GOLDEN / "errors.txt"

WHOLE = """\
apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: web}
spec:
  template: {spec: {networkInterfaces: [{network: {name: default}}]}}
  placements: [{name: default, cityCodes: [DFW]}]
"""


class TypedInput(io.StringIO):
    """Input that is typed at a terminal."""

    def isatty(self) -> bool:
        return True


class TerminalOutput(io.StringIO):
    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


class UnencodableOutput(io.StringIO):
    """As a request fails with a word of the command line that is not UTF-8."""

    def write(self, text: str) -> int:
        return len(os.fsdecode(b"\xff").encode())


class BrokenOutput(io.StringIO):
    def write(self, text: str) -> int:
        raise ZeroDivisionError("surprise")


@dataclass
class ErrorTranscript:
    """The errors shown, by the place that raises them; the first command that shows one counts."""

    directory: Path
    entries: dict[str, str] = field(default_factory=dict)

    def run(
        self,
        line: str,
        env: Environment | None = None,
        reach: Reach | None = None,
        *,
        stdin: str = "",
        typed: TextIO | None = None,
        stdout: io.StringIO | None = None,
        variables: dict[str, str] | None = None,
    ) -> None:
        """Run a command that must fail; ``typed`` is the input at a terminal."""
        out, err = stdout or TerminalOutput(), TerminalOutput(terminal=typed is not None)
        used = env or self.environment(variables)
        streams = Streams(typed or io.StringIO(stdin), out, err)
        with ErrorRecorder() as recorder:
            code = main(shlex.split(line), used, streams, reach=reach)
        stderr = err.getvalue()
        assert code != 0, (line, stderr)
        for made in recorder.made:
            if made.text not in stderr:
                continue  # raised, and never shown
            kind = made.error.code if made.error else "Usage"
            shown = stderr.splitlines()
            first = next((i for i, each in enumerate(shown) if each.startswith("Error: ")), 0)
            typed_in = line if len(line) < 200 else f"{line[:80]}…"
            typed_in = typed_in.encode(errors="replace").decode()
            lines = [f"$ {PROGRAM} {typed_in}", f"[exit {code}, {kind}]", *shown[first:]]
            text = "\n".join(f"  {each}".rstrip() for each in lines)
            self.entries.setdefault(made.site, text.replace(str(self.directory), "DIR"))

    def environment(self, variables: dict[str, str] | None = None) -> SimulatedEnvironment:
        own = {
            "XDG_STATE_HOME": str(self.directory / "none"),
            "XDG_CONFIG_HOME": str(self.directory / "config"),
            "DATUM_RUNTIME": "simulated",
        }
        return SimulatedEnvironment(1, variables={**own, **(variables or {})})

    def at(self, here: CliSession, line: str, **how: Any) -> None:
        self.run(line, here.env, SessionReach(here), **how)

    def between(self, session: InterceptedSession, line: str, **how: Any) -> None:
        """Run a command whose requests are intercepted on their way to the platform."""
        reach = session._reach = _Reach(session.session, session.answer, session.after)
        self.run(line, session.session.env, reach, **how)

    def text(self) -> str:
        listed = sorted(self.entries.items())
        return "\n".join(f"{site}\n{entry}\n" for site, entry in listed)


def without_a_platform(ledger: ErrorTranscript) -> None:
    ledger.run("version", stdout=FullDisk())
    ledger.run("version", stdout=UnencodableOutput())
    ledger.run("version", stdout=BrokenOutput())
    for line in (
        "status",
        "status a b",
        "--data-dir",
        "status web --outptu json",
        "deploy web --arg -f",
        "status web -z",
        "stats web",
        "shell web",
        "exec web-0",
        "exec -t web-0 -- ls",
        "status web -o xml",
        "status Web",
        "workloads --health fine",
        "rollout history web --revision first",
        "rollout history web --limit 0",
        "logs web --tail some",
        "scale web --min 2 --timeout soon",
        "scale web --min 0",
        "scale web --min two",
        "scale web --min 2 --message " + os.fsdecode(b"\xff"),
        "deploy web --min 0",
        "deploy web --exit-code",
        "deploy web --image=a:1 --image=a:2",
        "deploy web -f -",
        "deploy",
        "status web",
        "local up --runtime magic",
        "access request --message " + "x" * 1025,
        "config set settings colour",
        "config set settings",
        "config set settings a=1 a=2",
        "config set settings a/b=1",
        "config set settings --from-file /nonexistent/file",
        "secrets set keys a -",
    ):
        ledger.run(line)
    _files(ledger)
    _targets(ledger)
    _helpers(ledger)


def _files(ledger: ErrorTranscript) -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    for text in (
        "a: [",
        "a: 0b_",
        'a: "\\U00110000"',
        'a: "\\ud800"',
        bomb,
        "1: x",
        "a: .nan",
        "[" * 200 + "]" * 200,
        "",
        WHOLE.replace("[DFW]", "DFW"),
        WHOLE.replace("spec:\n", "spec:\n  plcements: []\n").replace("  placements", "  x"),
        f"{WHOLE}---\n{WHOLE}",
        "x" * (3 * 2**20 + 1),
    ):
        ledger.run("deploy -f -", stdin=text)
    ledger.run(f"deploy -f {ledger.directory}/nothing.yaml")
    odd = ledger.directory / "odd.yaml"
    odd.write_bytes(b"\xff\xfe\x00")
    ledger.run(f"deploy -f {odd}")


def _targets(ledger: ErrorTranscript) -> None:
    odd = ledger.directory / "odd.yaml"
    there = "--server api.example --token t --project p"
    for line in (
        "status web --project No",
        "status web --server api.example --token 'a\tb' --project p",
        "status web --server api.example",
        "status web --server ftp://api.example --token t --project p",
        "status web --server https://api.example/clusters/hub --token t --project p",
        f"status web {there} --certificate-authority {ledger.directory}/nothing",
        f"status web {there} --certificate-authority {odd}",
        f"status web --kubeconfig {ledger.directory}/nothing",
        "status web --data-dir ''",
        f"status web --data-dir {ledger.directory}/nothing",
        "status web --server api.example --token t",
        "status web --server api.example --project p",
        "status web --server api.example --kubeconfig kubeconfig",
        "status web --server api.example --context here",
        "status web --context here",
        f"status web --server api.example --project p --token-file {ledger.directory}/nothing",
        "status web --server api.example --project p --token ''",
    ):
        ledger.run(line)
    ledger.run("status web", variables={"DATUM_PROJECT": "No"})
    cluster = ledger.directory / "cluster.kubeconfig"
    server = "https://api.example"
    cluster.write_text(render(server=server, ca_pem=b"", token="t", name="c", user="u"))
    ledger.run(f"projects --kubeconfig {cluster}")
    _contexts(ledger)
    ledger.run(f"status web {there}", variables={"HTTPS_PROXY": "socks5://x:1"})
    ledger.run("status web", variables={"DATUM_API_HOST": "api.example"})
    ledger.run("status web", variables={"DATUM_API_HOST": "api.example/x", "DATUM_PROJECT": "p"})
    held = ledger.directory / "a-file"
    held.write_text("not a directory")
    ledger.run(f"status web --data-dir {held}")
    ledger.run(f"local status --data-dir {held}")
    damaged = StateDirectory(ledger.directory / "damaged")
    damaged.create()
    (damaged.path / "settings.json").write_text('{"cities": ["DFW"], "port": "x"}')
    ledger.run(f"local up --data-dir {damaged.path}")


def _contexts(ledger: ErrorTranscript) -> None:
    added = "context add shop --server api.example --project shop --token-file t"
    streams = Streams(io.StringIO(), io.StringIO(), io.StringIO())
    assert main(shlex.split(added), ledger.environment(), streams) == 0
    for line in (
        added,
        "context use nosuch",
        "context add Shop --data-dir d",
        "context add other --server api.example --token t",
        "context add other --data-dir d --project No",
        "context add other --project p",
        "context add other --kubeconfig k --token-file t",
        "context add other --data-dir d --context here",
    ):
        ledger.run(line)
    (ledger.directory / "config" / "datum-compute" / "contexts.json").write_text("{")
    ledger.run("status web")
    (ledger.directory / "config" / "datum-compute" / "contexts.json").unlink()


def _helpers(ledger: ErrorTranscript) -> None:
    plugin = {"DATUM_API_HOST": "api.example", "DATUM_PROJECT": "p"}
    ledger.run("status web", variables=plugin)
    ledger.run(
        "status web", variables={**plugin, "DATUM_CREDENTIALS_HELPER": "/nonexistent/datumctl"}
    )
    with socket.socket() as taken:  # a port without a listener
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        ledger.run(f"status web --server http://127.0.0.1:{port} --token t --project p")
    for site, entry in ledger.entries.items():
        ledger.entries[site] = entry.replace(f":{port}", ":PORT")


def beside_a_local_platform(ledger: ErrorTranscript) -> None:
    for line in ("--cities 1", "--project No", "--port 99999", "--grant cheese=1"):
        ledger.run(f"local up --data-dir {ledger.directory}/up {line}")
    ledger.run(f"local up --sample --data-dir {ledger.directory}/up")
    ledger.run(f"local up --data-dir {ledger.directory}/up", variables={"DATUM_RUNTIME": "vm"})
    with mock.patch.object(sockets, "candidates", return_value=[]):
        ledger.run(f"local up --runtime docker --data-dir {ledger.directory}/up")
    state = StateDirectory(ledger.directory / "state")
    state.create()
    where = f"--data-dir {state.path}"
    ledger.run(f"local status {where}")
    with _running(state):
        ledger.run(f"local up --cities LAX {where}")
        ledger.run(f"local up --runtime docker {where}")
        ledger.run(f"local cell connect LAX {where}")
        ledger.run(f"local kubeconfig --plane moon {where}")
        demo = {"metadata": {"name": "demo"}}
        with mock.patch.object(Reader, "list", return_value=[demo]):
            ledger.run(f"local kubeconfig --plane project/nope {where}")
        ledger.run(f"local user add {where}")
        ledger.run(f"local user add ana {where}")
    with state.hold():
        gone = subprocess.run(
            [sys.executable, "-c", "import os; print(os.getpid())"],
            stdout=subprocess.PIPE,
            check=True,
        )
        pid = gone.stdout.decode().strip()
        (state.path / "lock").write_text(pid)
        ledger.run(f"local down {where}")
    _steady(ledger, pid, "PID")
    holder = _HoldsMeanwhile(state)
    ledger.run(f"local reset {where}", typed=holder)
    holder.let_go()
    _ends_without_a_word(ledger, state)
    _loses_its_directory(ledger)
    _finds_its_port_taken(ledger)
    _stored_state(ledger, state)


def _stored_state(ledger: ErrorTranscript, state: StateDirectory) -> None:
    where = f"--data-dir {state.path}"
    ledger.run(f"local backup {ledger.directory}/backup {where}")
    ledger.run(f"local restore {ledger.directory}/nothing {where}")
    with state.hold():
        ledger.run(f"local repair --yes {where}")
    LogStore(SimulatedEnvironment(), str(state.database)).close()
    ledger.run(f"local backup {ledger.directory}/odd.yaml {where}")
    ledger.run(f"local restore {ledger.directory}/odd.yaml --yes {where}")
    broken = ledger.directory / "broken.backup"
    broken.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    ledger.run(f"local restore {broken} --yes {where}")
    with closing(apsw.Connection(str(state.database))) as db:
        db.execute("PRAGMA user_version = 9")
    ledger.run(f"local check {where}")


@contextmanager
def _running(state: StateDirectory) -> Iterator[None]:
    """As if a platform ran there."""
    with state.hold():
        state.store_settings(LocalSettings())
        state.announce(RunningPlatform(1, "https://127.0.0.1:1", "demo", "2026-01-01T00:00:00"))
        state.certificate_authority.write_bytes(b"")
        yield


class _HoldsMeanwhile(TypedInput):
    """A platform starts while a prompt waits for an answer."""

    def __init__(self, state: StateDirectory) -> None:
        super().__init__("y\n")
        self._held = state.hold()
        self._lock = state.path / "lock"

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        self._held.__enter__()
        self._lock.write_text("")  # it has not written its process id yet
        return super().readline()

    def let_go(self) -> None:
        self._held.__exit__(None, None, None)


HOLDER = """
import fcntl, os, sys
handle = os.open("lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
os.mkfifo("platform.json")
print("held", flush=True)
with open("platform.json", "w"):  # returns when a reader opens it
    os.unlink("platform.json")
    fcntl.flock(handle, fcntl.LOCK_UN)
"""


def _ends_without_a_word(ledger: ErrorTranscript, state: StateDirectory) -> None:
    """Another process holds the directory, and releases it before it is ready."""
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=state.path) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        ledger.run(f"local up --data-dir {state.path}")


def _loses_its_directory(ledger: ErrorTranscript) -> None:
    lost = ledger.directory / "lost"
    why = StateLost(f"{lost} was removed or replaced while the platform ran")
    with mock.patch.object(process, "run_in_foreground", side_effect=why):
        ledger.run(f"local up --runtime simulated --data-dir {lost}")


def _finds_its_port_taken(ledger: ErrorTranscript) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ledger.run(f"local up --detach --data-dir {ledger.directory}/taken --port {port}")
    _steady(ledger, str(port), "PORT")


def _steady(ledger: ErrorTranscript, text: str, instead: str) -> None:
    for site, entry in ledger.entries.items():
        ledger.entries[site] = entry.replace(text, instead)


class _Root(SessionDestination):
    """The root plane, which serves no compute."""

    def reader(self) -> Reader:
        reader = SessionReader("http://desk", cluster="root", token=self.token)
        reader.session = self.session
        return reader


class _Elsewhere(SessionReach):
    def find(self, env: Environment, args: Namespace) -> Destination:
        return _Root(self.session, "demo")


DEPLOY = "deploy api --image=a/api:1 --city=DFW,LHR --port=http=8080"


def on_a_platform(ledger: ErrorTranscript, here: CliSession) -> None:
    _flags(ledger, here)
    _names(ledger, here)
    _prompts(ledger, here)
    _data(ledger, here)
    _refusals(ledger, here)
    _histories(ledger, here)
    _others(ledger, here)
    _waves(ledger, here)
    _waits(ledger, here)


def _flags(ledger: ErrorTranscript, here: CliSession) -> None:
    ledger.at(here, "deploy api --city=DFW")
    ledger.at(here, "deploy api --image=a:1")
    ledger.at(here, "deploy api --image=a:1 --city=DFW --sleep-after=5m")
    assert here.run(DEPLOY).code == 0
    for flags in (
        "--image=",
        "--image='a b'",
        "--image=Nginx",
        "--city=",
        "--city=+LHR",
        "--instance-type=' '",
        "--network=No",
        "--env=A",
        "--env='A B=1'",
        "--label=team",
        "--port=web-",
        "--port=other=8080",
        "--port=1 --port=1",
        "--port=0",
        "--http-port=eighty",
        "--http-port=80 --no-http",
        "--add-city=LHR --remove-city=LHR",
        "--port=Bad_=80",
        f"--image=a:2 --no-wait --save={ledger.directory}/no/such/place",
        "--instance-type=huge",
        "--city=LAX",
        "--remove-city=LAX",
        "--remove-city=DFW,LHR",
        "--env-from=settings",
        "--env-secret=TOKEN=keys",
        "--env-secret=1=keys:token",
        "--mount=config/settings:etc",
        "--mount=config/settings-",
        "--pull-secret=No",
        "--waves=DFW,",
        "--waves=DFW,LHR+DFW",
        "--waves=DWF,LHR",
        "--command=",
        "--save -",
        "--soak=soon",
        "--waves=none --gate=SmokeTestsPassed",
        "--city=DFW",
    ):
        ledger.at(here, f"deploy api {flags}")
    ledger.at(here, f"deploy {'x' * 64} --image=a:1 --city=DFW")
    ledger.at(here, "scale api --min 2 --placement other")
    ledger.at(here, "restart api --city LAX")
    here.run("stop api")
    ledger.at(here, "start api --city DFW")
    here.run("start api")
    _unusual_workloads(here)
    ledger.at(here, "deploy two --city=DFW")
    ledger.at(here, "deploy vm --image=a:2")


def _unusual_workloads(here: CliSession) -> None:
    """One with two placements, and one of virtual machines."""
    live = here.run("status api -o json").json["object"]["spec"]
    first = {**live["placements"][0], "cityCodes": ["DFW"]}
    other = {**first, "name": "other", "cityCodes": ["LHR"]}
    two = {**MACHINE, "metadata": {"name": "two"}, "spec": {**live, "placements": [first, other]}}
    for body in (two, MACHINE):
        here.act(here.client().create(compute.WORKLOADS, body, "default"))
    here.wait(5)


def _names(ledger: ErrorTranscript, here: CliSession) -> None:
    for line in (
        "status nosuch",
        "why nosuch",
        "logs nosuch",
        "instances describe nosuch",
        "instances --city SFO",
        "projects create No",
        "projects create demo",
        "projects create slow --timeout 0s",
        "scale nosuch --min 1",
        "restart nosuch",
        "rollout status nosuch",
        "rollout undo nosuch --yes",
        "rollout history api --revision 9",
        "rollout undo two --yes",
    ):
        ledger.at(here, line)
    here.without_logs = True
    ledger.at(here, "logs api")
    here.without_logs = False
    _commands(ledger, here)
    _builds(ledger, here)


def _builds(ledger: ErrorTranscript, here: CliSession) -> None:
    for flags in ("--dockerfile=x", "--build=. --image=a:1", "--build=."):
        ledger.at(here, f"deploy api {flags}")
    ledger.at(here, "deploy --build=.")
    state = StateDirectory(ledger.directory / "engine")
    state.create()
    state.store_settings(LocalSettings(runtime="podman"))
    here.local_directory = str(state.path)
    ledger.at(here, "deploy api --build=nosuch")
    ledger.at(here, f"deploy api --build={state.path}")  # without a Dockerfile
    here.local_directory = ""


def _commands(ledger: ErrorTranscript, here: CliSession) -> None:
    ledger.at(here, "exec api-default-dfw-0 -- ls")
    commands = ScriptedCommands()
    real = here.platform.providers.set_provider("dfw", commands)
    ledger.at(here, "exec api-default-dfw-0 -- /nope")
    commands.refusal = 'its container "app" does not run: exited'
    ledger.at(here, "exec api-default-dfw-0 -- ls")
    here.platform.providers.set_provider("dfw", real)
    assert here.run("deploy idle --image=a:1 --city=DFW --no-wait").code == 0
    ledger.at(here, "ssh idle")
    ledger.at(here, "open idle")
    ledger.at(here, "open idle --city LHR")
    ledger.at(here, "deploy idle --sleep-after=soon")
    ledger.at(here, "console")
    assert here.run("deploy idle --http-port=80 --no-wait").code == 0
    ledger.at(here, "open idle")
    assert here.run("destroy idle --yes").code == 0


def _data(ledger: ErrorTranscript, here: CliSession) -> None:
    """ConfigMaps and Secrets that cannot be changed as a user wants."""
    large = ledger.directory / "large"
    large.write_text("x" * (256 * 1024 + 1))
    half = ledger.directory / "half"
    half.write_text("x" * (200 * 1024))
    registry = {"metadata": {"name": "registry"}, "type": "kubernetes.io/dockerconfigjson"}
    owner = {"kubernetes.io/service-account.name": "default"}
    account = {
        "metadata": {"name": "account", "annotations": owner},
        "type": "kubernetes.io/service-account-token",
    }
    fixed = {"metadata": {"name": "fixed"}, "immutable": True, "data": {"a": "1"}}
    for resource, body in (
        (SECRETS, {**registry, "data": {".dockerconfigjson": "e30="}}),
        (SECRETS, account),
        (CONFIG_MAPS, fixed),
    ):
        here.act(here.client().create(resource, body, "default"))
    assert here.run("secrets set keys token=1").code == 0
    for line, stdin in (
        (f"config set settings --from-file {large}", ""),
        (f"config set settings --from-file a={half} --from-file b={half}", ""),
        ("config set fixed a=2", ""),
        (f"config set {NAME_PREFIX}api a=2", ""),
        ("secrets set account a=2", ""),
        ("secrets set registry a=2", ""),
        ("config show nosuch", ""),
        ("config show fixed b", ""),
        ("config unset nosuch", ""),
        ("config unset settings nosuch", ""),
        ("secrets unset keys nosuch", ""),
        ("secrets set keys a b", "x"),
        ("secrets set keys a", ""),
        ("secrets set keys -", "hunter2"),
        ("secrets set keys -", "a b=1"),
        ("secrets set keys -", ""),
        ("secrets set keys a=1 -", "a=2"),
        ("secrets set keys a", "x" * (256 * 1024 + 1)),
    ):
        ledger.at(here, line, stdin=stdin)
    ledger.at(here, "secrets set keys a", typed=TypedInput(""))
    with ledger.directory.joinpath("odd.yaml").open(encoding="utf-8") as odd:
        ledger.at(here, "secrets set keys a", typed=odd)


def _prompts(ledger: ErrorTranscript, here: CliSession) -> None:
    ledger.at(here, "destroy api")
    ledger.at(here, "destroy api", typed=TypedInput("n\n"))
    ledger.at(here, "deploy", typed=TypedInput(""))


def _refusals(ledger: ErrorTranscript, here: CliSession) -> None:
    ledger.at(here, "workloads --token nobody")
    ledger.at(here, "workloads --project nosuch")
    ledger.run("workloads", here.env, _Elsewhere(here))
    ledger.at(here, "workloads -l '=='")
    saved = ledger.directory / "api.yaml"
    assert here.run(f"deploy api --dry-run --save={saved}").code == 0
    good = saved.read_text(encoding="utf-8")
    ledger.at(here, "deploy -f -", stdin=good.replace("image:", "imge:"))
    ledger.at(here, "deploy -f -", stdin=good.replace("port: 8080", "port: 80800"))


def _histories(ledger: ErrorTranscript, here: CliSession) -> None:
    name = f"{NAME_PREFIX}api"
    found = here.act(here.client().get(CONFIG_MAPS, name, "default"))
    assert found is not None
    entry = '{"rev":7,"timestamp":"2026-01-01T00:00:00Z","spec":null}'
    here.act(here.client().patch(CONFIG_MAPS, name, merge({"data": {"7": entry}}), "default"))
    ledger.at(here, "rollout undo api --to-revision 7 --yes")


def _answer(status: int, reason: str, *, method: str) -> Callable[..., Any]:
    body = json.dumps(
        {
            "kind": "Status",
            "reason": reason,
            "code": status,
            "message": "not now",
            "details": {"name": "api", "kind": "workloads"},
        }
    )

    async def answer(request: HttpRequest, number: int) -> HttpResponse | None:
        if request.method != method:
            return None
        return HttpResponse(status, {"content-type": "application/json"}, body.encode())

    return answer


def _others(ledger: ErrorTranscript, here: CliSession) -> None:
    ledger.between(
        InterceptedSession(here, _answer(409, "Conflict", method="PATCH")),
        "scale api --min 3 --no-wait",
    )
    ledger.between(
        InterceptedSession(here, _answer(409, "Conflict", method="DELETE")),
        "destroy api --yes --no-wait",
    )
    ledger.between(
        InterceptedSession(here, _answer(404, "NotFound", method="PATCH")),
        "restart api --city DFW --no-wait",
    )
    live = here.act(here.client().get(compute.WORKLOADS, "api", "default")).to_wire()

    async def lose_the_stop(request: HttpRequest, number: int) -> HttpResponse | None:
        if request.method != "PATCH":
            return None
        return HttpResponse(200, {"content-type": "application/json"}, live)

    ledger.between(InterceptedSession(here, lose_the_stop), "stop api")
    here.broken_after = 4
    ledger.at(here, "workloads --watch")
    here.broken_after = None


def _waves(ledger: ErrorTranscript, here: CliSession) -> None:
    ledger.at(here, "rollout pause api")
    assert here.run("deploy waved --image=a:1 --city=DFW,LHR --waves=each --soak=1m").code == 0
    ledger.at(here, "rollout abort waved")
    assert here.run("deploy waved --image=a:2 --no-wait").code == 0
    ledger.at(here, "rollout skip waved LAX")
    assert here.run("rollout skip waved DFW").code == 0
    ledger.at(here, "rollout skip waved LHR")
    here.wait(10)
    assert here.run("rollout abort waved").code == 0
    here.wait(10)
    ledger.at(here, "rollout promote waved")
    ledger.at(here, "rollout status waved")


def _waits(ledger: ErrorTranscript, here: CliSession) -> None:
    async def lose(request: HttpRequest, number: int) -> HttpResponse | None:
        if number > 4:
            raise errors.Disconnected("the line broke")
        return None

    async def vanish(request: HttpRequest, number: int) -> HttpResponse | None:
        if number == 4:
            await here.client().delete(compute.WORKLOADS, "two", "default")
        return None

    async def supersede(request: HttpRequest, number: int) -> HttpResponse | None:
        if number == 4:
            patch = merge({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
            await here.client().patch(compute.WORKLOADS, "two", patch, "default")
        return None

    ledger.at(here, "scale api --min 4 --timeout 0s")
    ledger.between(InterceptedSession(here, lose), "rollout status api")
    assert here.run("scale two --min 3 --no-wait").code == 0
    ledger.between(InterceptedSession(here, supersede), "rollout status two")
    ledger.between(InterceptedSession(here, vanish), "rollout status two")
    here.platform.partitions.disconnect("lhr")
    ledger.at(here, "logs api --city LHR")
    ledger.at(here, "destroy api --yes --timeout 5s")
    ledger.at(here, "deploy api --image=a:9")


def blocked(ledger: ErrorTranscript, here: CliSession) -> None:
    """A session with little quota, instances that crash, and an image that does not exist."""
    ledger.at(here, "deploy -f -", stdin=json.dumps(manifest("crash", crash_after_seconds="2")))
    assert here.run("destroy crash --yes").code == 0
    bad = manifest("bad", fail="ImageUnavailable")
    bad["metadata"]["annotations"] = {compute.ANNOTATION_ROLLOUT: '{"waves": "each"}'}
    ledger.at(here, "deploy -f -", stdin=json.dumps(bad))
    here.wait(60)
    ledger.at(here, "rollout status bad")
    ledger.at(here, "deploy big --image=a:1 --city=DFW --min 5")


def access(ledger: ErrorTranscript, here: CliSession) -> None:
    here.act(here.client().delete(services.SERVICE_ENTITLEMENTS, "compute"))
    ledger.at(here, "instances")
    ledger.at(here, "instances", typed=TypedInput("n\n"))
    ledger.at(here, "instances", typed=TypedInput("y\n"))
    ledger.at(here, "instances")
    ledger.at(here, "access request --wait --timeout 5s")


def written() -> ErrorTranscript:
    with tempfile.TemporaryDirectory() as directory:
        ledger = ErrorTranscript(Path(directory))
        without_a_platform(ledger)
        beside_a_local_platform(ledger)
        with cli_session("DFW", "LHR") as here:
            on_a_platform(ledger, here)
        with cli_session("DFW", "LHR", grant={"instances": 4}) as here:
            blocked(ledger, here)
        with cli_session("DFW", approval_by_hand=True) as here:
            access(ledger, here)
        return ledger


if __name__ == "__main__":
    FILE.write_text(written().text(), encoding="utf-8")
