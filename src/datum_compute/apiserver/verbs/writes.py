"""create, update and patch.

Nothing here awaits: the change is left in the open batch, and the handler responds when that is
on disk. A write is first drafted, which reads the request and changes nothing, then executed;
admission comes between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.apiserver import codec, errors
from datum_compute.apiserver.kinds import builtin_rules
from datum_compute.apiserver.managed_fields.entries import to_wire
from datum_compute.apiserver.objects import object_meta, patches
from datum_compute.apiserver.objects.lifecycle import (
    UnknownFieldsError,
    WriteResult,
    is_validated,
)
from datum_compute.apiserver.printing.renderer import Renderer
from datum_compute.apiserver.request.body import (
    content_type,
    decode_object,
    duplicate_fields,
)
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import Managed, StoredObject
from datum_compute.apiserver.verbs import applies
from datum_compute.client.transport import HttpResponse

MAX_WARNINGS = 16
MAX_WARNING_CHARACTERS = 256
"""Header space is scarce: proxies and clients refuse heads beyond some kilobytes."""


class Draft(msgspec.Struct, gc=False):
    """What a request wants stored, decoded and checked for its form. Executing it may change
    ``obj``, so a draft is executed once."""

    obj: dict[str, Any]
    validation: str
    dry_run: bool
    before: StoredObject | None = None
    """What is replaced; None for a create."""
    old: dict[str, Any] | None = None
    """The content of ``before``, where ``obj`` shares parts with it."""
    duplicates: tuple[str, ...] = ()
    """What to say of fields that the body gives more than once."""
    manager: str = ""
    """Who owns what changes."""
    managed: Managed | None = None
    """The entries of managed fields, where they are known: after an apply, and once tried."""
    is_apply: bool = False
    warnings: tuple[str, ...] = ()


def create(call: RequestContext, renderer: Renderer) -> HttpResponse:
    return execute(call, renderer, draft_create(call))


def update(call: RequestContext, renderer: Renderer) -> HttpResponse:
    return execute(call, renderer, draft_update(call))


def patch(call: RequestContext, renderer: Renderer) -> HttpResponse:
    return execute(call, renderer, draft_patch(call))


def draft(verb: str, call: RequestContext) -> Draft:
    """The draft of a create, update or patch."""
    return {"create": draft_create, "update": draft_update, "patch": draft_patch}[verb](call)


def execute(call: RequestContext, renderer: Renderer, draft: Draft) -> HttpResponse:
    return build_response(renderer, draft, store(call, draft))


def store(call: RequestContext, draft: Draft, *, dry_run: bool = False) -> WriteResult:
    """Validate the draft and store it; for a dry run, of the request or by ``dry_run``, only
    return what would be stored."""
    # Fields that an apply states must be known, whatever the validation.
    writer, strict = call.plane.writer, draft.validation == "Strict" or draft.is_apply
    is_patch = call.request.method == "PATCH"
    if call.check_grant is not None:
        call.check_grant(call, draft.obj)
    dry_run = dry_run or draft.dry_run
    _warn(call, draft)
    try:
        if draft.before is None:
            return writer.create(
                call.kind,
                draft.obj,
                strict=strict,
                dry_run=dry_run,
                manager=draft.manager,
                managed=draft.managed,
            )
        return writer.replace(
            call.kind,
            draft.before,
            draft.obj,
            subresource=call.target.subresource,
            strict=strict,
            dry_run=dry_run,
            old=draft.old,
            manager=draft.manager,
            managed=draft.managed,
            patched=is_patch,
        )
    except UnknownFieldsError as fault:
        if not draft.is_apply:
            raise _strict(call, fault) from fault
        applies.check_known(call, draft.before, fault.unknown)
        # They were in the object, which has lost them by now.
        draft.is_apply = False
        return store(call, draft, dry_run=dry_run)
    except errors.NotDecoded as fault:
        if is_patch and draft.managed is None:
            raise _faulty_patch(fault.message) from fault
        raise


def _warn(call: RequestContext, draft: Draft) -> None:
    """Of owners that are named twice one is kept; a finalizer should name its owner's domain."""
    metadata = draft.obj.get("metadata")
    if not isinstance(metadata, dict):
        return
    owners = metadata.get("ownerReferences")
    if isinstance(owners, list) and len(owners) > 1:
        kept = {codec.encode_json(one): one for one in owners}
        if len(kept) < len(owners):
            draft.obj["metadata"] = {**metadata, "ownerReferences": list(kept.values())}
            draft.warnings += (_OWNED_TWICE,)
    if call.kind.builtin or not isinstance(finalizers := metadata.get("finalizers"), list):
        return
    draft.warnings += tuple(
        f'metadata.finalizers: "{one}": {_UNQUALIFIED}'
        for one in finalizers
        if isinstance(one, str) and one and "/" not in one and not object_meta.is_standard(one)
    )


