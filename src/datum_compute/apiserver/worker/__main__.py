"""The worker process: reads tasks from its standard input, a socket, and answers there.

It ends when the server closes the socket, and after an answer that made it large.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from datum_compute.api import planes
from datum_compute.apiserver import errors
from datum_compute.apiserver.kinds import builtin_rules
from datum_compute.apiserver.kinds.builtin_kinds import builtin_kinds
from datum_compute.apiserver.managed_fields.entries import with_entries
from datum_compute.apiserver.objects.planes import Plane
from datum_compute.apiserver.printing.renderer import Renderer
from datum_compute.apiserver.request.access import RequestUser
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.request.flow_control import FlowControl
from datum_compute.apiserver.storage.protocol import PlaneStore
from datum_compute.apiserver.verbs import one_object, writes
from datum_compute.apiserver.worker import records
from datum_compute.apiserver.worker.records import Outcome, Task, Trial
from datum_compute.apiserver.worker.snapshot import SnapshotPlane
from datum_compute.client.transport import HttpRequest
from datum_compute.env import Environment, SystemEnvironment
from datum_compute.log import get_logger

MAX_MEMORY = 512 * 2**20
"""Bytes that one request may make the process hold. A guess: a body of 3 MB with a million values
takes 300 MB."""
MAX_ADDRESSES = 2**30
"""Bytes of addresses, for what grows within one call. Libraries may end the process there."""
CHECK_SECONDS = 0.02
"""CPU time between two checks of what a request uses. A guess: in it a request takes at most some
20 MB."""
MAX_IDLE_MEMORY = 256 * 2**20
"""Bytes; a process that still holds more after a request ends."""

_log = get_logger(__name__)
_builtins = builtin_kinds()


def main() -> None:
    cpu_seconds = float(sys.argv[1])
    with suppress(ValueError):  # a system that does not limit addresses
        resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))
    env = SystemEnvironment()
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as server, server.makefile("rb") as file:
        while length := file.read(records.LENGTH_BYTES):
            outcome = carry_out(file.read(int.from_bytes(length)), env, cpu_seconds)
            answer = records.encode(outcome)
            server.sendall(len(answer).to_bytes(records.LENGTH_BYTES) + answer)
            if outcome.is_last:
                return


class TooLong(Exception):
    """The task has used all its CPU time."""


@contextmanager
def _limited(cpu_seconds: float) -> Iterator[None]:
    """Raises TooLong or MemoryError inside, between two steps of the interpreter."""
    end = _used_seconds() + cpu_seconds

    def check(*_: object) -> None:
        if _used_seconds() >= end:
            raise TooLong
        if _resident_bytes() > MAX_MEMORY:
            raise MemoryError

    signal.signal(signal.SIGPROF, check)
    try:
        signal.setitimer(signal.ITIMER_PROF, CHECK_SECONDS, CHECK_SECONDS)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def carry_out(message: bytes, env: Environment, cpu_seconds: float) -> Outcome:
    """The outcome of an encoded task, whatever happens."""
    outcome: Outcome | None
    try:
        with _limited(cpu_seconds):
            outcome = _run(records.decode_task(message), env)
    except TooLong:
        limit = f"{cpu_seconds:g} s of CPU time"
        outcome = _failed(504, "Timeout", f"the request takes more than {limit}")
    except MemoryError:
        outcome = None  # built below: here the exception still holds all that memory
    except Exception:  # noqa: BLE001 - our bug in one request must not end the process
        _log.exception("request failed")
        outcome = _failed(500, "InternalError", "Internal error occurred: the server failed")
    if outcome is None:
        outcome = _failed(413, "RequestEntityTooLarge", "the request takes too much memory")
    return records.as_last(outcome) if _resident_bytes() > MAX_IDLE_MEMORY else outcome


def _used_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident_bytes() -> int:
    """What the process holds now; 0 where the system does not say. The peak that ``getrusage``
    has would count the memory of the server, from which this process was forked."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _failed(code: int, reason: str, why: str) -> Outcome:
    response = errors.ApiError(code, reason, f"{why}; nothing was changed").response()
    return Outcome(response.status, dict(response.headers), response.body)


def _run(task: Task, env: Environment) -> Outcome:
    store = SnapshotPlane(task.plane, task.rows, task.mark)
    call = _context(task, store, env)
    try:
        with call.plane.writer.unhurried():
            if task.is_trial:
                return Outcome(trial=_trial(task, call), absent=tuple(store.absent))
            response = one_object.run(task.verb, call, Renderer(call, env.now))
    except errors.ApiError as error:
        response, store.write = error.response(), None
    written = b""
    if (write := store.write) is not None:
        written = with_entries(write.raw, write.managed if task.with_managed_fields else ())
    body = b"" if response.body == written else response.body
    headers = dict(response.headers)
    return Outcome(response.status, headers, body, store.write, absent=tuple(store.absent))


def _trial(task: Task, call: RequestContext) -> Trial:
    draft = writes.draft(task.verb, call)
    tried = writes.store(call, draft, dry_run=True)
    unchanged = draft.before is not None and tried.stored is draft.before
    return Trial(
        tried.raw, tried.unknown, draft.validation, draft.dry_run, unchanged, tried.managed
    )


def _context(task: Task, store: SnapshotPlane, env: Environment) -> RequestContext:
    plane_type = planes.plane_type(task.plane)
    assert plane_type is not None, "the server names one of its planes"
    # What the verbs of one object use of a store, and no more.
    plane = Plane(env, plane_type, cast("PlaneStore", store), _builtins)
    target = task.target
    definition = f"{target.plural}.{target.group}"
    for row in task.rows:
        if row.resource == builtin_rules.CRDS and row.stored.name == definition:
            plane.registry.define(row.stored.raw)
    kind = plane.registry.find(target.group, target.version, target.plural)
    assert kind is not None, "the server sends the definition of the kind"
    for row in task.rows:
        if row.is_validated:
            row.stored.validated_by = kind.schema
    request = HttpRequest(
        "",
        "",
        task.query,
        task.headers,
        task.body,
        with_managed_fields=task.with_managed_fields,
    )
    user = RequestUser("", ())
    usage = FlowControl().of(user)
    return RequestContext(request, dict(task.query), user, plane, kind, target, task.form, usage)


if __name__ == "__main__":
    main()
