"""Who asks, and whether they may.

A bearer token is known by its hash only. Authorization is a seam: the server asks an
:class:`Authorizer` once per request and handles nothing without its yes.
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


class RequestUser(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...]


ANONYMOUS = RequestUser("system:anonymous", ("system:unauthenticated",))


class Attributes(msgspec.Struct, frozen=True, gc=False):
    """What is about to be done: to a resource, or to a path that is none."""

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
        """All that is allowed to the user on resources there."""
        ...

    def paths(self, user: RequestUser) -> tuple[str, ...]:
        """The paths, other than of resources, that the user may read; ``*`` ends a prefix."""
        ...


_AS_SOMEBODY_ELSE = ("impersonate-user", "impersonate-group", "impersonate-uid")
"""Refused, since to leave them unread would be to act with the rights of the caller."""


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def authenticate(headers: Mapping[str, str], users: Mapping[bytes, StoredUser]) -> RequestUser:
    """The user whose token the request bears. Raises 401 for a token nobody has."""
    header = headers.get("authorization")
    if header is None:
        return ANONYMOUS
    scheme, _, token = header.partition(" ")
    # Looked up by hash, so how long it takes tells nothing about any stored token.
    row = users.get(token_hash(token.strip())) if scheme.lower() == "bearer" else None
    if row is None:
        raise errors.unauthorized()
    for name in _AS_SOMEBODY_ELSE:
        if name in headers:
            raise errors.no_impersonation(row.name, headers[name])
    return RequestUser(row.name, (*row.groups, AUTHENTICATED))


def denial(user: RequestUser, attributes: Attributes) -> str:
    """Why not, in the words ``kubectl`` users know."""
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
