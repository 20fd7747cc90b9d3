"""Conditions: what a controller reports about an object, and since when.

A list of conditions is a map keyed by type. It travels as a tuple in the order in which
the types were first written, so that writing the same thing twice gives an equal tuple
and hence no write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from datum_compute.api.name_patterns import DNS_SUBDOMAIN, QUALIFIED_NAME
from datum_compute.api.structural_schema import described

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The transition time of a schema default: no controller has reported yet."""


_TYPE = f"^({DNS_SUBDOMAIN}/)?({QUALIFIED_NAME})$"
_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    type: Annotated[
        str,
        described(
            "Type of the condition, in CamelCase.",
            required=True,
            maxLength=316,
            pattern=_TYPE,
        ),
    ]
    status: Annotated[
        str,
        described("Whether it holds.", required=True, enum=["True", "False", "Unknown"]),
    ] = UNKNOWN
    reason: Annotated[
        str,
        described(
            "Machine-readable cause of the last transition.",
            required=True,
            minLength=1,
            maxLength=1024,
            pattern=_REASON,
        ),
    ] = ""
    message: Annotated[
        str,
        described(
            "The cause for people; may be empty.",
            required=True,
            maxLength=32768,
        ),
    ] = ""
    last_transition_time: Annotated[
        datetime, described("When the status last changed.", required=True)
    ] = EPOCH
    observed_generation: (
        Annotated[
            int,
            described(
                "The generation of the object this was decided on.",
                format="int64",
                minimum=0,
            ),
        ]
        | None
    ) = None


Conditions = tuple[Condition, ...]


class ConditionState(NamedTuple):
    """What a condition is to report, before its time is known."""

    status: str
    reason: str
    message: str

    @staticmethod
    def of(condition: Condition) -> ConditionState:
        return ConditionState(condition.status, condition.reason, condition.message)


class _Status(msgspec.Struct):
    conditions: Conditions = ()


def of_status(status: msgspec.Raw) -> Conditions:
    """Those of a raw status; empty without a status, and for one that cannot be read."""
    if not status or bytes(status) == b"null":
        return ()
    try:
        return msgspec.json.decode(status, type=_Status).conditions
    except msgspec.DecodeError:
        return ()


def is_accepted(type: str, status: str, reason: str) -> bool:
    """Whether a server accepts a condition with these texts."""
    texts = (re.match(_TYPE, type), re.match(_REASON, reason), status in (TRUE, FALSE, UNKNOWN))
    return all(texts) and len(type) <= 316 and len(reason) <= 1024


def find(conditions: Iterable[Condition], type: str) -> Condition | None:
    """The condition of this type, if the object has it."""
    for condition in conditions:  # a loop: called a million times in a busy minute
        if condition.type == type:
            return condition
    return None


def is_true(conditions: Iterable[Condition], type: str) -> bool:
    """Whether it is there and True; absent, False and Unknown are all no."""
    condition = find(conditions, type)
    return condition is not None and condition.status == TRUE


def with_condition(
    conditions: Iterable[Condition],
    type: str,
    status: str,
    reason: str,
    message: str,
    *,
    now: datetime,
    observed_generation: int | None = None,
) -> Conditions:
    """The conditions with this one in place of its predecessor, if any.

    The transition time stays while the status stays, whatever happens to reason and
    message. Times are whole seconds, as the wire has them.
    """
    previous = find(conditions, type)
    since = now.replace(microsecond=0)
    if previous is not None and previous.status == status:
        since = previous.last_transition_time
    return merged(
        conditions,
        Condition(
            type=type,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=since,
            observed_generation=observed_generation,
        ),
    )


def merged(conditions: Iterable[Condition], *newer: Condition) -> Conditions:
    """The conditions with each of ``newer`` verbatim in the place of its type."""
    result = {condition.type: condition for condition in conditions}
    result |= {condition.type: condition for condition in newer}
    return tuple(result.values())


def without(conditions: Iterable[Condition], *types: str) -> Conditions:
    return tuple(condition for condition in conditions if condition.type not in types)


def to_wire(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """JSON values for a status write. Message is present even when empty: it is required."""
    return [_one_to_wire(condition) for condition in conditions]


def _one_to_wire(condition: Condition) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": wire_time(condition.last_transition_time),
    }
    if condition.observed_generation is not None:
        wire["observedGeneration"] = condition.observed_generation
    return wire


def wire_time(moment: datetime) -> str:
    """RFC 3339 in UTC and whole seconds, as Kubernetes writes times."""
    # Several times as fast as strftime, and every condition of every report needs one.
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
