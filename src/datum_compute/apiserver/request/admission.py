"""Asking somebody else before a write is stored.

For some kinds the server first sends what it is about to store to an admission, as a real
server sends it to a webhook: it may be changed, then it is judged. That takes time, and
everything may be different afterwards. So a write is drafted and tried, the answer is
awaited, and then the object is looked at again: if somebody else has written it meanwhile,
the draft is made anew on top of that and asked about again.

Kinds that nobody asks about never come here.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api import planes
from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import decode_json
from datum_compute.apiserver.objects import patches
from datum_compute.apiserver.planes import Plane
from datum_compute.apiserver.printing.renderer import Renderer
from datum_compute.apiserver.request.access import RequestUser
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.verbs import writes
from datum_compute.apiserver.verbs.writes import Draft
from datum_compute.client.transport import HttpResponse
from datum_compute.env import Environment
from datum_compute.log import get_logger

ATTEMPTS = 5
"""How often a draft is made before the caller is told to try again; as upstream."""

VERBS = frozenset({"create", "update", "patch"})

_log = get_logger(__name__)

Review = dict[str, Any]
"""An AdmissionReview of ``admission.k8s.io/v1`` as JSON values: a request, or a response."""
Reviewer = Callable[[Review], Awaitable[Review]]


@dataclass(frozen=True, slots=True)
class Admission:
    """Whom to ask about which kinds, on project planes."""

    name: str
    resources: frozenset[str]
    """Each as ``plural.group``."""
    mutate: Reviewer
    validate: Reviewer
    verbs: frozenset[str] = VERBS

    def matches(self, verb: str, call: RequestContext) -> bool:
        return (
            verb in self.verbs
            and call.kind.resource.group_resource in self.resources
            and not call.target.subresource
            and call.plane.type is planes.PROJECT
        )


class _Refused(Exception):
    def __init__(self, error: errors.ApiError) -> None:
        super().__init__(error.message)
        self.error = error


async def write(
    admission: Admission,
    verb: str,
    call: RequestContext,
    renderer: Renderer,
    env: Environment,
    plane: Callable[[], Plane],
) -> HttpResponse:
    """A create, update or patch with admission. ``plane`` gives the plane of this name as it
    is then. Raises what the write without admission would."""
    asked = _Asking(admission, call, env)
    for _ in range(ATTEMPTS):
        draft = writes.draft(verb, call)
        trial = writes.store(call, draft, pretend=True)
        if draft.before is not None and trial.stored is draft.before:
            return writes.build_response(renderer, draft, trial)  # nothing changes: nothing to ask
        try:
            final = await asked.about(draft, decode_json(trial.raw))
        except _Refused as refused:
            return writes.with_warnings(refused.error.response(), asked.warnings)
        if plane() is not call.plane:
            raise errors.PathNotFound  # it went away, and another one came
        if not _has_moved(call, draft):
            written = writes.store(call, msgspec.structs.replace(draft, obj=final, old=None))
            # What was dropped was dropped by the trial.
            written = msgspec.structs.replace(written, unknown=trial.unknown)
            return writes.build_response(renderer, draft, written, tuple(asked.warnings))
    raise errors.modified(call.kind.resource, call.target.name)


def _has_moved(call: RequestContext, draft: Draft) -> bool:
    """Whether what the draft was made on is no longer so."""
    if draft.before is None:
        writes.check_creatable(call, draft.obj)
        return False
    return call.existing() is not draft.before


class _Asking:
    """The questions of one request, and the warnings that came with the last answers."""

    def __init__(self, admission: Admission, call: RequestContext, env: Environment) -> None:
        self._admission = admission
        self._call = call
        self._env = env
        self.warnings: list[str] = []

    async def about(self, draft: Draft, obj: dict[str, Any]) -> dict[str, Any]:
        """The object as it may be stored."""
        self.warnings = []
        old = None
        if draft.before is not None:
            old = self._call.plane.writer.read(self._call.kind, draft.before)
        response = await self._ask(self._admission.mutate, self._review(draft, obj, old))
        obj = _patched(obj, response, self._admission.name)
        await self._ask(self._admission.validate, self._review(draft, obj, old))
        return obj

    async def _ask(self, reviewer: Reviewer, review: Review) -> dict[str, Any]:
        name = self._admission.name
        try:
            response = (await reviewer(review))["response"]
            allowed, warnings = response["allowed"], response.get("warnings") or []
        except Exception as error:  # whatever it is, it is not a yes
            _log.exception("admission failed", admission=name)
            raise _Refused(_failed(name, str(error))) from error
        self.warnings += [str(text) for text in warnings]
        if allowed is not True:
            raise _Refused(_denied(name, response.get("status") or {}))
        return dict(response)

    def _review(self, draft: Draft, obj: dict[str, Any], old: dict[str, Any] | None) -> Review:
        call = self._call
        resource = call.kind.resource
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        what = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": self._env.new_uid(),
                "kind": kind,
                "resource": what,
                "requestKind": kind,
                "requestResource": what,
                "name": obj["metadata"].get("name", ""),
                "namespace": call.target.namespace,
                "operation": "CREATE" if old is None else "UPDATE",
                "userInfo": _user_info(call.user, call.plane.name),
                "object": obj,
                "oldObject": old,
                "dryRun": draft.dry_run,
            },
        }


def _user_info(user: RequestUser, plane: str) -> dict[str, Any]:
    """Who asks, with the project they act in, as the real control plane notes it."""
    return {
        "username": user.name,
        "groups": list(user.groups),
        "extra": {
            "iam.miloapis.com/parent-api-group": ["resourcemanager.miloapis.com"],
            "iam.miloapis.com/parent-type": ["Project"],
            "iam.miloapis.com/parent-name": [planes.cluster_name(plane)],
        },
    }


def _patched(obj: dict[str, Any], response: dict[str, Any], name: str) -> dict[str, Any]:
    encoded = response.get("patch")
    if not encoded:
        return obj
    try:
        operations = json.loads(base64.b64decode(encoded, validate=True))
        patched = patches.json_patch(obj, operations)
    except (binascii.Error, ValueError, errors.ApiError) as error:
        raise _Refused(_failed(name, f"its patch does not fit: {error}")) from error
    if not isinstance(patched, dict):
        raise _Refused(_failed(name, "its patch leaves no object"))
    return patched


def _failed(name: str, why: str) -> errors.ApiError:
    message = f'Internal error occurred: failed calling webhook "{name}": {why}'
    return errors.ApiError(500, "InternalError", message)


def _denied(name: str, said: dict[str, Any]) -> errors.ApiError:
    code = said.get("code")
    message = said.get("message") or "without explanation"
    return errors.ApiError(
        code if isinstance(code, int) and 400 <= code < 600 else 403,
        said.get("reason") or "Forbidden",
        f'admission webhook "{name}" denied the request: {message}',
        said.get("details"),
    )
