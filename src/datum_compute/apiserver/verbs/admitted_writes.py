"""create, update and patch of kinds that have an admission.

A review takes time, and the object may change meanwhile. So a write is drafted and tried, the
review is awaited, and then the object is read again: if it has changed, the draft is built
again on top of the change and reviewed again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.cel import OverBudget
from datum_compute.apiserver.codec import decode_json
from datum_compute.apiserver.objects import object_meta
from datum_compute.apiserver.objects.lifecycle import WriteResult
from datum_compute.apiserver.objects.planes import Plane
from datum_compute.apiserver.printing.renderer import Renderer
from datum_compute.apiserver.request.admission import AdmissionRefused
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import StoredObject
from datum_compute.apiserver.verbs import writes
from datum_compute.apiserver.verbs.writes import Draft
from datum_compute.client.transport import HttpResponse

ATTEMPTS = 5
"""Drafts before the client gets a conflict; as upstream."""
MAX_REVIEWED = 64 * 1024
"""Bytes of an object that is reviewed, on the loop. A guess: ten times what a large one has."""

TryWrite = Callable[[str, RequestContext], Awaitable[tuple[Draft, WriteResult] | HttpResponse]]
"""What a write would store; a response where it is refused."""


class Reviews(Protocol):
    """The reviews of one write."""

    warnings: list[str]

    async def admit(
        self,
        obj: dict[str, Any],
        before: StoredObject | None,
        *,
        dry_run: bool,
        complete: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> dict[str, Any]: ...


async def write(
    reviews: Reviews,
    verb: str,
    call: RequestContext,
    renderer: Renderer,
    plane: Callable[[], Plane],
    try_write: TryWrite | None = None,
    *,
    is_heavy: bool = False,
) -> HttpResponse:
    """A create, update or patch with admission. ``plane`` gives the plane of this name as it
    is then; ``try_write`` tries it elsewhere than on the loop, if the write ``is_heavy`` or its
    rules are. Raises what the write without admission would."""
    for _ in range(ATTEMPTS):
        draft, trial = None, None
        if not is_heavy or try_write is None:
            draft, trial = _try_here(verb, call, may_hurry=try_write is not None)
        if (draft is None or trial is None) and try_write is not None:
            tried = await try_write(verb, call)
            if isinstance(tried, HttpResponse):
                return tried
            draft, trial = tried
            if len(trial.raw) > MAX_REVIEWED:
                raise errors.too_large(MAX_REVIEWED)
        assert draft is not None
        assert trial is not None
        if draft.before is not None and trial.stored is draft.before:
            return writes.build_response(renderer, draft, trial)  # nothing changes
        judged = [decode_json(trial.raw)]
        try:
            final = await reviews.admit(
                judged[0],
                draft.before,
                dry_run=draft.dry_run,
                complete=partial(_complete, call, draft, judged),
            )
        except AdmissionRefused as refused:
            return writes.with_warnings(refused.error.response(), reviews.warnings)
        if plane() is not call.plane:
            raise errors.PathNotFound  # the plane was deleted, and perhaps created again
        if not _is_outdated(call, draft):
            # What the review changes belongs to nobody.
            managed = trial.managed
            final_draft = msgspec.structs.replace(draft, obj=final, old=None, managed=managed)
            is_judged = any(final is one for one in judged)
            with call.plane.writer.judged() if is_judged else nullcontext():
                written = writes.store(call, final_draft)
            # What was dropped was dropped by the trial.
            written = msgspec.structs.replace(written, unknown=trial.unknown)
            return writes.build_response(renderer, draft, written, tuple(reviews.warnings))
    raise errors.modified(call.kind.resource, call.target.name)


def _try_here(
    verb: str, call: RequestContext, *, may_hurry: bool
) -> tuple[Draft | None, WriteResult | None]:
    """What would be stored; nothing if the rules of the definition take too long."""
    draft = writes.draft(verb, call)
    try:
        return draft, writes.store(call, draft, dry_run=True)
    except OverBudget:
        if may_hurry:
            return None, None
    with call.plane.writer.unhurried():
        draft = writes.draft(verb, call)
        return draft, writes.store(call, draft, dry_run=True)


def _complete(
    call: RequestContext, draft: Draft, judged: list[dict[str, Any]], obj: dict[str, Any]
) -> dict[str, Any]:
    changed = msgspec.structs.replace(draft, obj=obj, old=None)
    try:
        completed: dict[str, Any] = decode_json(writes.store(call, changed, dry_run=True).raw)
    except OverBudget:
        why = "the rules of the definition take too long for an object that webhooks change"
        raise errors.bad_request(why) from None
    # A webhook may not send it elsewhere than the request has been authorized for.
    object_meta.set_namespace(call.kind, completed, call.target.namespace)
    if call.target.name:
        object_meta.check_name(completed, call.target.name)
    judged.append(completed)
    return completed


def _is_outdated(call: RequestContext, draft: Draft) -> bool:
    """Whether the object has changed since the draft. Raises when it can no longer be created."""
    if draft.before is None:
        writes.check_creatable(call, draft.obj)
        return False
    return call.existing() is not draft.before
