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
9      declined at a prompt
13     not available on this platform
130    interrupted
=====  ==========================================================
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import TextIO

from datum_compute.client import errors as client


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    ROLLOUT_FAILED = 3
    TIMED_OUT = 4
    NOT_FOUND = 5
    CONFLICT = 6
    BLOCKED = 7
    DECLINED = 9
    UNAVAILABLE = 13
    INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command: what failed on what and why, and the next thing to try."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: Exit = Exit.FAILED,
        code: str = "Failed",
        hint: str = "",
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.code = code
        self.hint = hint
        self.retryable = retryable


def usage(message: str, hint: str = "") -> CommandError:
    return CommandError(message, exit_code=Exit.USAGE, code="Usage", hint=hint)


def not_found(what: str, name: str, project: str, hint: str) -> CommandError:
    return CommandError(
        f'{what} "{name}" not found in project {project}',
        exit_code=Exit.NOT_FOUND,
        code="NotFound",
        hint=hint,
    )


def from_client(failure: client.ClientError) -> CommandError:
    """What a failed call means to a person; never a raw status dump."""
    if isinstance(failure, client.TransportFailure):
        return CommandError(
            str(failure),
            code="Unreachable",
            hint="datumctl-compute local status",
            retryable=True,
        )
    if isinstance(failure, client.Unauthorized):
        return CommandError(f"the credential was refused: {failure}", code="Unauthorized")
    if isinstance(failure, client.Conflict):
        return CommandError(str(failure), exit_code=Exit.CONFLICT, code="Conflict", retryable=True)
    if isinstance(failure, client.NotFound):
        return CommandError(str(failure), exit_code=Exit.NOT_FOUND, code="NotFound")
    if isinstance(failure, client.NotServed):
        return CommandError(
            f"nothing is served there, neither compute nor maybe the project: {failure}",
            exit_code=Exit.UNAVAILABLE,
            code="NotServed",
            hint="check --project and --server",
        )
    if isinstance(failure, client.Invalid) and failure.causes:
        faults = "".join(f"\n  {c.field}: {c.message}" for c in failure.causes)
        return CommandError(f"the server refused the request:{faults}", code="Invalid")
    code = failure.reason if isinstance(failure, client.StatusError) else "Failed"
    return CommandError(str(failure), code=code or "Failed")


def render(error: CommandError, stream: TextIO, *, as_json: bool) -> None:
    if as_json:
        body = {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "retryable": error.retryable,
        }
        print(json.dumps({"error": body}, indent=2), file=stream)
        return
    print(f"Error: {error.message}", file=stream)
    if error.hint:
        print(f"Try:  {error.hint}", file=stream)
