"""get and list.

A list without a limit is the current state. With a limit, the first page fixes the revision
and every further page is taken from the state at that revision, so all pages show one moment;
when that moment has left the history the next page is a 410.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Iterable, Iterator
from itertools import dropwhile

import msgspec

from datum_compute.api import fields
from datum_compute.apiserver import errors as status
from datum_compute.apiserver.printing.renderer import Page, Renderer
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.request.flow_control import SLICE_BYTES
from datum_compute.apiserver.request.selection import Selection
from datum_compute.apiserver.storage.protocol import Store, StoredObject
from datum_compute.client.transport import HttpResponse


class _Token(msgspec.Struct, frozen=True):
    v: str
    rv: int
    start: tuple[str, str]
    """The last key already sent."""


_TOKEN_VERSION = "meta.k8s.io/v1"
_decode_token = msgspec.json.Decoder(_Token).decode


def check_revision(call: RequestContext) -> None:
    """Raise 504 where a get asks for a state that is yet to come."""
    if call.flag("export"):
        raise status.bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported"
        )
    revision, current = call.number("resourceVersion"), call.plane.store.revision
    if revision is not None and revision > current:
        raise status.revision_too_large(revision, current)


def get(call: RequestContext, renderer: Renderer) -> HttpResponse:
    """On the loop :func:`check_revision` comes first: a worker process knows no revision."""
    stored = call.existing()
    return renderer.body(renderer.stored(stored, call.plane.store.content(stored)))


def list_objects(
    call: RequestContext, renderer: Renderer, store: Store
) -> HttpResponse | Awaitable[HttpResponse]:
    _check_options(call)
    token = _token(call)
    selection = Selection(call, store.value)
    revision, rows = _rows(call, token)
    if token is not None:
        rows = dropwhile(lambda row: (row.namespace, row.name) <= token.start, rows)
    limit = _limit(call)
    if selection.selects_all:
        return _page(call, renderer, store, revision, rows, limit, counts=True)
    return _select(call, renderer, store, revision, rows, limit, selection)


async def _select(
    call: RequestContext,
    renderer: Renderer,
    store: Store,
    revision: int,
    rows: Iterable[StoredObject],
    limit: int,
    selection: Selection,
) -> HttpResponse:
    """A page of what the selection matches. Other requests go on while it is looked for, so the
    rows are held: a version never changes."""
    chosen: list[StoredObject] = []
    cost = 0
    for row in list(rows):
        cost += selection.cost(row)
        if cost > SLICE_BYTES:
            cost = 0
            await asyncio.sleep(0)
        if selection.matches(row):
            chosen.append(row)
            if limit and len(chosen) > limit:  # one more than the page has
                break
    return _page(call, renderer, store, revision, chosen, limit, counts=False)


def _page(
    call: RequestContext,
    renderer: Renderer,
    store: Store,
    revision: int,
    rows: Iterable[StoredObject],
    limit: int,
    *,
    counts: bool,
) -> HttpResponse:
    chosen = iter(rows)
    page = _take(chosen, limit)
    following = next(chosen, None) if limit and len(page) == limit else None
    where = Page(str(revision))
    if following is not None:
        last = (page[-1].namespace, page[-1].name)
        next_token = _encode_token(_Token(_TOKEN_VERSION, revision, last))
        remaining = 1 + sum(1 for _ in chosen) if counts else None
        where = Page(str(revision), next_token, remaining)
    # Versions, not bytes: those of a version that is superseded meanwhile are in the log.
    items = (renderer.stored(row, store.content(row)) for row in page)
    return renderer.many(items, where)


def _rows(call: RequestContext, token: _Token | None) -> tuple[int, Iterable[StoredObject]]:
    """The objects to select from, and the revision they are read at."""
    plane = call.plane.store
    exact = _exact_revision(call) if token is None else token.rv
    if exact is None or exact == plane.revision:
        return plane.revision, call.table.in_order(call.namespace)
    if exact < plane.compacted:
        raise status.expired(
            "The provided continue parameter is too old to display a consistent list result. You"
            " must start a new list without the continue parameter."
            if token
            else f"The resourceVersion for the provided list is too old: {exact}"
        )
    rows = call.table.snapshot(exact)
    if call.namespace is None:
        return exact, rows
    return exact, (row for row in rows if row.namespace == call.namespace)


def _check_options(call: RequestContext) -> None:
    match, revision = (call.query.get(key, "") for key in (_MATCH, "resourceVersion"))
    faults = []
    if match and not revision:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        faults.append(fields.forbidden(_MATCH, detail))
    if match and call.query.get("continue"):
        detail = "resourceVersionMatch is forbidden when continue is provided"
        faults.append(fields.forbidden(_MATCH, detail))
    if match and match not in ("Exact", "NotOlderThan"):
        faults.append(fields.not_supported(_MATCH, match, ["Exact", "NotOlderThan", ""]))
    if match == "Exact" and revision == "0":
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        faults.append(fields.forbidden(_MATCH, detail))
    if "sendInitialEvents" in call.query:
        detail = "sendInitialEvents is forbidden for list"
        faults.append(fields.forbidden("sendInitialEvents", detail))
    if faults:
        raise status.invalid("ListOptions", "meta.k8s.io", "", faults)
    call.number("timeoutSeconds", signed=True)


_MATCH = "resourceVersionMatch"


def _limit(call: RequestContext) -> int:
    """0 for none, and where any state will do: the real server has that in memory."""
    limit = call.number("limit", signed=True) or 0
    return (
        0 if call.query.get("resourceVersion") == "0" and not call.query.get("continue") else limit
    )


def _exact_revision(call: RequestContext) -> int | None:
    """The exact revision of the request; None where the current state will do. Of a page without a
    match it is exact too."""
    revision, current = call.number("resourceVersion"), call.plane.store.revision
    if revision is not None and revision > current:
        raise status.revision_too_large(revision, current)
    match = call.query.get(_MATCH) or ("Exact" if revision and _limit(call) else "")
    return revision if match == "Exact" else None


def _take(rows: Iterator[StoredObject], limit: int) -> list[StoredObject]:
    if not limit:
        return list(rows)
    page: list[StoredObject] = []
    for row in rows:
        page.append(row)
        if len(page) == limit:
            break
    return page


def _encode_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _token(call: RequestContext) -> _Token | None:
    text = call.query.get("continue", "")
    if not text:
        return None
    if call.query.get("resourceVersion", "") not in ("", "0"):
        raise status.bad_request("specifying resource version is not allowed when using continue")
    try:
        token = _decode_token(base64.urlsafe_b64decode(text))
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise status.bad_request(
            f"invalid continue token: continue key is not valid: {error}"
        ) from error
    if token.v != _TOKEN_VERSION or token.rv > call.plane.store.revision:
        raise status.bad_request("continue key is not valid: it was not issued by this server")
    return token
