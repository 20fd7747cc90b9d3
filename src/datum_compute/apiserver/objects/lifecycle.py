"""The life of one object on one plane, from creation to removal.

A :class:`Writer` holds the rules of every write, whether of a request, the garbage collector or
a plane that is created. Nothing here awaits, so reading the current state, deciding and storing
are one step; a response waits for :meth:`Store.wait_durable`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.apiserver import errors as status
from datum_compute.apiserver.cel import rules
from datum_compute.apiserver.codec import decode_json, encode_object, json_equal
from datum_compute.apiserver.kinds import builtin_rules, definitions, registry
from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.managed_fields import entries, ownership
from datum_compute.apiserver.managed_fields.ownership import FieldWriter
from datum_compute.apiserver.managed_fields.types import empty_object, type_of
from datum_compute.apiserver.objects import object_meta
from datum_compute.apiserver.storage.protocol import Managed, PlaneStore, StoredObject
from datum_compute.env import Environment

SERVER = "kube-apiserver"
"""The manager of what the server itself writes, as upstream."""


class WriteResult(msgspec.Struct, frozen=True):
    """The outcome of a write."""

    raw: bytes
    stored: StoredObject | None
    """None after a dry run."""
    removed: bool = False
    unknown: tuple[str, ...] = ()
    """Fields that were dropped as unknown to the schema."""
    managed: Managed = ()


class DeleteOptions(msgspec.Struct, frozen=True):
    """How to delete."""

    propagation: str = ""
    uid: str | None = None
    """If given, even if empty, the object must have it; so with the next."""
    resource_version: str | None = None
    dry_run: bool = False


class UnknownFieldsError(Exception):
    """A strict write has unknown fields."""

    def __init__(self, unknown: list[str]) -> None:
        super().__init__(", ".join(unknown))
        self.unknown = unknown


class Writer:
    """Writes to one plane."""

    def __init__(self, env: Environment, plane: PlaneStore) -> None:
        self._env = env
        self._plane = plane
        self._rule_steps = rules.LOOP_STEPS

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """Inside, the rules of definitions may take all the steps that they have, not only those
        that are good for an event loop."""
        self._rule_steps = rules.WORKER_STEPS
        try:
            yield
        finally:
            self._rule_steps = rules.LOOP_STEPS

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Inside, the rules of definitions are not run: a trial of the same write has run them."""
        self._rule_steps = 0
        try:
            yield
        finally:
            self._rule_steps = rules.LOOP_STEPS

    def create(
        self,
        kind: ServedKind,
        obj: dict[str, Any],
        *,
        strict: bool = False,
        dry_run: bool = False,
        manager: str = SERVER,
        managed: Managed | None = None,
    ) -> WriteResult:
        """Store a new object. ``obj`` was checked for type and namespace; it is changed.
        ``managed``: its entries, where they are known; else ``manager`` owns its fields."""
        resource = kind.resource
        unknown = object_meta.check_metadata(obj)
        metadata = obj["metadata"]
        given = metadata.pop("managedFields", None)
        object_meta.generate_name(metadata, self._env)
        self._set_identity(kind, metadata)
        if kind.has_status:
            obj.pop("status", None)
        errors = object_meta.validate_metadata(kind, metadata)
        if kind.builtin:
            builtin_rules.drop_nulls(kind.stored_as, obj)
            errors += builtin_rules.before_write(resource.group_resource, obj)
            if kind.stored_as == builtin_rules.NAMESPACES:
                builtin_rules.new_namespace(obj)
        outcome = kind.schema.process(obj)
        if kind.stored_as == builtin_rules.CRDS:
            definitions.prune_schemas(obj, outcome)
        unknown += outcome.unknown
        if strict and unknown:
            raise UnknownFieldsError(unknown)
        _check_decoded(kind, errors, outcome.errors)
        errors += outcome.errors
        errors += self._broken_rules(kind, outcome.errors, obj)
        if kind.builtin and not errors:
            errors += builtin_rules.after_schema(resource.group_resource, obj)
        if kind.stored_as == builtin_rules.CRDS and not outcome.errors:
            errors += definitions.validate_group(obj)
            errors += registry.establish(
                obj, metadata["creationTimestamp"], self.names_of_others(obj)
            )
        if kind.builtin and not errors:
            builtin_rules.drop_empty(obj)
        if managed is None:
            empty = {**empty_object(kind), "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
            managed, faults = self._owned(kind, (), given, manager, empty, obj)
            errors += faults
        name = metadata.get("name", "")
        if errors:
            raise status.invalid_object(kind.stored_resource, name, errors)
        if metadata.get("resourceVersion") and not dry_run:
            raise status.bad_request("resourceVersion should not be set on objects to be created")
        table = self._plane.table(kind.stored_as)
        present = table.get(metadata.get("namespace", ""), name)
        if present is not None:
            raise status.already_exists(resource, name, leaving=present.deleting)
        if dry_run:
            metadata.pop("resourceVersion", None)
            return WriteResult(encode_object(obj), None, unknown=tuple(unknown), managed=managed)
        stored = self._plane.put(
            kind.stored_as, obj, None, validated_by=kind.schema, managed=managed
        )
        return WriteResult(stored.raw, stored, unknown=tuple(unknown), managed=managed)

    def _owned(
        self,
        kind: ServedKind,
        managed: Managed,
        given: list[Any] | None,
        manager: str,
        old: dict[str, Any],
        new: dict[str, Any],
        subresource: str = "",
    ) -> tuple[Managed, list[fields.FieldError]]:
        """The entries after a write that is not an apply. An object without any gets none: its
        fields belong to nobody until it is applied. ``given`` are those that the client sends:
        they replace the others, and none, or one that is empty, removes all."""
        is_tracked = bool(managed) or "uid" not in old["metadata"]
        if given is not None and not subresource:
            if given in ([], [{}]):
                managed, is_tracked = (), "uid" not in old["metadata"]
            else:
                groups = kind.resource.group, kind.stored_resource.group
                found = entries.read(given, groups)
                if found is not None:
                    managed, is_tracked = found, True
        if not is_tracked:
            return managed, []
        now = int(self._env.now().timestamp())
        writers = [(manager, subresource)]
        if kind.stored_as == builtin_rules.CRDS and not subresource:
            writers.append((SERVER, "status"))  # it accepts the names
        for name, through in writers:
            by = FieldWriter(name, kind.resource.api_version, subresource=through)
            before, after = (_written_part(kind, each, through) for each in (old, new))
            managed = ownership.update(managed, by, before, after, type_of(kind), now)
        return managed, entries.faults_of(managed) if given else []

    def _broken_rules(
        self,
        kind: ServedKind,
        found: list[fields.FieldError],
        new: dict[str, Any],
        old: dict[str, Any] | None = None,
        *,
        ratchets: bool = True,
    ) -> list[fields.FieldError]:
        """The rules that ``new`` breaks. What the schema ``found`` may keep them from being run.
        Raises OverBudget."""
        tree = None if kind.builtin else rules.rules_of(kind.schema)
        if tree is None or not self._rule_steps:
            return []
        if rules.are_blocking(found):
            return [rules.NOT_CHECKED]
        return tree.validate(new, old, steps=self._rule_steps, ratchets=ratchets)

    def names_of_others(self, definition: dict[str, Any]) -> list[dict[str, Any]]:
        """The accepted names of the other definitions of its group."""
        name = definition["metadata"].get("name", "")
        group = (definition.get("spec") or {}).get("group")
        rows = self._plane.table(builtin_rules.CRDS).in_order(None)
        others = [row for row in rows if row.name != name and row.name.partition(".")[2] == group]
        return [registry.accepted_names(self._plane.value(row)) for row in others]

    def _set_identity(self, kind: ServedKind, metadata: dict[str, Any]) -> None:
        metadata["uid"] = self._env.new_uid()
        metadata["creationTimestamp"] = object_meta.timestamp(self._env.now())
        metadata.pop("deletionTimestamp", None)
        metadata.pop("deletionGracePeriodSeconds", None)
        if has_generation(kind):
            metadata["generation"] = 1

    def replace(
        self,
        kind: ServedKind,
        before: StoredObject,
        new: dict[str, Any],
        *,
        subresource: str = "",
        strict: bool = False,
        dry_run: bool = False,
        old: dict[str, Any] | None = None,
        manager: str = SERVER,
        managed: Managed | None = None,
        managed_subresource: str = "",
        patched: bool = False,
    ) -> WriteResult:
        """Store ``new`` in place of ``before``, unless that changes nothing. ``new`` may share
        subtrees with ``old``, the content of ``before``, only if that :func:`is_validated`.
        ``managed``: its entries, where they are known; else ``manager`` owns what changes."""
        resource = kind.resource
        validated = is_validated(kind, before)
        if old is None:
            old = self.read(kind, before)
        elif new["metadata"] is old["metadata"]:
            new["metadata"] = dict(old["metadata"])
        unknown = object_meta.check_metadata(new)
        given = new["metadata"].pop("managedFields", None)
        self.check_versions(kind, before, new["metadata"], patched=patched)
        if subresource == "status":
            new = _with_status(old, new)
        elif kind.has_status:
            _copy_key(old, new, "status")
        if kind.stored_as == builtin_rules.NAMESPACES and subresource != "finalize":
            _copy_key(old, new, "spec")
        errors = _carry_identity(old["metadata"], new["metadata"])
        if not validated or not _same_rules_apply(old["metadata"], new["metadata"]):
            errors += object_meta.validate_metadata(kind, new["metadata"])
        if kind.builtin:
            builtin_rules.drop_nulls(kind.stored_as, new)
            errors += builtin_rules.before_write(resource.group_resource, new)
        outcome = kind.schema.process(new, old if validated else None)
        if kind.stored_as == builtin_rules.CRDS:
            definitions.prune_schemas(new, outcome)
        unknown += outcome.unknown
        if strict and unknown:
            raise UnknownFieldsError(unknown)
        _check_decoded(kind, errors, outcome.errors)
        if outcome.errors:
            outcome = kind.schema.process(new, self._unchanged(kind, before, new))
        errors += outcome.errors
        errors += self._broken_rules(kind, outcome.errors, new, old, ratchets=not subresource)
        if kind.builtin and not errors:
            errors += builtin_rules.after_schema(resource.group_resource, new, old)
        if kind.stored_as == builtin_rules.CRDS and not errors:
            errors += definitions.validate_change(old, new)
            if not errors:
                errors += registry.establish(new, self.timestamp(), self.names_of_others(new))
        if kind.builtin and not errors:
            builtin_rules.drop_empty(new)
        if managed is None and not errors:
            held = self._plane.content(before)[1]
            through = managed_subresource or subresource
            managed, errors = self._owned(kind, held, given, manager, old, new, through)
        if errors:
            raise status.invalid_object(kind.stored_resource, before.name, errors)
        return self.store_change(
            kind,
            before,
            old,
            new,
            tuple(unknown),
            dry_run=dry_run,
            validated_by=kind.schema,
            managed=managed,
        )

    def _unchanged(
        self, kind: ServedKind, before: StoredObject, new: dict[str, Any]
    ) -> dict[str, Any]:
        """The parts of ``new``, which was walked, that are as stored. They are not judged again: a
        schema may have become stricter since, and no finalizer could be removed, and no status
        written, until another writer corrects the spec. As the real server since 1.30, which
        does this for each field."""
        stored = self.read(kind, before)
        kind.schema.process(stored)
        return {key: new[key] for key in new if key in stored and json_equal(new[key], stored[key])}

    def store_change(
        self,
        kind: ServedKind,
        before: StoredObject,
        old: dict[str, Any],
        new: dict[str, Any],
        unknown: tuple[str, ...] = (),
        *,
        dry_run: bool = False,
        validated_by: object | None = None,
        managed: Managed | None = None,
    ) -> WriteResult:
        """The last step of any update: generation, no-op, removal with the last finalizer."""
        metadata = new["metadata"]
        held = self._plane.content(before)[1]
        if managed is None:
            managed, _ = self._owned(kind, held, None, SERVER, old, new)
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        if has_generation(kind) and _differs(kind, old, new):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        if new == old and json_equal(new, old) and entries.is_same(managed, held):
            return WriteResult(self.raw(kind, before), before, unknown=unknown, managed=held)
        if dry_run:
            return WriteResult(encode_object(new), None, unknown=unknown, managed=managed)
        resource = kind.stored_as
        if is_removable(new):
            stored = self._plane.remove(resource, new, before)
            return WriteResult(stored.raw, stored, removed=True, unknown=unknown, managed=held)
        stored = self._plane.put(resource, new, before, validated_by=validated_by, managed=managed)
        return WriteResult(stored.raw, stored, unknown=unknown, managed=managed)

    def delete(self, kind: ServedKind, before: StoredObject, how: DeleteOptions) -> WriteResult:
        """Remove, or mark for deletion while there are finalizers."""
        resource = kind.resource
        _check_preconditions(kind, before, how)
        old = self._read_for_deletion(kind, before)
        new = {**old, "metadata": dict(old["metadata"])}
        _set_finalizers(new["metadata"], _deletion_finalizers(kind, before, how))
        if resource.group_resource == builtin_rules.NAMESPACES:
            self._check_namespace_deletion(kind, before)
            new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
        elif resource.group_resource == builtin_rules.CRDS:
            _mark_crd_terminating(new, object_meta.timestamp(self._env.now()))
        if has_finalizers(new) and not before.deleting:
            new["metadata"]["deletionTimestamp"] = object_meta.timestamp(self._env.now())
            if kind.stored_as != builtin_rules.NAMESPACES:  # as upstream, which marks those itself
                new["metadata"]["deletionGracePeriodSeconds"] = 0
            if has_generation(kind):
                new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        managed = self._plane.content(before)[1]
        if how.dry_run:
            removed = not has_finalizers(new)
            return WriteResult(encode_object(new), None, removed=removed, managed=managed)
        if not has_finalizers(new):
            stored = self._plane.remove(kind.stored_as, new, before)
            return WriteResult(stored.raw, stored, removed=True, managed=managed)
        if new == old:
            return WriteResult(self.raw(kind, before), before, managed=managed)
        stored = self._plane.put(kind.stored_as, new, before, managed=managed)
        return WriteResult(stored.raw, stored, managed=managed)

    def _check_namespace_deletion(self, kind: ServedKind, before: StoredObject) -> None:
        if before.name == "default":
            raise status.forbidden(kind.resource, before.name, "this namespace may not be deleted")
        if before.deleting:
            why = (
                "The system is ensuring all content is removed from this namespace.  Upon"
                " completion, this namespace will automatically be purged by the system."
            )
            raise status.conflict(kind.resource, before.name, why)

    def now(self) -> datetime:
        return self._env.now()

    def check_versions(
        self,
        kind: ServedKind,
        before: StoredObject,
        metadata: dict[str, Any],
        *,
        patched: bool = False,
    ) -> None:
        """Raises 409 where the metadata names another revision or object than is stored. The uid
        of what is ``patched`` is a field like others, that cannot change."""
        version = metadata.get("resourceVersion", "")
        if version and version != str(before.revision):
            raise status.modified(kind.resource, before.name)
        uid = metadata.get("uid", "")
        if uid and uid != before.uid and patched:
            error = fields.invalid("metadata.uid", uid, "field is immutable")
            raise status.invalid_object(kind.resource, before.name, [error])
        if uid and uid != before.uid:
            why = (
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before.uid}"
            )
            raise status.conflict(kind.resource, before.name, why)

    def read(self, kind: ServedKind, stored: StoredObject) -> dict[str, Any]:
        """A fresh, changeable copy of a current object, in the version of ``kind``, and as it is
        stored."""
        obj: dict[str, Any] = decode_json(self._plane.value(stored))
        if kind.stored_form is None:
            obj["apiVersion"] = kind.resource.api_version
        if self.lacks_defaults(kind, stored):
            kind.schema.process(obj)
        return obj

    def lacks_defaults(self, kind: ServedKind, stored: StoredObject) -> bool:
        """Whether the definition may have gained defaults since the object was written, or it was
        written in another version. Those are set at every read, as in the real server, and
        stored with the next write."""
        schema = kind.schema
        if kind.builtin or not schema.has_defaults or schema.is_costly:
            return False
        if stored.validated_by is schema:
            return False
        definition = self._plane.get((builtin_rules.CRDS, "", kind.stored_as))
        is_older = definition is not None and stored.revision < definition.revision
        return is_older or stored.api_version != kind.resource.api_version

    def _read_for_deletion(self, kind: ServedKind, stored: StoredObject) -> dict[str, Any]:
        """As :meth:`read`, with everything that a deletion leaves as it is in its bytes: the
        objects of a collection, of a namespace and of an owner go on the event loop."""
        if kind.resource.group_resource in (builtin_rules.NAMESPACES, builtin_rules.CRDS):
            return self.read(kind, stored)
        parts: dict[str, Any] = _decode_parts(self._plane.value(stored))
        obj = parts | {key: decode_json(parts[key]) for key in _IDENTITY}
        if kind.stored_form is None:
            obj["apiVersion"] = kind.resource.api_version
        return obj

    def timestamp(self) -> str:
        return object_meta.timestamp(self._env.now())

    def raw(self, kind: ServedKind, stored: StoredObject) -> bytes:
        return self.shown(kind, stored, self._plane.value(stored))

    def shown(self, kind: ServedKind, stored: StoredObject, raw: bytes) -> bytes:
        """The bytes of a version as clients see them, in the version of the API of ``kind``."""
        if not self.lacks_defaults(kind, stored):
            return convert_version(kind, stored, raw)
        obj = kind.to_shown(decode_json(raw))
        kind.schema.process(obj)
        return encode_object(obj)


