"""delete and deletecollection.

A delete does not await, as in :mod:`.writes`. To delete many objects is many deletes: between some
of them other requests go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from datum_compute.api import fields
from datum_compute.apiserver import errors
from datum_compute.apiserver.objects.lifecycle import (
    DeleteOptions,
    WriteResult,
)
from datum_compute.apiserver.printing.renderer import Page, Renderer
from datum_compute.apiserver.request.body import decode_object
from datum_compute.apiserver.request.context import RequestContext, is_dry_run
from datum_compute.apiserver.request.flow_control import SLICE_BYTES
from datum_compute.apiserver.request.selection import Selection
from datum_compute.apiserver.storage.protocol import Store
from datum_compute.client.transport import HttpResponse


class _Preconditions(msgspec.Struct, rename="camel", frozen=True):
    uid: str | None = None
    resource_version: str | None = None


class _WireOptions(msgspec.Struct, rename="camel", frozen=True):
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = None


def delete(call: RequestContext, renderer: Renderer) -> HttpResponse:
    options = _delete_options(call)
    before = call.existing()
    written = call.plane.writer.delete(call.kind, before, options)
    if not written.removed:
        return renderer.written(written)
    body = errors.success(call.kind.resource, before.name, before.uid)
    return HttpResponse(200, errors.JSON_HEADERS, body)


MAX_OPTIONS = 4096
"""Bytes of delete options. A guess: there are a handful of fields."""
_DELETE_COST = 2048
"""What a delete costs beside its bytes, as bytes: some 50 us, measured."""


async def delete_collection(call: RequestContext, renderer: Renderer, store: Store) -> HttpResponse:
    options = _delete_options(call)
    selection = Selection(call, store.value)
    deleted: list[WriteResult] = []
    size = 0
    for row in list(call.table.in_order(call.namespace)):
        size += selection.cost(row)
        if size > SLICE_BYTES:
            size = 0
            await asyncio.sleep(0)
            if store.planes.get(call.plane.name) is not call.plane.store:
                raise errors.PathNotFound  # the plane was deleted
        # It may be changed or gone after other requests.
        current = call.table.get(row.namespace, row.name)
        if current is None or current.uid != row.uid or not selection.matches(current):
            continue
        written = call.plane.writer.delete(call.kind, current, options)
        size += _DELETE_COST + len(written.raw)
        # The version alone: its bytes are in the log.
        deleted.append(
            written
            if written.stored is None
            else msgspec.structs.replace(written, raw=b"", managed=())
        )
    page = Page(str(call.plane.store.revision))
    return renderer.many(_content(renderer, store, deleted), page)


def _content(renderer: Renderer, store: Store, deleted: list[WriteResult]) -> Iterator[bytes]:
    for each in deleted:
        if each.stored is None:
            yield renderer.with_managed(each.raw, each.managed)
        else:
            yield renderer.stored(each.stored, store.content(each.stored))


def _delete_options(call: RequestContext) -> DeleteOptions:
    options = _decode_options(call)
    call.number("gracePeriodSeconds", signed=True)  # in the query as in the body
    propagation = options.propagation_policy or call.query.get("propagationPolicy", "")
    if options.orphan_dependents is not None and propagation:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        error = fields.invalid("propagationPolicy", propagation, detail)
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", [error])
    if options.orphan_dependents is not None:
        propagation = "Orphan" if options.orphan_dependents else "Background"
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        error = fields.not_supported(
            "propagationPolicy", propagation, ["Foreground", "Background", "Orphan"]
        )
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", [error])
    preconditions = options.preconditions or _Preconditions()
    dry_run = call.dry_run("DeleteOptions") or is_dry_run(options.dry_run or [], "DeleteOptions")
    return DeleteOptions(propagation, preconditions.uid, preconditions.resource_version, dry_run)


def _decode_options(call: RequestContext) -> _WireOptions:
    if not call.request.body:
        return _WireOptions()
    if len(call.request.body) > MAX_OPTIONS:
        raise errors.too_large(MAX_OPTIONS)
    body = decode_object(call.request.headers, call.request.body)
    if body.get("kind") not in (None, "", "DeleteOptions"):  # an object that was sent by mistake
        raise errors.bad_request("the body of a delete must be DeleteOptions")
    try:
        return msgspec.convert(body, _WireOptions)
    except msgspec.ValidationError as error:
        raise errors.bad_request(f"the delete options cannot be read: {error}") from error