_OWNED_TWICE = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in"
    " 1.20+, and may reject such requests as early as 1.24; please fix your requests"
)
_UNQUALIFIED = (
    "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts"
    " with other finalizer writers"
)


def draft_create(call: RequestContext) -> Draft:
    kind = call.kind
    options = "CreateOptions"
    dry_run = call.dry_run(options)
    validation = call.field_validation(options)
    manager = call.field_manager(options)
    obj = decode_object(call.request.headers, call.request.body)
    duplicates = find_duplicates(call, validation, obj)
    object_meta.check_type(kind, obj)
    object_meta.check_kind(kind, obj)
    check_creatable(call, obj)
    object_meta.set_namespace(kind, obj, call.target.namespace)
    return Draft(kind.to_stored(obj), validation, dry_run, duplicates=duplicates, manager=manager)


def find_duplicates(call: RequestContext, validation: str, body: Any) -> tuple[str, ...]:
    """What to say of fields that the body gives more than once. Raises 400 where that is not to
    be accepted."""
    if validation == "Ignore":
        return ()
    found = duplicate_fields(call.request.headers, call.request.body, body)
    if found and validation == "Strict":
        raise _not_decoded(call, f"strict decoding error: {', '.join(found)}")
    return found


def check_creatable(call: RequestContext, obj: dict[str, Any]) -> None:
    """Raises where nothing can be created now: the namespace is missing, or it or the
    definition is being deleted."""
    _check_namespace(call, obj)
    terminating = call.plane.registry.terminating
    if terminating and call.kind.resource.group_resource in terminating:
        raise errors.method_not_allowed(
            "create not allowed while custom resource definition is terminating"
        )


def _check_namespace(call: RequestContext, obj: dict[str, Any]) -> None:
    metadata = _metadata_of(obj)
    if not call.kind.resource.namespaced:
        return
    namespace = call.target.namespace
    if not namespace:
        raise errors.method_not_allowed()
    state = call.plane.namespace_state(namespace)
    if not state:
        namespaces = call.plane.registry.builtin(builtin_rules.NAMESPACES).resource
        raise errors.not_found(namespaces, namespace)
    if state == "Terminating":
        name = str(metadata.get("name") or "")
        raise errors.namespace_terminating(call.kind.resource, name, namespace)


def draft_update(call: RequestContext) -> Draft:
    options = "UpdateOptions"
    dry_run = call.dry_run(options)
    validation = call.field_validation(options)
    manager = call.field_manager(options)
    new = decode_object(call.request.headers, call.request.body)
    duplicates = find_duplicates(call, validation, new)
    object_meta.check_type(call.kind, new)
    _check_key(call, new)
    if call.kind.created_by_update and call.current() is None:
        check_creatable(call, new)
        return Draft(
            call.kind.to_stored(new), validation, dry_run, duplicates=duplicates, manager=manager
        )
    before = call.existing()
    _check_has_revision(call, new["metadata"])
    if not call.target.subresource:
        object_meta.check_kind(call.kind, new)
    new = call.kind.to_stored(new)
    return Draft(new, validation, dry_run, before, duplicates=duplicates, manager=manager)


def _check_has_revision(call: RequestContext, metadata: dict[str, Any]) -> None:
    resource = call.kind.resource
    if not call.kind.updated_blindly and not metadata.get("resourceVersion"):
        error = fields.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        # The plural in place of the kind, as the real server has it.
        raise errors.invalid(resource.plural, resource.group, call.target.name, [error])