_decode_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_IDENTITY = ("apiVersion", "kind", "metadata")


def _check_decoded(kind: ServedKind, *errors: list[fields.FieldError]) -> None:
    """Raise 400 where a field of a built-in kind has another type. The real server decodes those
    into types of its own, and fails before it judges the object."""
    if not kind.builtin:
        return
    for error in itertools.chain.from_iterable(errors):
        if error.type is fields.FieldErrorType.TYPE_INVALID or _is_beyond_int32(error.value):
            name, version = kind.resource.kind, kind.resource.version
            raise status.NotDecoded(
                f'{name} in version "{version}" cannot be handled as a {name}: {error}'
            )


def _is_beyond_int32(value: Any) -> bool:
    """All numbers of built-in kinds have 32 bits."""
    return isinstance(value, int) and not -(2**31) <= value < 2**31


def convert_version(kind: ServedKind, stored: StoredObject, raw: bytes) -> bytes:
    """The object's bytes in the version of ``kind``."""
    if stored.api_version == kind.resource.api_version:
        return raw
    return encode_object(kind.to_shown(decode_json(raw)))


def is_validated(kind: ServedKind, stored: StoredObject) -> bool:
    """Whether a version was validated by the rules of ``kind`` as they are now, so that what a
    write leaves unchanged need not be validated again. Rules of built-ins change objects in
    place, so those are always validated."""
    return stored.validated_by is kind.schema and not kind.builtin


