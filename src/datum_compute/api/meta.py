"""Objects as they travel: typed metadata around content that stays raw.

An :class:`Object` is decoded from the bytes of one API object. Metadata is typed because
every layer reads it; spec, status and data stay the bytes the server sent, so a copy made
by us keeps unknown fields. A typed view of the content is decoded on
demand with :meth:`Object.view`, remembered, and read-only.

Content that is not what its kind says is treated by whose it is. A status that cannot be read
counts as none: its writer reports again. A spec that cannot be read is :class:`Unreadable`:
defaults in its place would be orders that no one gave.

``metadata.managedFields`` is dropped on decoding: no code reads it, and it would
double what a cache holds. Whatever a kind keeps beside spec, status and data, as Secrets,
Events and Roles do, stays raw in ``extra`` under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

EMPTY = msgspec.Raw()
"""An absent subtree. It is falsy, unlike a subtree that is present and empty."""

NOTHING: Mapping[str, msgspec.Raw] = MappingProxyType({})


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def deleting(self) -> bool:
        return self.deletion_timestamp is not None

    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


T = TypeVar("T")
V = TypeVar("V")


_NO_METADATA = ObjectMeta()


class Fields(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True, gc=False):
    """What most objects consist of, so that one pass over the bytes reads it all: the
    ``managedFields`` of a real server are longer than the rest. An object that has other fields
    does not decode as this, and takes two passes."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = _NO_METADATA
    spec: msgspec.Raw = EMPTY
    status: msgspec.Raw = EMPTY
    data: msgspec.Raw = EMPTY


class _WireList(msgspec.Struct, kw_only=True, rename="camel"):
    items: list[dict[str, msgspec.Raw]] = []
    metadata: ListMeta = msgspec.field(default_factory=lambda: ListMeta())
    api_version: str = ""
    kind: str = ""


class ListMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


_NO_PROBLEMS: Mapping[str, str] = MappingProxyType({})


class Unreadable(msgspec.ValidationError):
    """The content of an object is not what its kind says."""

    def __init__(self, obj: Object, problem: str) -> None:
        super().__init__(f"{obj.kind} {obj.key} cannot be read: {problem}")
        self.problem = problem
        """The subtree, what was found there, and what is allowed."""


class Object:
    """One API object. Treat it as immutable: caches give the same one to all readers."""

    __slots__ = (
        "_view",
        "api_version",
        "data",
        "extra",
        "kind",
        "metadata",
        "name",
        "namespace",
        "on_unreadable",
        "problems",
        "spec",
        "status",
    )

    def __init__(
        self,
        api_version: str,
        kind: str,
        metadata: ObjectMeta,
        spec: msgspec.Raw = EMPTY,
        status: msgspec.Raw = EMPTY,
        data: msgspec.Raw = EMPTY,
        extra: Mapping[str, msgspec.Raw] = NOTHING,
    ) -> None:
        self.api_version = api_version
        self.kind = kind
        self.metadata = metadata
        # Read far more often than set, so not properties.
        self.name = metadata.name
        self.namespace = metadata.namespace
        self.spec = spec
        self.status = status
        self.data = data
        self.extra = extra
        self._view: Any = None  # whichever view was decoded last
        self.problems: Mapping[str, str] = _NO_PROBLEMS
        """What could not be read by the last view, by part; empty where all could."""
        self.on_unreadable: Callable[[Object, type], None] | None = None
        """Called after a view with a ``problem``; for the cache that holds the object."""

    @classmethod
    def from_wire(cls, body: bytes | msgspec.Raw) -> Object:
        """Decode one object. Raises :class:`msgspec.DecodeError` when it is not one."""
        try:
            return cls.from_fields(_decode_usual_fields(body))
        except msgspec.ValidationError:
            return cls._of(_decode_fields(body))

    @classmethod
    def from_fields(cls, fields: Fields) -> Object:
        return cls(
            fields.api_version,
            fields.kind,
            fields.metadata,
            # Raw is a view into the buffer it was decoded from; copying lets go of the rest.
            fields.spec.copy(),
            fields.status.copy(),
            fields.data.copy(),
        )

    @classmethod
    def _of(cls, fields: dict[str, msgspec.Raw], api_version: str = "", kind: str = "") -> Object:
        take = fields.pop
        metadata = take("metadata", None)
        return cls(
            _decode_text(take("apiVersion", _NO_TEXT)) or api_version,
            _decode_text(take("kind", _NO_TEXT)) or kind,
            _decode_metadata(metadata) if metadata is not None else _NO_METADATA,
            take("spec", EMPTY).copy(),
            take("status", EMPTY).copy(),
            take("data", EMPTY).copy(),
            {name: raw.copy() for name, raw in fields.items()} if fields else NOTHING,
        )

    def to_wire(self) -> bytes:
        fields: dict[str, Any] = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": self.metadata if self.metadata is not _NO_METADATA else None,
            "spec": self.spec,
            "status": self.status,
            "data": self.data,
        }
        present = {name: value for name, value in fields.items() if value}
        return msgspec.json.encode({**present, **self.extra})

    @property
    def problem(self) -> str:
        """What could not be read by the last view; empty where all could."""
        return "; ".join(f"{part}: {text}" for part, text in self.problems.items())

    @property
    def has_unreadable_status(self) -> bool:
        """Whether the last view could not read the status."""
        return "status" in self.problems

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def view(self, kind: type[V]) -> V:
        """The object as its typed kind. Unknown fields are not in a view, only in the raw; a
        status that cannot be read counts as none. Raises :class:`Unreadable`."""
        if type(self._view) is not kind:
            self._view = None
            try:
                self._view = _decode_view(self, kind)
            finally:
                if self.problems and self.on_unreadable is not None:
                    self.on_unreadable(self, kind)
        view: V = self._view
        return view

    def share(self, known: Object | None) -> None:
        """Share equal metadata with other objects, to save memory in caches: labels with the
        ``known`` previous version, else interned label strings, owners and finalizers with any
        object. Its values do not change."""
        mine, others = self.metadata, known.metadata if known is not None else _NO_METADATA
        if mine.labels:
            labels = others.labels if mine.labels == others.labels else _interned(mine.labels)
            _set(mine, "labels", labels)
        if mine.owner_references:
            _set(mine, "owner_references", _first_equal(mine.owner_references))
        if mine.finalizers:
            _set(mine, "finalizers", _first_equal(mine.finalizers))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.key} @{self.metadata.resource_version}>"


