"""What a log line is about, known to every line of a reconcile however deep it is written.

A controller says so once per run; whoever formats the lines adds it to what they carry
themselves. A context variable travels with the task, so two reconciles never mix.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any

from datum_compute.runtime.request import Request

_current: ContextVar[tuple[str, Request, int] | None] = ContextVar("log_context", default=None)

Scope = Token[tuple[str, Request, int] | None]


def enter(controller: str, request: Request, number: int) -> Scope:
    """From here on log lines are about this run of this key. Nothing is formatted yet."""
    return _current.set((controller, request, number))


def leave(scope: Scope) -> None:
    _current.reset(scope)


def fields() -> dict[str, Any]:
    """What the running reconcile is about; empty outside of one."""
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
    """Adds the context to every line; what a line says itself about a field wins, except that
    a reconcile is always told by its own key."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = fields()
        if context:
            said: Mapping[str, Any] = getattr(record, "fields", None) or {}
            about = {key: value for key, value in said.items() if context.get(key, value) == value}
            others = {f"object_{key}": value for key, value in said.items() if key not in about}
            record.fields = {**context, **about, **others}
        return True
