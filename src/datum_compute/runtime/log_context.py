"""The fields every log line of a reconcile carries, however deep in the call it is written.

The controller sets them once per run and :class:`ContextFilter` adds them to each line. A
context variable travels with the task, so two reconciles never mix.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar, Token
from typing import Any

from datum_compute.log import fields_of
from datum_compute.runtime.request import Request

_current: ContextVar[tuple[str, Request, int] | None] = ContextVar("log_context", default=None)

Scope = Token[tuple[str, Request, int] | None]


def enter(controller: str, request: Request, number: int) -> Scope:
    """Start the context of one run of one key. Nothing is formatted yet."""
    return _current.set((controller, request, number))


def leave(scope: Scope) -> None:
    _current.reset(scope)


def fields() -> dict[str, Any]:
    """The fields of the running reconcile; empty outside of one."""
    current = _current.get()
    if current is None:
        return {}
    controller, request, number = current
    return {
        "controller": controller,
        "cluster": request.cluster,
        "namespace": request.namespace,
        "name": request.name,
        "reconcile_id": reconcile_id(controller, number),
    }


def reconcile_id(controller: str, number: int) -> str:
    return f"{controller}-{number}"


class ContextFilter(logging.Filter):
    """Adds the context to every line. A line's own field wins, except that the context's keys
    always name the reconcile: a line's other value of one of them becomes ``object_<key>``."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = fields()
        if context:
            own = fields_of(record)
            about = {key: value for key, value in own.items() if context.get(key, value) == value}
            others = {f"object_{key}": value for key, value in own.items() if key not in about}
            record.fields = {**context, **about, **others}
        return True
