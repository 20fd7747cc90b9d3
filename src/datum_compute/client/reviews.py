"""Questions to a server about rights: who am I, and may I (or may they).

A review is created and its answer read from what comes back; nothing is stored. It needs no
more of a client than ``create``.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client

SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)


class ReviewedUser(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class ResourceAttributes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody would do: a verb on a resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @classmethod
    def on(
        cls,
        verb: str,
        resource: Resource,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> ResourceAttributes:
        return cls(
            verb=verb,
            group=resource.group,
            resource=resource.plural,
            subresource=subresource,
            namespace=namespace,
            name=name,
        )


class _Identity(msgspec.Struct):
    user_info: ReviewedUser = msgspec.field(name="userInfo")


class _Verdict(msgspec.Struct):
    allowed: bool


async def who_am_i(client: Client) -> ReviewedUser:
    answer = await client.create(SELF_SUBJECT_REVIEWS, {})
    return _status(client, answer, _Identity).user_info


async def may_i(client: Client, asked: ResourceAttributes) -> bool:
    body = {"spec": {"resourceAttributes": msgspec.to_builtins(asked)}}
    answer = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, body)
    return _status(client, answer, _Verdict).allowed


async def may_they(client: Client, user: ReviewedUser, asked: ResourceAttributes) -> bool:
    """Needs the right to ask about others."""
    spec: dict[str, Any] = {
        "user": user.username,
        "groups": list(user.groups),
        "resourceAttributes": msgspec.to_builtins(asked),
    }
    answer = await client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
    return _status(client, answer, _Verdict).allowed


S = TypeVar("S")


def _status(client: Client, answer: Object, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(answer.status, type=kind)
    except msgspec.DecodeError as error:
        raise errors.Malformed(
            f"create {answer.kind} on {client.cluster}: no answer in its status: {error}"
        ) from error
