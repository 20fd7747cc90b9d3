"""Authentication by bearer token, and the seam for authorization.

A token is stored as its hash only. The server asks an :class:`Authorizer` once per request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.storage.protocol import StoredUser

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
CONTROLLERS = "system:controllers"
"""The platform's own processes. The group gives no rights, only higher limits."""


class RequestUser(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...]


ANONYMOUS = RequestUser("system:anonymous", ("system:unauthenticated",))


class Attributes(msgspec.Struct, frozen=True, gc=False):
    """What is to be authorized: a verb on a resource, or on a non-resource path."""

    verb: str
    plane: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def on_resource(self) -> bool:
        return not self.path


class PolicyRule(msgspec.Struct, frozen=True):
    """Verbs on one resource, or on one subresource: ``instances`` or ``instances/status``."""

    group: str
    resource: str
    verbs: tuple[str, ...]


class Authorizer(Protocol):
    def allows(self, user: RequestUser, attributes: Attributes) -> bool: ...

    def rules(self, user: RequestUser, plane: str) -> tuple[PolicyRule, ...]:
        """All that the user may do with resources of the plane."""
        ...

    def paths(self, user: RequestUser) -> tuple[str, ...]:
        """The non-resource paths that the user may read; ``*`` ends a prefix."""
        ...


_IMPERSONATION = "impersonate-"
"""Headers that begin with it are refused: if they were ignored, the request would run with the
caller's own rights."""


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def authenticate(headers: Mapping[str, str], users: Mapping[bytes, StoredUser]) -> RequestUser:
    """The user whose token the request bears. Raises 401 for an unknown token, and 403 for a
    request in the name of another user."""
    user = _bearer(headers, users)
    for name, value in headers.items():
        if name.startswith(_IMPERSONATION):
            raise errors.no_impersonation(user.name, value)
    return user


def _bearer(headers: Mapping[str, str], users: Mapping[bytes, StoredUser]) -> RequestUser:
    header = headers.get("authorization")
    if header is None:
        return ANONYMOUS
    scheme, _, token = header.partition(" ")
    # Looked up by hash, so the time it takes reveals nothing about a stored token.
    row = users.get(token_hash(token.strip())) if scheme.lower() == "bearer" else None
    if row is None:
        raise errors.unauthorized()
    return RequestUser(row.name, (*row.groups, AUTHENTICATED))


def forbidden(user: RequestUser, attributes: Attributes) -> errors.ApiError:
    """The error for a request on a resource that the user is not allowed to make."""
    group, name = attributes.group, attributes.name
    what = f"{attributes.resource}.{group}" if group else attributes.resource
    if name:
        what = f'{what} "{name}"'
    details = {"name": name, "group": group, "kind": attributes.resource}
    message = f"{what} is forbidden: {_denial(user, attributes)}"
    given = {key: value for key, value in details.items() if value}
    return errors.ApiError(403, "Forbidden", message, given)


def _denial(user: RequestUser, attributes: Attributes) -> str:
    resource = attributes.resource
    if attributes.subresource:
        resource = f"{resource}/{attributes.subresource}"
    where = (
        f'in the namespace "{attributes.namespace}"'
        if attributes.namespace
        else "at the cluster scope"
    )
    return (
        f'User "{user.name}" cannot {attributes.verb} resource "{resource}"'
        f' in API group "{attributes.group}" {where}'
    )
