"""Admission: a write is reviewed before it is stored, as a real server asks its webhooks.

An admission may change the object (``mutate``) and then allow or deny it (``validate``). Both
exchange AdmissionReviews. Kinds without an admission never come here.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from datum_compute.api import planes
from datum_compute.api.scheme import Resource
from datum_compute.apiserver import errors
from datum_compute.apiserver.objects import patches
from datum_compute.apiserver.request.access import RequestUser
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import StoredObject
from datum_compute.env import Environment
from datum_compute.log import get_logger

ADMITTED_VERBS = frozenset({"create", "update", "patch"})

_log = get_logger(__name__)

Review = dict[str, Any]
"""An AdmissionReview of ``admission.k8s.io/v1`` as JSON values: a request, or a response."""
Reviewer = Callable[[Review], Awaitable[Review]]


@dataclass(frozen=True, slots=True)
class Admission:
    """Reviews writes of some kinds, on project planes."""

    name: str
    resources: frozenset[str]
    """Each as ``plural.group``."""
    mutate: Reviewer
    validate: Reviewer
    verbs: frozenset[str] = ADMITTED_VERBS

    def matches(self, verb: str, call: RequestContext) -> bool:
        return (
            verb in self.verbs
            and call.kind.resource.group_resource in self.resources
            and not call.target.subresource
            and call.plane.type is planes.PROJECT
        )


class AdmissionRefused(Exception):
    """The admission denied the write, or failed; ``error`` is the response."""

    def __init__(self, error: errors.ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class AdmissionReviews:
    """The reviews of one write, and the warnings that came with the last responses."""

    def __init__(self, admission: Admission, call: RequestContext, env: Environment) -> None:
        self._admission = admission
        self._call = call
        self._env = env
        self.warnings: list[str] = []

    async def admit(
        self,
        obj: dict[str, Any],
        before: StoredObject | None,
        *,
        dry_run: bool,
        complete: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """The object as it may be stored instead of ``before``. Raises AdmissionRefused. Ours are
        content with an object that is not completed between the two reviews."""
        self.warnings = []
        old = None
        if before is not None:
            old = self._call.plane.writer.read(self._call.kind, before)
        response = await self._send(self._admission.mutate, self._review(obj, old, dry_run))
        obj = patched(obj, response, self._admission.name)
        await self._send(self._admission.validate, self._review(obj, old, dry_run))
        return obj

    async def _send(self, reviewer: Reviewer, review: Review) -> dict[str, Any]:
        name = self._admission.name
        try:
            response = (await reviewer(review))["response"]
            allowed, warnings = response["allowed"], response.get("warnings") or []
        except Exception as error:  # any failure denies the write
            _log.exception("admission failed", admission=name)
            raise AdmissionRefused(_failed(name, str(error))) from error
        self.warnings += [str(text) for text in warnings]
        if allowed is not True:
            raise AdmissionRefused(denied(name, response.get("status") or {}))
        return dict(response)

    def _review(self, obj: dict[str, Any], old: dict[str, Any] | None, dry_run: bool) -> Review:
        call = self._call
        resource = call.kind.resource
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": self._env.new_uid(),
                **kind_of(resource, ""),
                **kind_of(resource, "request"),
                "name": obj["metadata"].get("name", ""),
                "namespace": call.target.namespace,
                "operation": "CREATE" if old is None else "UPDATE",
                "userInfo": user_info(call.user, call.plane.name),
                "object": obj,
                "oldObject": old,
                "dryRun": dry_run,
            },
        }


def kind_of(resource: Resource, prefix: str) -> dict[str, Any]:
    """``kind`` and ``resource`` of a request, or with a prefix ``requestKind`` and so on."""
    where = {"group": resource.group, "version": resource.version}
    kind, what = {**where, "kind": resource.kind}, {**where, "resource": resource.plural}
    if prefix:
        return {f"{prefix}Kind": kind, f"{prefix}Resource": what}
    return {"kind": kind, "resource": what}


def user_info(user: RequestUser, plane: str) -> dict[str, Any]:
    """The user, with the project of the request, as Milo's control plane adds it."""
    return {
        **user.to_wire(),
        "extra": {
            **{key: list(values) for key, values in user.extra},
            "iam.miloapis.com/parent-api-group": ["resourcemanager.miloapis.com"],
            "iam.miloapis.com/parent-type": ["Project"],
            "iam.miloapis.com/parent-name": [planes.cluster_name(plane)],
        },
    }


def patched(obj: dict[str, Any], response: dict[str, Any], name: str) -> dict[str, Any]:
    encoded = response.get("patch")
    if not encoded:
        return obj
    try:
        operations = json.loads(base64.b64decode(encoded, validate=True))
        result = patches.json_patch(obj, operations)
    except (binascii.Error, ValueError, errors.ApiError) as error:
        raise AdmissionRefused(_failed(name, f"its patch does not apply: {error}")) from error
    if not isinstance(result, dict):
        raise AdmissionRefused(_failed(name, "its patch does not result in an object"))
    return result


def _failed(name: str, why: str) -> errors.ApiError:
    message = f'Internal error occurred: failed calling webhook "{name}": {why}'
    return errors.ApiError(500, "InternalError", message)


def denied(name: str, status: dict[str, Any]) -> errors.ApiError:
    code = status.get("code")
    why = status.get("message") or status.get("reason")
    reason = f": {why}" if why else " without explanation"
    return errors.ApiError(
        code if isinstance(code, int) and 400 <= code < 600 else 400,
        status.get("reason") or "",
        f'admission webhook "{name}" denied the request{reason}',
        status.get("details"),
    )
