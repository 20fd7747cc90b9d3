"""What one call is about, and how it is called in messages.

Shared by the client and by the CLI's plain reader, so it imports nothing heavy.
"""

from __future__ import annotations

from typing import NamedTuple

from datum_compute.api.scheme import Resource
from datum_compute.client import errors


class ClientCall(NamedTuple):
    """A collection, or with a name one object. A tuple because every call makes one."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace, self.name, self.subresource)

    def describe(self, cluster: str) -> str:
        """``get workloads.compute.datumapis.com default/web on project/demo``."""
        key = f"{self.namespace}/{self.name}" if self.namespace and self.name else self.name
        if not key and self.namespace:
            key = f"in namespace {self.namespace}"
        kind = self.resource.group_resource
        if self.subresource:
            kind = f"{kind}/{self.subresource}"
        return " ".join(filter(None, (self.verb, kind, key, f"on {cluster}")))

    def check(self, *, named: bool) -> None:
        """Refuse what would silently address something else: an empty name is a collection,
        a slash another resource."""
        for what, value in (("name", self.name), ("namespace", self.namespace)):
            if value in (".", "..") or "/" in value or "%" in value:
                raise self._invalid(f"{what} {value!r} may not be '.' or '..', or have '/' or '%'")
        if named and not self.name:
            raise self._invalid("a name is required")
        if self.resource.namespaced and not self.namespace and (named or self.verb == "create"):
            raise self._invalid("a namespace is required")

    def _invalid(self, message: str) -> errors.Invalid:
        what = " ".join(filter(None, (self.verb, self.resource.group_resource, self.name)))
        return errors.Invalid(400, "BadRequest", f"{what}: {message}")
