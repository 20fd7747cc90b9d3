"""One call to an API server: what errors carry and messages name.

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
    cluster: str = ""

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace, self.name, self.subresource)

    def describe(self) -> str:
        """``get workloads.compute.datumapis.com default/web on project/demo``."""
        key = f"{self.namespace}/{self.name}" if self.namespace and self.name else self.name
        if not key and self.namespace:
            key = f"in namespace {self.namespace}"
        kind = self.resource.group_resource
        if self.subresource:
            kind = f"{kind}/{self.subresource}"
        where = f"on {self.cluster}" if self.cluster else ""
        return " ".join(filter(None, (self.verb, kind, key, where)))

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

    def _invalid(self, detail: str) -> errors.Invalid:
        return errors.Invalid(400, "BadRequest", detail, call=self)


class RawCall(NamedTuple):
    """A call of a path that is no object's or collection's."""

    verb: str
    path: str
    cluster: str = ""

    def describe(self) -> str:
        return f"{self.verb} {self.path}" + (f" on {self.cluster}" if self.cluster else "")


AnyCall = ClientCall | RawCall
