"""Whether a request may hold the event loop for long: decided by its size, never by a clock."""

from __future__ import annotations

from datum_compute.apiserver.codec import APPLY_PATCH, JSON_TYPE, MAX_VALUES, values_in
from datum_compute.apiserver.kinds import access_kinds, builtin_rules
from datum_compute.apiserver.kinds.builtin_kinds import builtin_kinds
from datum_compute.apiserver.request.body import content_type, is_json_object
from datum_compute.apiserver.request.context import RequestContext

SMALL_BYTES = 2 * MAX_VALUES
"""JSON of this size has no more values."""
MAX_FOREIGN_BYTES = 4096
"""Of what is in YAML or Protobuf, which take up to a thousand times as long as JSON."""

_WRITES = frozenset({"create", "update", "patch"})
_VERBS = _WRITES | {"get", "delete"}


def is_heavy(verb: str, call: RequestContext) -> bool:
    """Whether the request must not run on the loop."""
    return verb in _VERBS and _takes_long(verb, call) and _is_known(call)


def _is_known(call: RequestContext) -> bool:
    """Whether the worker process serves the kind: a server may have more that are built in, and
    it does not know what a user may grant."""
    return not call.kind.builtin or call.kind.resource in _BUILTINS


_BUILTINS = frozenset(
    kind.resource for kind in builtin_kinds() if kind.resource.group != access_kinds.RBAC
)


def _takes_long(verb: str, call: RequestContext) -> bool:
    body = call.request.body
    if verb in _WRITES and (
        call.kind.schema.is_costly or call.kind.stored_as == builtin_rules.CRDS
    ):
        return True
    stored = None
    # Reads of what is sent as it is cost nothing but their bytes.
    if call.target.name and not (verb == "get" and _is_sent_as_stored(call)):
        stored = call.table.get(call.target.namespace, call.target.name)
    size = len(body) + (stored.size if stored is not None else 0)
    if size <= MAX_FOREIGN_BYTES:
        return False
    if call.form.yaml or (len(body) > MAX_FOREIGN_BYTES and not _is_json(call)):
        return True
    if size <= SMALL_BYTES:
        return False
    held = values_in(body)
    if stored is not None:
        raw, managed = call.plane.store.content(stored)
        held += values_in(raw) + sum(each.fields.count(b":{") for each in managed)
    return held > MAX_VALUES


def _is_sent_as_stored(call: RequestContext) -> bool:
    if call.form.transform or call.form.yaml or call.target.subresource == "scale":
        return False
    if call.kind.builtin or not call.kind.schema.has_defaults:
        return True
    row = call.table.get(call.target.namespace, call.target.name)
    return row is None or not call.plane.writer.lacks_defaults(call.kind, row)


def _is_json(call: RequestContext) -> bool:
    kind = content_type(call.request.headers)
    if kind == APPLY_PATCH:  # YAML by name; clients send JSON
        return is_json_object(call.request.body)
    return kind == JSON_TYPE or kind.endswith("+json")