def draft_patch(call: RequestContext) -> Draft:
    options = "PatchOptions"
    form = patch_type(call)
    dry_run = call.dry_run(options)
    validation = call.field_validation(options)
    if form == codec.APPLY_PATCH:
        done = applies.apply_object(call, check_creatable)
        return Draft(
            done.obj,
            validation,
            dry_run,
            done.before,
            done.old,
            managed=done.managed,
            duplicates=applies.find_duplicates(call, validation),
            is_apply=True,
        )
    if "force" in call.query:
        error = fields.forbidden("force", "may not be specified for non-apply patch")
        raise errors.invalid(options, "meta.k8s.io", "", [error])
    manager = call.field_manager(options)
    before = call.existing()
    old = call.plane.writer.read(call.kind, before)
    target = call.kind.to_shown(old)
    if _MANAGED_FIELDS in call.request.body:
        managed = codec.decode_json(to_wire(call.plane.store.content(before)[1]))
        target = {**target, "metadata": {**target["metadata"], "managedFields": managed}}
    body = codec.json_value(call.request.body)
    new = apply_patch(call, form, target, body)
    duplicates = find_duplicates(call, validation, body)
    try:
        object_meta.check_type(call.kind, new)
    except errors.ApiError as error:
        if call.kind.builtin or not isinstance(new.get("kind"), str):
            raise _faulty_patch(error.message) from error
        if new.get("apiVersion") and not call.target.subresource:
            raise _other_version(call, new) from error
        raise
    if not isinstance(new["kind"], str):
        raise _faulty_patch("the kind is no text")
    if not isinstance(new.get("metadata"), dict | None):
        raise _faulty_patch("the object's metadata is not an object")
    _check_key(call, new)
    _check_has_revision(call, new["metadata"])
    if not call.target.subresource:
        object_meta.check_kind(call.kind, new)
    # A merge patch copies what it changes and shares the rest with the old state; validating
    # that again by the same rules does not change it.
    shares = form == codec.MERGE_PATCH and is_validated(call.kind, before)
    new = call.kind.to_stored(new)
    shared = old if shares else None
    return Draft(new, validation, dry_run, before, shared, duplicates=duplicates, manager=manager)


def _other_version(call: RequestContext, new: dict[str, Any]) -> errors.ApiError:
    """A patch cannot move a custom object to another version."""
    version = str(new["apiVersion"])
    detail = f"must be {call.kind.resource.api_version}"
    error = fields.invalid("apiVersion", version, detail)
    group = version.rpartition("/")[0]
    return errors.invalid(new["kind"], group, call.target.name, [error])


_MANAGED_FIELDS = b"managedFields"


def patch_type(call: RequestContext) -> str:
    form = content_type(call.request.headers)
    accepted = [codec.JSON_PATCH, codec.MERGE_PATCH, codec.APPLY_PATCH]
    if call.kind.builtin:
        accepted.append(codec.STRATEGIC_PATCH)
    if form not in accepted:
        raise errors.unsupported_media(", ".join(accepted))
    return form


def apply_patch(
    call: RequestContext, form: str, target: dict[str, Any], body: Any
) -> dict[str, Any]:
    if form == codec.JSON_PATCH:
        new = patches.json_patch(target, body)
    elif not isinstance(body, dict):
        raise errors.bad_request("a merge patch must be a JSON object")
    elif form == codec.STRATEGIC_PATCH:
        new = patches.strategic_patch(target, body)
    else:
        new = patches.merge_patch(target, body)
    if not isinstance(new, dict):
        raise _faulty_patch("the result is no object")
    return new


def _check_key(call: RequestContext, new: dict[str, Any]) -> None:
    _metadata_of(new)
    object_meta.check_name(new, call.target.name)
    object_meta.set_namespace(call.kind, new, call.target.namespace)


def _metadata_of(obj: dict[str, Any]) -> dict[str, Any]:
    """The object's metadata, added if it has none."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise errors.bad_request("the object's metadata is not an object")
    return metadata


def _strict(call: RequestContext, fault: UnknownFieldsError) -> errors.ApiError:
    listed = ", ".join(f'unknown field "{path}"' for path in fault.unknown)
    return _not_decoded(call, f"strict decoding error: {listed}")


def _not_decoded(call: RequestContext, why: str) -> errors.ApiError:
    if call.request.method == "PATCH":
        return _faulty_patch(why)
    kind, version = call.kind.resource.kind, call.kind.resource.version
    return errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _faulty_patch(why: str) -> errors.ApiError:
    """The patch is at fault, not the object."""
    return errors.invalid("", "", "", [fields.invalid("patch", "<patch>", why)])


def build_response(
    renderer: Renderer, draft: Draft, written: WriteResult, warnings: tuple[str, ...] = ()
) -> HttpResponse:
    """What was written, with ``warnings`` and one for each unknown field."""
    response = renderer.written(written, 201 if draft.before is None else 200)
    unknown = written.unknown if draft.validation != "Ignore" else ()
    if not unknown and not warnings and not draft.duplicates and not draft.warnings:
        return response
    found = [*warnings, *draft.warnings, *draft.duplicates]
    return with_warnings(response, [*found, *(f'unknown field "{path}"' for path in unknown)])


def with_warnings(response: HttpResponse, texts: Sequence[str]) -> HttpResponse:
    if not texts:
        return response
    given = response.headers.get("warning")
    header = ", ".join([*([given] if given else []), *map(_warning, texts[:MAX_WARNINGS])])
    return msgspec.structs.replace(response, headers={**response.headers, "warning": header})


def _warning(text: str) -> str:
    """One value of a Warning header. The text may hold anything the client sent."""
    short = text[:MAX_WARNING_CHARACTERS].encode("unicode_escape").decode("ascii")
    escaped = short.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
