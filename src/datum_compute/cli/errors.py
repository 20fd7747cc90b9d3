"""What a command can fail with, and the exit code each failure has.

=====  ==========================================================
code   meaning
=====  ==========================================================
0      done
1      another failure
2      usage
3      the rollout failed for a terminal reason
4      timed out waiting
5      not found
6      conflict
7      blocked by quota or placement
8      superseded by another change while waiting
9      declined at a prompt
10     access was not requested
11     access was denied or revoked
12     access was requested and is not active yet
13     not available on this platform
130    interrupted
=====  ==========================================================
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TextIO

from datum_compute.cli.render.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datum_compute.cli.explain.suggestions import Invocation, Suggestion
    from datum_compute.client.errors import ClientError

PROGRAM = "datumctl-compute"


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    ROLLOUT_FAILED = 3
    TIMED_OUT = 4
    NOT_FOUND = 5
    CONFLICT = 6
    BLOCKED = 7
    SUPERSEDED = 8
    DECLINED = 9
    ACCESS_NOT_REQUESTED = 10
    ACCESS_DENIED = 11
    ACCESS_PENDING = 12
    UNAVAILABLE = 13
    INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command: what failed on what and why, and the next thing to try."""

    def __init__(
        self,
        message: str,
        *suggestions: Suggestion | None,
        exit_code: Exit = Exit.FAILED,
        code: str = "Failed",
        retryable: bool = False,
        pending: bool = False,
    ) -> None:
        """``pending``: nothing has failed, so the message is not marked as an error."""
        super().__init__(message)
        self.pending = pending
        self.message = message
        self.exit_code = exit_code
        self.code = code
        self.suggestions = tuple(each for each in suggestions if each is not None)
        self.retryable = retryable


def usage(message: str, *suggestions: Suggestion) -> CommandError:
    return CommandError(message, *suggestions, exit_code=Exit.USAGE, code="Usage")


def not_found(what: str, name: str, project: str, suggestion: Suggestion) -> CommandError:
    return CommandError(
        f'{what} "{name}" not found in project {project}',
        suggestion,
        exit_code=Exit.NOT_FOUND,
        code="NotFound",
    )


def unknown(
    what: str, value: str, known: Sequence[str], suggestion: Suggestion, where: str = ""
) -> CommandError:
    """The value of a flag that selects among what exists, and selects nothing."""
    return CommandError(
        f'{what} "{value}" not found{where}; available: {", ".join(known) or "none"}',
        suggestion,
        exit_code=Exit.NOT_FOUND,
        code="NotFound",
    )


def from_client(failure: ClientError) -> CommandError:
    """A failed call as an error for users; never a raw status dump."""
    from datum_compute.cli.explain import client_errors

    return client_errors.to_command_error(failure)


def render(
    error: CommandError, stream: TextIO, *, output: str | None, invocation: Invocation
) -> None:
    """In the format of ``-o``, where that is for programs."""
    hints = [invocation.render(each) for each in error.suggestions]
    if output in ("json", "yaml"):
        from datum_compute.cli.render.output import dump

        body = {
            "code": error.code,
            "message": error.message,
            "hint": ", or ".join(hints),
            "retryable": error.retryable,
        }
        print(dump(output, {"error": body}), file=stream)
        return
    message = error.message if error.pending else f"Error: {error.message}"
    print(printable(message), file=stream)
    if hints:
        print(printable("Try:  " + "\n      ".join(hints)), file=stream)
