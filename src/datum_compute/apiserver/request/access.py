"""Users, authentication by bearer token, and the seam for authorization.

A token of a user is stored as its hash only; :mod:`.tokens` has those of service accounts. The
server asks an :class:`Authorizer` once per request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.storage.protocol import StoredUser

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
CONTROLLERS = "system:controllers"
"""The platform's own processes. The group gives no rights, only higher limits."""


class RequestUser(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """As reviews show it."""
        wire: dict[str, Any] = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            wire["uid"] = self.uid
        if self.extra:
            wire["extra"] = {key: list(values) for key, values in self.extra}
        return wire


ANONYMOUS = RequestUser("system:anonymous", (UNAUTHENTICATED,))

_ACCOUNT = "system:serviceaccount:"


def service_account_name(namespace: str, name: str) -> str:
    return f"{_ACCOUNT}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


def split_service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account; None for the name of another user."""
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    is_account = user.startswith(_ACCOUNT) and namespace and name and ":" not in name
    return (namespace, name) if is_account else None


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


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


TokenUser = Callable[[str], RequestUser | None]
"""The user of a token."""


def authenticate(headers: Mapping[str, str], user_of: TokenUser) -> RequestUser:
    """The user whose token the request bears. Raises 401 for an unknown token."""
    header = headers.get("authorization")
    if header is None:
        return ANONYMOUS
    scheme, _, token = header.partition(" ")
    user = user_of(token.strip()) if scheme.lower() == "bearer" else None
    if user is None:
        raise errors.unauthorized()
    return user


class StoredUsers:
    """The users that a store has. Those who ask are remembered by their token."""

    def __init__(self) -> None:
        self._rows: Mapping[bytes, StoredUser] = {}
        self._known: dict[str, RequestUser] = {}

    def find(self, token: str, rows: Mapping[bytes, StoredUser]) -> RequestUser | None:
        """The user of a token among ``rows``, which are others after any change."""
        if rows is not self._rows:
            self._rows, self._known = rows, {}
        user = self._known.get(token)
        if user is None:
            # Looked up by hash, so the time it takes reveals nothing about a stored token.
            row = rows.get(token_hash(token))
            if row is not None:
                user = RequestUser(row.name, (*row.groups, AUTHENTICATED))
                self._known[token] = user  # as many as there are users
        return user


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
