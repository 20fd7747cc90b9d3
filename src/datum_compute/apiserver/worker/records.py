"""What passes between the server and its worker process, as MessagePack."""

from __future__ import annotations

import msgspec

from datum_compute.apiserver.request.accept import Form
from datum_compute.apiserver.request.routes import ResourcePath
from datum_compute.apiserver.storage.protocol import Managed, ObjectKey, StoredObject


class SentRow(msgspec.Struct, frozen=True):
    """A stored object that the request depends on."""

    resource: str
    stored: StoredObject
    is_validated: bool = False
    """By the schema of the request's kind."""


class Task(msgspec.Struct, frozen=True):
    """A request about one object, already authorized."""

    verb: str
    plane: str
    target: ResourcePath
    form: Form
    query: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: bytes
    rows: tuple[SentRow, ...]
    mark: str
    """Stands for the revision of what is written, until the server knows it."""
    with_managed_fields: bool = True
    is_trial: bool = False
    """Store nothing: the write goes to admission next."""


class PendingWrite(msgspec.Struct, frozen=True):
    """What the request stores."""

    raw: bytes
    managed: Managed = ()
    is_removal: bool = False
    is_validated: bool = False


class Trial(msgspec.Struct, frozen=True):
    """A write that admission has yet to see."""

    raw: bytes
    unknown: tuple[str, ...]
    validation: str
    is_dry_run: bool
    is_unchanged: bool
    managed: Managed = ()


class Outcome(msgspec.Struct, frozen=True):
    """The response, and what is to be stored before it is sent."""

    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""
    """Empty where it is what was written, with its managed fields if they are wanted."""
    write: PendingWrite | None = None
    trial: Trial | None = None
    absent: tuple[ObjectKey, ...] = ()
    """Objects that were looked up and not among the task's rows."""
    is_last: bool = False
    """The process ends now: it has grown too large."""


encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(Task).decode
decode_outcome = msgspec.msgpack.Decoder(Outcome).decode

LENGTH_BYTES = 8
"""Before each message: its length."""


def as_last(outcome: Outcome) -> Outcome:
    return msgspec.structs.replace(outcome, is_last=True)
