"""Rights by role: what each user may do on which planes.

Whoever assembles the server grants roles before anybody asks. A grant holds on one plane, or
on every plane of a type, and covers all namespaces, as a ClusterRole does that is bound for
the whole cluster. ``*`` for group and resource means all of them. A grant is taken apart when
it is made, so that a request costs two lookups.

Some things need no grant. Members of ``system:masters`` may do everything, and every user
whose token is known may look at what is served and ask about itself, as on a real server.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api.planes import type_name
from datum_compute.apiserver.request.access import (
    AUTHENTICATED,
    MASTERS,
    Attributes,
    PolicyRule,
    RequestUser,
)

PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""Whether it is alive, and what it is: anybody may ask."""
DISCOVERY_PATHS = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
"""What is served: every user may ask."""
QUESTIONS = (
    PolicyRule("authentication.k8s.io", "selfsubjectreviews", ("create",)),
    PolicyRule("authorization.k8s.io", "selfsubjectaccessreviews", ("create",)),
    PolicyRule("authorization.k8s.io", "selfsubjectrulesreviews", ("create",)),
)
"""What every user may ask about itself."""
EVERYTHING = PolicyRule("*", "*", ("*",))

_PUBLIC = frozenset(PUBLIC_PATHS)
_DISCOVERY = frozenset(path for path in DISCOVERY_PATHS if not path.endswith("*"))
_BELOW = tuple(path.removesuffix("*") for path in DISCOVERY_PATHS if path.endswith("*"))

_Right = tuple[str, str, str, str]
"""Verb, group, plural and subresource."""


class Roles:
    """The authorizer of a server; without a grant, all is the masters'."""

    def __init__(self) -> None:
        self._rights: dict[str, dict[str, frozenset[_Right]]] = {}
        self._rules: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}

    def grant(self, user: str, plane: str, rules: Iterable[PolicyRule]) -> None:
        """From now on the user has these rights there, instead of any before. ``plane`` is
        the name of one, or a type: then it means those not named to this user by name."""
        kept = self._rules[user, plane] = tuple(rules)
        self._rights.setdefault(user, {})[plane] = _rights(kept)

    def allows(self, user: RequestUser, attributes: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        if attributes.path:
            return attributes.verb == "get" and _may_look(user, attributes.path)
        asked = (
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
        )
        planes = self._rights.get(user.name, _NOWHERE)
        rights = planes.get(attributes.plane)
        if rights is None:
            rights = planes.get(type_name(attributes.plane), _NOTHING)
        return (
            asked in rights
            or (asked in _QUESTIONS and AUTHENTICATED in user.groups)
            or (asked[0], "*", "*", "") in rights
        )

    def rules(self, user: RequestUser, plane: str) -> tuple[PolicyRule, ...]:
        if MASTERS in user.groups:
            return (EVERYTHING,)
        found = self._rules.get((user.name, plane))
        if found is None:
            found = self._rules.get((user.name, type_name(plane)), ())
        return (*found, *QUESTIONS) if AUTHENTICATED in user.groups else found

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


_QUESTIONS = _rights(QUESTIONS)
_NOTHING: frozenset[_Right] = frozenset()
_NOWHERE: dict[str, frozenset[_Right]] = {}


def _may_look(user: RequestUser, path: str) -> bool:
    if path in _PUBLIC:
        return True
    return AUTHENTICATED in user.groups and (path in _DISCOVERY or path.startswith(_BELOW))
