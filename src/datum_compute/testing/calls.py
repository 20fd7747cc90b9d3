"""The calls to an API server: by which user, and which were denied.

A :class:`RecordingAuthorizer` wraps the authorizer of an embedded server, where every request
passes, in process and over HTTPS alike. It records each call once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from datum_compute.api.planes import type_name
from datum_compute.apiserver.request.access import (
    MASTERS,
    Attributes,
    Authorizer,
    PolicyRule,
    RequestUser,
)


@dataclass(frozen=True, order=True)
class RecordedCall:
    """A call of a user: the plane by its type, the resource with its subresource, or a non-resource
    path."""

    user: str
    plane: str
    group: str
    resource: str
    verb: str


@dataclass
class RecordingAuthorizer:
    """An authorizer that records what it decides on. Masters are not recorded: they are people.
    Nor are paths that every user may read, such as discovery."""

    inner: Authorizer
    permissive: bool = False
    """Allow every call, to record what processes would do."""
    calls: set[RecordedCall] = field(default_factory=set)
    denied: set[RecordedCall] = field(default_factory=set)

    def allows(self, user: RequestUser, attributes: Attributes) -> bool:
        allowed = self.inner.allows(user, attributes)
        if MASTERS in user.groups:
            return allowed
        resource = attributes.path or attributes.resource
        if attributes.subresource:
            resource = f"{resource}/{attributes.subresource}"
        plane = type_name(attributes.plane)
        call = RecordedCall(user.name, plane, attributes.group, resource, attributes.verb)
        if attributes.on_resource:
            self.calls.add(call)
        if not allowed:
            self.denied.add(call)
        return allowed or self.permissive

    def rules(self, user: RequestUser, plane: str) -> tuple[PolicyRule, ...]:
        return self.inner.rules(user, plane)

    def paths(self, user: RequestUser) -> tuple[str, ...]:
        return self.inner.paths(user)
