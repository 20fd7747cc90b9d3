"""Built-in kinds of authentication and authorization.

A review is created, answered in the same response and never stored. A view reads the answer;
the request is written as plain JSON.
"""

from __future__ import annotations

import msgspec

from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource

__all__ = [
    "SELF_SUBJECT_ACCESS_REVIEWS",
    "SELF_SUBJECT_REVIEWS",
    "SUBJECT_ACCESS_REVIEWS",
    "SelfSubjectReview",
    "SelfSubjectReviewStatus",
    "SubjectAccessReview",
    "SubjectAccessReviewStatus",
    "UserInfo",
]

_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"

SUBJECT_ACCESS_REVIEWS = Resource(
    _AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    _AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_SUBJECT_REVIEWS = Resource(
    _AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)


class UserInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The user of a request, as the server authenticated it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
    """Further facts of the authenticator. Milo puts the project here, so a review on behalf of
    this user must carry it."""


class SubjectAccessReviewStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    allowed: bool = False
    denied: bool = False
    """An explicit denial; neither allowed nor denied means that no authorizer had an opinion."""
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether a user may do something; also the shape of a SelfSubjectAccessReview."""

    metadata: ObjectMeta = ObjectMeta()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SelfSubjectReviewStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    user_info: UserInfo = UserInfo()


class SelfSubjectReview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The user that the server sees behind a request."""

    metadata: ObjectMeta = ObjectMeta()
    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()
