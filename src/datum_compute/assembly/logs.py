"""The form of log lines: a constant message, then fields as ``key=value`` or as JSON.

Every line written in a reconcile carries its request
(:mod:`datum_compute.runtime.log_context`).
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal

from datum_compute.log import fields_of
from datum_compute.runtime.log_context import ContextFilter

LogFormat = Literal["text", "json"]


class TextFormatter(logging.Formatter):
    """One line for a person to read."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # logging's name
        line = super().formatMessage(record)
        pairs = [
            f"{key}={_value(value)}"
            for key, value in fields_of(record).items()
            if value not in ("", None)
        ]
        return " ".join([line, *pairs])


class JsonFormatter(logging.Formatter):
    """One object on one line for a machine to read."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        for key, value in fields_of(record).items():
            if value not in ("", None):
                line.setdefault(key, value)
        if record.exc_info and record.exc_info[0] is not None:
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _value(value: Any) -> str:
    """Bare if it is one plain word, quoted otherwise, so that a line can be parsed."""
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    plain = text.isprintable() and not set(text) & set(' "=')
    return text if text and plain else json.dumps(text, ensure_ascii=False)


def log_to_stderr(level: int = logging.INFO, form: LogFormat = "text") -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(ContextFilter())
    logging.basicConfig(level=level, handlers=[handler])
