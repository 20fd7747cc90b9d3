"""How log lines look: a constant message, then what varies as ``key=value``."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any


class TextFormatter(logging.Formatter):
    """One line for a person to read."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # logging's name
        line = super().formatMessage(record)
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        pairs = [
            f"{key}={_value(value)}" for key, value in fields.items() if value not in ("", None)
        ]
        return " ".join([line, *pairs])


def _value(value: Any) -> str:
    """Bare where it is one plain word, quoted otherwise, so that a line can be taken apart."""
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    plain = text.isprintable() and not set(text) & set(' "=')
    return text if text and plain else json.dumps(text, ensure_ascii=False)


def log_to_stderr(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter())
    logging.basicConfig(level=level, handlers=[handler])
