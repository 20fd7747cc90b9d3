"""What is asked of an API server, by whom, and what it refuses.

A :class:`CallRecord` stands before the authorizer of an embedded server, where every request
passes on its way, in process and over HTTPS alike. It notes each call once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from datum_compute.platform.apiserver.access import MASTERS, Attributes, Authorizer, Rule, User


@dataclass(frozen=True, order=True)
class Call:
    """One thing somebody does: the plane by its type, the resource with its subresource. A
    path that is no resource stands in its place."""

    user: str
    plane: str
    group: str
    resource: str
    verb: str


@dataclass
class CallRecord:
    """An authorizer that notes what it is asked. Masters are not noted: they are people. Nor is
    what everybody may read, such as discovery."""

    inner: Authorizer
    permissive: bool = False
    """Say yes to everybody: what would be done if nothing were forbidden?"""
    calls: set[Call] = field(default_factory=set)
    denied: set[Call] = field(default_factory=set)

    def allows(self, user: User, attributes: Attributes) -> bool:
        allowed = self.inner.allows(user, attributes)
        if MASTERS in user.groups:
            return allowed
        resource = attributes.path or attributes.resource
        if attributes.subresource:
            resource = f"{resource}/{attributes.subresource}"
        plane = attributes.plane.partition("/")[0]
        call = Call(user.name, plane, attributes.group, resource, attributes.verb)
        if attributes.on_resource:
            self.calls.add(call)
        if not allowed:
            self.denied.add(call)
        return allowed or self.permissive

    def rules(self, user: User, plane: str) -> tuple[Rule, ...]:
        return self.inner.rules(user, plane)

    def paths(self, user: User) -> tuple[str, ...]:
        return self.inner.paths(user)
