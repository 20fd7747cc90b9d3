"""Authorization by role: what each user may do on which planes.

The assembly grants roles before the first request. A grant holds on one plane, or on every
plane of a type, and covers all namespaces, as with a ClusterRoleBinding. ``*`` for group and
resource means all of them. A grant is indexed when it is given, so that a request costs two
lookups.

Without a grant, members of ``system:masters`` may do everything. On the root plane everybody may
read health and version, and every authenticated user may read discovery and review its own
rights, as on a real server. On any other plane that needs a grant there: a user without one gets
the same answer to every request, whether or not the plane exists.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api.planes import ROOT, type_name
from datum_compute.apiserver.request.access import (
    AUTHENTICATED,
    MASTERS,
    Attributes,
    PolicyRule,
    RequestUser,
)

PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""Health and version: open to unauthenticated users of the root plane."""
DISCOVERY_PATHS = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
"""Open to every authenticated user."""
SELF_REVIEWS = (
    PolicyRule("authentication.k8s.io", "selfsubjectreviews", ("create",)),
    PolicyRule("authorization.k8s.io", "selfsubjectaccessreviews", ("create",)),
    PolicyRule("authorization.k8s.io", "selfsubjectrulesreviews", ("create",)),
)
"""Open to every authenticated user, about itself."""
EVERYTHING = PolicyRule("*", "*", ("*",))

_PUBLIC = frozenset(PUBLIC_PATHS)
_DISCOVERY = frozenset(path for path in DISCOVERY_PATHS if not path.endswith("*"))
_BELOW = tuple(path.removesuffix("*") for path in DISCOVERY_PATHS if path.endswith("*"))

_Right = tuple[str, str, str, str]
"""Verb, group, plural and subresource."""


class Roles:
    """The authorizer of a server."""

    def __init__(self) -> None:
        self._rights: dict[str, dict[str, frozenset[_Right]]] = {}
        self._rules: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}

    def grant(self, user: str, plane: str, rules: Iterable[PolicyRule]) -> None:
        """Give the user these rights on a plane, in place of earlier ones. ``plane`` names a plane,
        or a type of plane: then the grant holds on those the user has no grant for by name."""
        granted = self._rules[user, plane] = tuple(rules)
        self._rights.setdefault(user, {})[plane] = _rights(granted)

    def revoke(self, user: str, plane: str) -> None:
        """Take back what was granted on this plane by its name."""
        self._rules.pop((user, plane), None)
        self._rights.get(user, {}).pop(plane, None)

    def allows(self, user: RequestUser, attributes: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        planes = self._rights.get(user.name, _NO_PLANES)
        rights = planes.get(attributes.plane)
        if rights is None:
            rights = planes.get(type_name(attributes.plane))
        if rights is None:
            if attributes.plane != ROOT.name:
                return False
            rights = _NO_RIGHTS
        if attributes.path:
            return attributes.verb == "get" and _may_read(user, attributes)
        right = (
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
        )
        return (
            right in rights
            or (right in _SELF_REVIEWS and AUTHENTICATED in user.groups)
            or (right[0], "*", "*", "") in rights
        )

    def rules(self, user: RequestUser, plane: str) -> tuple[PolicyRule, ...]:
        if MASTERS in user.groups:
            return (EVERYTHING,)
        found = self._rules.get((user.name, plane))
        if found is None:
            found = self._rules.get((user.name, type_name(plane)), ())
        return (*found, *SELF_REVIEWS) if AUTHENTICATED in user.groups else found

    def paths(self, user: RequestUser) -> tuple[str, ...]:
        if MASTERS in user.groups:
            return ("*",)
        known = AUTHENTICATED in user.groups
        return (*PUBLIC_PATHS, *DISCOVERY_PATHS) if known else PUBLIC_PATHS


def _rights(rules: Iterable[PolicyRule]) -> frozenset[_Right]:
    return frozenset(
        (verb, rule.group, plural, subresource)
        for rule in rules
        for plural, _, subresource in (rule.resource.partition("/"),)
        for verb in rule.verbs
    )


_SELF_REVIEWS = _rights(SELF_REVIEWS)
_NO_RIGHTS: frozenset[_Right] = frozenset()
_NO_PLANES: dict[str, frozenset[_Right]] = {}


def is_open_to_members(user: RequestUser, attributes: Attributes) -> bool:
    """Whether every user with some right on a plane may do this there: read health, version and
    discovery, and review its own rights."""
    if attributes.path:
        return attributes.verb == "get" and _may_read(user, attributes)
    right = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
    return right in _SELF_REVIEWS and AUTHENTICATED in user.groups


def _may_read(user: RequestUser, attributes: Attributes) -> bool:
    path = attributes.path
    if AUTHENTICATED not in user.groups:
        return path in _PUBLIC and attributes.plane == ROOT.name
    return path in _PUBLIC or path in _DISCOVERY or path.startswith(_BELOW)
