"""create, update and patch of kinds that have an admission.

A review takes time, and the object may change meanwhile. So a write is drafted and tried, the
review is awaited, and then the object is read again: if it has changed, the draft is built
again on top of the change and reviewed again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import decode_json
from datum_compute.apiserver.objects.lifecycle import WriteResult
from datum_compute.apiserver.objects.planes import Plane
from datum_compute.apiserver.printing.renderer import Renderer
from datum_compute.apiserver.request.admission import Admission, AdmissionRefused, AdmissionReviews
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.verbs import writes
from datum_compute.apiserver.verbs.writes import Draft
from datum_compute.client.transport import HttpResponse
from datum_compute.env import Environment

ATTEMPTS = 5
"""Drafts before the client gets a conflict; as upstream."""
MAX_REVIEWED = 64 * 1024
"""Bytes of an object that is reviewed, on the loop. A guess: ten times what a large one has."""

TryWrite = Callable[[str, RequestContext], Awaitable[tuple[Draft, WriteResult] | HttpResponse]]
"""What a write would store; a response where it is refused."""


async def write(
    admission: Admission,
    verb: str,
    call: RequestContext,
    renderer: Renderer,
    env: Environment,
    plane: Callable[[], Plane],
    try_write: TryWrite | None = None,
) -> HttpResponse:
    """A create, update or patch with admission. ``plane`` gives the plane of this name as it
    is then; ``try_write`` tries it elsewhere than on the loop. Raises what the write without
    admission would."""
    reviews = AdmissionReviews(admission, call, env)
    for _ in range(ATTEMPTS):
        if try_write is None:
            draft = writes.draft(verb, call)
            trial = writes.store(call, draft, dry_run=True)
        else:
            tried = await try_write(verb, call)
            if isinstance(tried, HttpResponse):
                return tried
            draft, trial = tried
            if len(trial.raw) > MAX_REVIEWED:
                raise errors.too_large(MAX_REVIEWED)
        if draft.before is not None and trial.stored is draft.before:
            return writes.build_response(renderer, draft, trial)  # nothing changes
        try:
            final = await reviews.admit(decode_json(trial.raw), draft.before, dry_run=draft.dry_run)
        except AdmissionRefused as refused:
            return writes.with_warnings(refused.error.response(), reviews.warnings)
        if plane() is not call.plane:
            raise errors.PathNotFound  # the plane was deleted, and perhaps created again
        if not _is_outdated(call, draft):
            # What the review changes belongs to nobody.
            managed = trial.managed
            final_draft = msgspec.structs.replace(draft, obj=final, old=None, managed=managed)
            written = writes.store(call, final_draft)
            # What was dropped was dropped by the trial.
            written = msgspec.structs.replace(written, unknown=trial.unknown)
            return writes.build_response(renderer, draft, written, tuple(reviews.warnings))
    raise errors.modified(call.kind.resource, call.target.name)


def _is_outdated(call: RequestContext, draft: Draft) -> bool:
    """Whether the object has changed since the draft. Raises when it can no longer be created."""
    if draft.before is None:
        writes.check_creatable(call, draft.obj)
        return False
    return call.existing() is not draft.before
