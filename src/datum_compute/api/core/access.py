"""Built-in kinds that say who somebody is and what they may do.

The reviews are questions: they are created, answered in the same reply, and never stored.
A view reads the answer; the question is written as plain JSON.
"""

from __future__ import annotations

import msgspec

from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource

__all__ = [
    "CLUSTER_ROLES",
    "CLUSTER_ROLE_BINDINGS",
    "ROLES",
    "ROLE_BINDINGS",
    "SELF_SUBJECT_ACCESS_REVIEWS",
    "SELF_SUBJECT_REVIEWS",
    "SUBJECT_ACCESS_REVIEWS",
    "TOKEN_REVIEWS",
    "SelfSubjectReview",
    "SelfSubjectReviewStatus",
    "SubjectAccessReview",
    "SubjectAccessReviewStatus",
    "TokenReview",
    "TokenReviewStatus",
    "UserInfo",
]

_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_RBAC = "rbac.authorization.k8s.io"

SUBJECT_ACCESS_REVIEWS = Resource(
    _AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    _AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_SUBJECT_REVIEWS = Resource(
    _AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
TOKEN_REVIEWS = Resource(_AUTHENTICATION, "v1", "tokenreviews", "TokenReview", namespaced=False)
ROLES = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    _RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


class UserInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who a request comes from, as the server has found."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
    """What else the authenticator knows. Milo names the project here, so a review made on
    behalf of this user must carry it on."""


class SubjectAccessReviewStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    allowed: bool = False
    denied: bool = False
    """A plain no; without it and without allowed, nobody had an opinion."""
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """May somebody do something? Also the answer to the question about oneself."""

    metadata: ObjectMeta = ObjectMeta()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SelfSubjectReviewStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    user_info: UserInfo = UserInfo()


class SelfSubjectReview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who am I?"""

    metadata: ObjectMeta = ObjectMeta()
    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()


class TokenReviewStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""


class TokenReview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whose token is this?"""

    metadata: ObjectMeta = ObjectMeta()
    status: TokenReviewStatus = TokenReviewStatus()