def has_generation(kind: ServedKind) -> bool:
    """Of the built-ins served here only definitions count generations, as upstream."""
    return not kind.builtin or kind.resource.group_resource == builtin_rules.CRDS


def has_finalizers(obj: dict[str, Any]) -> bool:
    """Whether anything delays the removal of a deleted object."""
    if obj["metadata"].get("finalizers"):
        return True
    if obj["kind"] == "Namespace" and obj["apiVersion"] == "v1":
        return bool((obj.get("spec") or {}).get("finalizers"))
    return False


def is_removable(obj: dict[str, Any]) -> bool:
    return "deletionTimestamp" in obj["metadata"] and not has_finalizers(obj)


def _written_part(kind: ServedKind, obj: dict[str, Any], subresource: str) -> dict[str, Any]:
    """What a write through this path can change, so that its writer can own it."""
    if subresource == "status":
        return {"status": obj["status"]} if "status" in obj else {}
    if not kind.has_status:
        return obj
    return {key: value for key, value in obj.items() if key != "status"}


def _with_status(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    result = {**old, "metadata": dict(old["metadata"])}
    _copy_key(new, result, "status")
    return result


def _copy_key(source: dict[str, Any], target: dict[str, Any], key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


_MARKS = ("deletionTimestamp", "deletionGracePeriodSeconds")
_IMMUTABLE = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
)


def _carry_identity(old: dict[str, Any], new: dict[str, Any]) -> list[fields.FieldError]:
    """Keep what a client may not change, whatever is in the body."""
    marks = [(key, new[key]) for key in _MARKS if new.get(key)]
    for key in _IMMUTABLE:
        _copy_key(old, new, key)
    if "deletionTimestamp" not in old:
        return [
            fields.invalid(f"metadata.{key}", mark, "field is immutable") for key, mark in marks
        ]
    held = set(old.get("finalizers") or ())
    added = [one for one in new.get("finalizers") or () if one not in held]
    if not added:
        return []
    listed = ", ".join(f'"{one}"' for one in added)
    detail = (
        "no new finalizers can be added if the object is being deleted, found new finalizers"
        f" []string{{{listed}}}"
    )
    return [fields.forbidden("metadata.finalizers", detail)]


_VALIDATED = ("name", "labels", "annotations", "ownerReferences", "finalizers")
"""The part of metadata that is validated."""


def _same_rules_apply(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return all(old.get(key) == new.get(key) for key in _VALIDATED)


def _differs(kind: ServedKind, old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether anything but metadata, and status where that is apart, has changed."""
    skipped = ("metadata", "status") if kind.has_status else ("metadata",)
    for key in {**old, **new}:
        if key not in skipped and (key in old) != (key in new):
            return True
        if key in skipped or old[key] is new[key]:
            continue
        if not json_equal(old[key], new[key]):
            return True
    return False


def _check_preconditions(kind: ServedKind, before: StoredObject, how: DeleteOptions) -> None:
    # The kind in place of the plural, as the real server has it.
    about = kind.resource._replace(plural=kind.resource.kind)
    if how.uid is not None and how.uid != before.uid:
        why = (
            f"the UID in the precondition ({how.uid}) does not match the UID in record"
            f" ({before.uid}). The object might have been deleted and then recreated"
        )
        raise status.conflict(about, before.name, why)
    if how.resource_version is not None and how.resource_version != str(before.revision):
        why = (
            f"the ResourceVersion in the precondition ({how.resource_version}) does not match the"
            f" ResourceVersion in record ({before.revision}). The object might have been modified"
        )
        raise status.conflict(about, before.name, why)


def _deletion_finalizers(kind: ServedKind, before: StoredObject, how: DeleteOptions) -> list[str]:
    held = list(before.finalizers)
    if how.propagation:
        held = [one for one in held if one not in (object_meta.FOREGROUND, object_meta.ORPHAN)]
    if how.propagation == "Foreground":
        held.append(object_meta.FOREGROUND)
    elif how.propagation == "Orphan":
        held.append(object_meta.ORPHAN)
    if kind.resource.group_resource == builtin_rules.CRDS and builtin_rules.CRD_CLEANUP not in held:
        held.append(builtin_rules.CRD_CLEANUP)
    return held


def _set_finalizers(metadata: dict[str, Any], finalizers: list[str]) -> None:
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _mark_crd_terminating(crd: dict[str, Any], now: str) -> None:
    conditions = (crd.get("status") or {}).get("conditions") or []
    if any(one.get("type") == "Terminating" for one in conditions):
        return
    terminating = {
        "type": "Terminating",
        "status": "True",
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; deleting its objects",
        "lastTransitionTime": now,
    }
    crd["status"] = {**(crd.get("status") or {}), "conditions": [*conditions, terminating]}