class ObjectList:
    """One page of a list, and the revision it was true at."""

    __slots__ = ("continue_token", "items", "remaining", "resource_version")

    def __init__(
        self, items: list[Object], resource_version: str, continue_token: str, remaining: int | None
    ) -> None:
        self.items = items
        self.resource_version = resource_version
        self.continue_token = continue_token
        self.remaining = remaining

    @classmethod
    def from_wire(cls, body: bytes) -> ObjectList:
        wire = _decode_list(body)
        kind = wire.kind.removesuffix("List")
        return cls(
            # Items of a typed list carry neither apiVersion nor kind on a real server.
            [Object._of(item, wire.api_version, kind) for item in wire.items],
            wire.metadata.resource_version,
            wire.metadata.continue_,
            wire.metadata.remaining_item_count,
        )


WireObject = Mapping[str, Any]
"""What we write: plain JSON values, with :class:`msgspec.Raw` where a subtree is copied."""

_set = msgspec.structs.force_setattr


def _interned(labels: dict[str, str]) -> dict[str, str]:
    return {intern(key): intern(value) for key, value in labels.items()}


@lru_cache(4096)  # the Instances of a deployment have the same owners and the same finalizers
def _first_equal(values: tuple[T, ...]) -> tuple[T, ...]:
    return values


_DECODE_ERRORS = (msgspec.DecodeError, RecursionError)
_NO_TEXT = msgspec.Raw(b'""')
_decode_usual_fields = msgspec.json.Decoder(Fields).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_metadata = msgspec.json.Decoder(ObjectMeta).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_list = msgspec.json.Decoder(_WireList).decode
_decoders: dict[type, list[tuple[str, Callable[[bytes], Any]]]] = {}
"""By view: its subtrees and how to read them. Having msgspec list the fields each time costs
more than reading does."""

KNOWN_SPECS = 512
"""Specs of a kind that are remembered as they were read. Most changes are about the status,
and the Instances of a deployment have the same spec; a view is read-only, so they share it."""


def prepare_view(kind: type) -> None:
    """Build what reads this view, which the first object of its kind would wait for."""
    _decoders[kind] = [
        (field.name, _reader(field.name, field.type))
        for field in msgspec.structs.fields(kind)
        if field.name != "metadata"
    ]


def _decode_view(obj: Object, kind: type[V]) -> V:
    if kind not in _decoders:
        prepare_view(kind)
    values: dict[str, Any] = {"metadata": obj.metadata}
    problems: dict[str, str] = {}
    obj.problems = _NO_PROBLEMS
    for name, read in _decoders[kind]:
        raw: msgspec.Raw = getattr(obj, name)
        # A subtree that is absent or null takes the view's default.
        if not raw or (body := bytes(raw)) == b"null":
            continue
        try:
            values[name] = read(body)
        except _DECODE_ERRORS as error:
            problems[name] = str(error)
    if problems:
        obj.problems = problems
    if problems.keys() - {"status"}:
        raise Unreadable(obj, obj.problem)
    return kind(**values)


def _reader(name: str, type: Any) -> Callable[[bytes], Any]:
    decode = msgspec.json.Decoder(type).decode
    return lru_cache(KNOWN_SPECS)(decode) if name == "spec" else decode


def owner_reference(owner: Object, *, controller: bool) -> dict[str, Any]:
    """A reference to ``owner``, for an object on the **same** plane: uids do not travel."""
    reference: dict[str, Any] = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.metadata.uid,
    }
    if controller:
        reference["controller"] = True
        reference["blockOwnerDeletion"] = True
    return reference
