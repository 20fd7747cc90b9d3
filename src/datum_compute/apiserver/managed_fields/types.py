"""How the fields of a kind are merged and owned, from its schema.

A custom resource says it with ``x-kubernetes-list-type``, ``x-kubernetes-list-map-keys`` and
``x-kubernetes-map-type``. The built-in kinds are listed here, as upstream has them: there all
lists are owned as one, and all objects field by field, but for the places that are named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.schema import Schema

JsonSchema = Mapping[str, Any]


class FieldType:
    """One place in an object. It answers for values of any type; the schema has checked that
    they are of the right one, or will."""

    __slots__ = (
        "defaults",
        "element",
        "fields",
        "is_atomic",
        "is_open",
        "item",
        "keys",
        "leaves",
        "merges",
    )

    def __init__(
        self,
        fields: Mapping[str, FieldType] | None = None,
        element: FieldType | None = None,
        *,
        is_open: bool = False,
        is_atomic: bool = False,
        merges: bool = False,
        item: FieldType | None = None,
        keys: tuple[str, ...] = (),
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.fields = {name: (f"f:{name}", each) for name, each in (fields or {}).items()}
        """Those that have a name in the schema, with their labels."""
        self.leaves = {name: label for name, (label, each) in self.fields.items() if each.is_leaf}
        """The labels of those with nothing below them."""
        self.element = element
        """Of other fields; None where there are no others."""
        self.is_open = is_open
        """Whether other fields count as named: a built-in's schema names not all of them."""
        self.is_atomic = is_atomic
        """Whether an object is owned as one."""
        self.merges = merges
        """Whether a list is owned item by item."""
        self.item = item
        self.keys = keys
        """The fields that tell the items of a list apart; none for a list of scalars."""
        self.defaults = defaults or {}
        """Of the keys."""

    @property
    def is_leaf(self) -> bool:
        return self.element is None and not (self.fields or self.merges or self.is_atomic)

    def child(self, name: str) -> tuple[str, FieldType, bool] | None:
        """The label and type of a field, and whether it is a named one; None if unknown."""
        found = self.fields.get(name)
        if found is not None:
            return (*found, True)
        if self.element is None:
            return None
        return f"f:{name}", self.element, self.is_open


SCALAR = FieldType()
DEDUCED = FieldType()
"""Content without a schema: objects field by field, lists as one."""
DEDUCED.element = DEDUCED
ATOMIC = FieldType(is_atomic=True)
_TEXTS = FieldType(element=SCALAR)
_SET = FieldType(merges=True, item=SCALAR)

OBJECT_META = FieldType(
    {
        "annotations": _TEXTS,
        "deletionGracePeriodSeconds": SCALAR,
        "deletionTimestamp": SCALAR,
        "finalizers": _SET,
        "generateName": SCALAR,
        "labels": _TEXTS,
        "ownerReferences": FieldType(merges=True, item=ATOMIC, keys=("uid",)),
    }
)
"""What identifies an object and what the server sets is not owned, so it is not here."""


_EMBEDDED_META = FieldType(
    {
        **{name: type_ for name, (_, type_) in OBJECT_META.fields.items()},
        **dict.fromkeys(("creationTimestamp", "generation", "name", "namespace"), SCALAR),
        **dict.fromkeys(("resourceVersion", "selfLink", "uid"), SCALAR),
    }
)
"""Of an object in another one all of it is owned."""


_STRUCT = FieldType(is_open=True)
_STRUCT.element = _STRUCT


def _listed(*keys: str, **fields: FieldType) -> FieldType:
    """A list of objects, by their keys."""
    return FieldType(merges=True, item=_struct(**fields), keys=keys)


def _struct(**fields: FieldType) -> FieldType:
    return FieldType(fields, _STRUCT, is_open=True)


def _kind(**fields: FieldType) -> FieldType:
    return _struct(metadata=OBJECT_META, **fields)


_CONDITIONS = _struct(conditions=_listed("type"))
_WEBHOOKS = _kind(
    webhooks=_listed(
        "name",
        matchConditions=_listed("name"),
        namespaceSelector=ATOMIC,
        objectSelector=ATOMIC,
    )
)
_BINDING = _kind(roleRef=ATOMIC)
_BUILTINS = {
    "configmaps": _kind(data=_TEXTS, binaryData=_TEXTS),
    "secrets": _kind(data=_TEXTS, stringData=_TEXTS),
    "serviceaccounts": _kind(secrets=FieldType(merges=True, item=ATOMIC, keys=("name",))),
    "namespaces": _kind(status=_CONDITIONS),
    "events": _kind(involvedObject=ATOMIC, related=ATOMIC),
    "customresourcedefinitions.apiextensions.k8s.io": _kind(status=_CONDITIONS),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
}
_ANY_BUILTIN = _kind()

_EMPTY: dict[str, Any] = {"metadata": {}}
_EMPTY_BUILTINS: dict[str, dict[str, Any]] = {
    "namespaces": {"metadata": {}, "spec": {}, "status": {}},
    "leases.coordination.k8s.io": {"metadata": {}, "spec": {}},
    "events": {"metadata": {}, "involvedObject": {}, "source": {}},
    "customresourcedefinitions.apiextensions.k8s.io": {
        "metadata": {},
        "spec": {"names": {}},
        "status": {"acceptedNames": {}},
    },
}
"""What a new object of the kind has before anything is written: parts that are always there are
not owned by the writer that fills them."""


def empty_object(kind: ServedKind) -> dict[str, Any]:
    if not kind.builtin:
        return _EMPTY
    return _EMPTY_BUILTINS.get(kind.stored_as, _EMPTY)


_types: WeakKeyDictionary[Schema, FieldType] = WeakKeyDictionary()


def type_of(kind: ServedKind) -> FieldType:
    """The type of the kind's objects."""
    if kind.builtin:
        return _BUILTINS.get(kind.stored_as, _ANY_BUILTIN)
    found = _types.get(kind.schema)
    if found is None:
        root = _from_schema(kind.schema.source)
        root.fields["metadata"] = ("f:metadata", OBJECT_META)
        root.leaves.pop("metadata", None)
        found = _types[kind.schema] = root
    return found


def _from_schema(schema: JsonSchema) -> FieldType:
    if schema.get("x-kubernetes-int-or-string"):
        return SCALAR
    fields = {name: _from_schema(child) for name, child in schema.get("properties", {}).items()}
    if schema.get("x-kubernetes-embedded-resource"):
        fields = {"apiVersion": SCALAR, "kind": SCALAR, **fields, "metadata": _EMBEDDED_META}
    element = None
    if additional := schema.get("additionalProperties"):
        element = DEDUCED if additional is True else _from_schema(additional)
    elif schema.get("x-kubernetes-preserve-unknown-fields"):
        element = DEDUCED
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
    list_type = schema.get("x-kubernetes-list-type")
    items = schema.get("items")
    if list_type in ("set", "map") and isinstance(items, dict):
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else ()
        given = {key: items.get("properties", {}).get(key, {}).get("default") for key in keys}
        return FieldType(
            merges=True,
            item=_from_schema(items),
            keys=keys,
            defaults={key: value for key, value in given.items() if value is not None},
        )
    if not fields and element is None and not is_atomic:
        return SCALAR
    if not fields and element is DEDUCED and not is_atomic:
        return DEDUCED
    return FieldType(fields, element, is_atomic=is_atomic)
