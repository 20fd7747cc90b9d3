"""One request to a resource, parsed once and read by every verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.apiserver import errors
from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.managed_fields.entries import MAX_MANAGER, manager_faults
from datum_compute.apiserver.objects.planes import Plane
from datum_compute.apiserver.request.accept import Form
from datum_compute.apiserver.request.access import RequestUser
from datum_compute.apiserver.request.flow_control import Usage
from datum_compute.apiserver.request.routes import ResourcePath
from datum_compute.apiserver.storage.protocol import StoredObject, Table
from datum_compute.client.transport import HttpRequest

_MAX_DIGITS = 18
"""Numbers of a query fit into 64 bits."""


GrantCheck = Callable[["RequestContext", dict[str, Any]], None]


class RequestContext(msgspec.Struct, frozen=True):
    """Built for every request, so a struct: it costs a tenth of a frozen dataclass."""

    request: HttpRequest
    query: dict[str, str]
    user: RequestUser
    plane: Plane
    kind: ServedKind
    target: ResourcePath
    form: Form
    usage: Usage
    """What the user holds of the server."""
    check_grant: GrantCheck | None = None
    """Raises where the user may not give the rights in a role or a binding."""

    @property
    def table(self) -> Table:
        return self.plane.store.table(self.kind.stored_as)

    @property
    def namespace(self) -> str | None:
        """Of the objects addressed; None for every namespace."""
        if not self.kind.resource.namespaced:
            return ""
        return self.target.namespace or None

    def existing(self) -> StoredObject:
        """The current state of the object the path names. Raises 404."""
        stored = self.current()
        if stored is None:
            name = self.target.name
            if name in (".", ".."):
                raise errors.bad_request(f"Name parameter invalid: \"{name}\": may not be '{name}'")
            raise errors.not_found(self.kind.resource, name)
        return stored

    def current(self) -> StoredObject | None:
        return self.table.get(self.target.namespace, self.target.name)

    def number(self, key: str, *, signed: bool = False) -> int | None:
        """A query parameter that is a whole number; one below 0 only where it is ``signed``, and
        then it is 0."""
        text = self.query.get(key, "")
        if not text:
            return None
        if signed and text[0] == "-" and text[1:].isdigit() and len(text) <= _MAX_DIGITS:
            return 0
        if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
            raise errors.bad_request(f'invalid value "{text}" for {key}: must be a whole number')
        return int(text)

    def flag(self, key: str) -> bool:
        return is_true(self.query, key)

    def dry_run(self, options: str) -> bool:
        """Whether nothing is to be stored. ``options`` is the options kind that an error names."""
        return is_dry_run([v for k, v in self.request.query if k == "dryRun"], options)

    def field_manager(self, options: str) -> str:
        """Who owns the fields that the request writes: its ``fieldManager``, else the program."""
        name = self.query.get("fieldManager", "")
        if not name:
            name = _program(self.request.headers.get("user-agent", ""))
        elif faults := manager_faults("fieldManager", name):
            raise errors.invalid(options, "meta.k8s.io", "", faults)
        return name or "unknown"

    def field_validation(self, options: str) -> str:
        """Strict, Warn or Ignore."""
        chosen = self.query.get("fieldValidation") or "Warn"
        if chosen not in ("Strict", "Warn", "Ignore"):
            error = fields.not_supported(
                "fieldValidation", chosen, ["", "Ignore", "Strict", "Warn"]
            )
            raise errors.invalid(options, "meta.k8s.io", "", [error])
        return chosen


def is_true(query: Mapping[str, str], key: str) -> bool:
    """A parameter that is a flag: given, and neither ``false`` nor ``0``, as upstream."""
    return key in query and query[key] != "0" and query[key].lower() != "false"


@lru_cache(256)
def _program(user_agent: str) -> str:
    """The first part of a User-Agent, as far as it is a name."""
    name = "".join(filter(str.isprintable, user_agent[:MAX_MANAGER].partition("/")[0]))
    return name.encode()[:MAX_MANAGER].decode(errors="ignore")


def is_dry_run(values: list[Any], options: str) -> bool:
    for value in values:
        if value != "All":
            error = fields.not_supported("dryRun", value, ["All"])
            raise errors.invalid(options, "meta.k8s.io", "", [error])
    return bool(values)
