"""The one way the product writes a log line: a constant message, and what varies as fields.

``log = get_logger(__name__)``, then ``log.info("certificate reloaded", server="webhook")``.
The fields travel as ``record.fields``, the only attribute the formatters read; every other key
of logging's ``extra`` would be dropped silently, so no other module passes one. The module is in
the lowest layer because the client and the API server log too.
"""

from __future__ import annotations

import logging
from typing import Any

Cause = BaseException | bool | None


class Logger:
    """A logger of the standard library that takes fields as keywords.

    Messages are never interpolated. ``exc_info`` is no field: it adds the stack trace.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def is_enabled_for(self, level: int) -> bool:
        return self._logger.isEnabledFor(level)

    def debug(self, message: str, /, **fields: Any) -> None:
        self._logger.debug(message, extra={"fields": fields}, stacklevel=2)

    def info(self, message: str, /, **fields: Any) -> None:
        self._logger.info(message, extra={"fields": fields}, stacklevel=2)

    def warning(self, message: str, /, **fields: Any) -> None:
        self._logger.warning(message, extra={"fields": fields}, stacklevel=2)

    def error(self, message: str, /, *, exc_info: Cause = None, **fields: Any) -> None:
        self._logger.error(message, exc_info=exc_info, extra={"fields": fields}, stacklevel=2)

    def exception(self, message: str, /, **fields: Any) -> None:
        """An error with the stack trace of the exception being handled."""
        self._logger.error(message, exc_info=True, extra={"fields": fields}, stacklevel=2)

    def log(self, level: int, message: str, /, *, exc_info: Cause = None, **fields: Any) -> None:
        self._logger.log(level, message, exc_info=exc_info, extra={"fields": fields}, stacklevel=2)


def get_logger(name: str) -> Logger:
    return Logger(name)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a line; empty for lines of other libraries."""
    return getattr(record, "fields", None) or {}
