"""The wire form of an AdmissionReview.

Unknown fields, as of later versions, are ignored; the fields read here must have the right
type. A review that cannot be read is a :class:`BadReview`, whose message names the field.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.api.core import UserInfo
from datum_compute.api.fields import FieldError, aggregate
from datum_compute.api.scheme import Resource

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
"""Unknown operations are refused: they might need a review."""

MAX_CAUSES = 64
"""The most causes of one refusal."""


class BadReview(Exception):
    """Not a review that can be answered; the message names what was expected."""


class GroupResource(msgspec.Struct, frozen=True, kw_only=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class ReviewRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    uid: str
    resource: GroupResource
    operation: str
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: Any = None  # any JSON value, not validated yet
    old_object: Any = None
    dry_run: bool | None = None


class _Review(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: ReviewRequest | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A denial, as a ``Status``."""

    code: int
    reason: str
    message: str
    details: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ReviewResponse:
    """The answer to a request; only a mutating review has a patch."""

    refusal: Refusal | None = None
    warnings: tuple[str, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()


def from_wire(values: Any) -> ReviewRequest:
    """The request in a review given as JSON values."""
    try:
        review = msgspec.convert(_without_nulls(values), _Review)
    except msgspec.ValidationError as error:
        raise BadReview(f"the body is not an {KIND}: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        found = f"{review.api_version or 'no apiVersion'} {review.kind or 'no kind'}"
        raise BadReview(f"expected {API_VERSION} {KIND}, found {found}")
    if review.request is None:
        raise BadReview(f"the {KIND} has no request")
    if not review.request.uid:
        raise BadReview(f"the {KIND} has an empty request.uid")
    if review.request.operation not in OPERATIONS:
        found = review.request.operation
        raise BadReview(str(fields.not_supported("request.operation", found, OPERATIONS)))
    return review.request


def _without_nulls(values: Any) -> Any:
    """The review without null fields, which mean the same as absent ones. The objects under
    review are left as they are."""
    if not isinstance(values, dict) or not isinstance(values.get("request"), dict):
        return values
    request = _present(values["request"])
    if isinstance(user := request.get("userInfo"), dict):
        request["userInfo"] = _present(user)
    return {**values, "request": request}


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def check_resource(request: ReviewRequest, resource: Resource) -> None:
    found = f"{request.resource.resource}.{request.resource.group}"
    if found != resource.group_resource:
        raise BadReview(f'reviews of {resource.group_resource} are answered here, not of "{found}"')


def to_wire(uid: str, answer: ReviewResponse) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": answer.refusal is None}
    if answer.refusal is not None:
        response["status"] = _status(answer.refusal)
    elif answer.patch:
        response["patchType"] = "JSONPatch"
        patch = json.dumps(answer.patch, separators=(",", ":")).encode()
        response["patch"] = base64.b64encode(patch).decode("ascii")
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def invalid(resource: Resource, name: str, errors: Sequence[FieldError]) -> Refusal:
    """The refusal of an invalid object, with a cause for each fault."""
    listed, more = errors[:MAX_CAUSES], len(errors) - MAX_CAUSES
    message = f'{resource.kind}.{resource.group} "{name}" is invalid: {aggregate(listed)}'
    details = {
        "name": name,
        "group": resource.group,
        "kind": resource.kind,
        "causes": [
            {"reason": error.cause_reason, "message": error.message, "field": error.path}
            for error in listed
        ],
    }
    if more > 0:
        message = f"{message} and {more} more"
    return Refusal(422, "Invalid", message, details)


def unavailable(message: str) -> Refusal:
    """The refusal when the project cannot be read: a retry may succeed."""
    return Refusal(503, "ServiceUnavailable", message, {"retryAfterSeconds": 1})


def _status(refusal: Refusal) -> dict[str, Any]:
    status: dict[str, Any] = {
        "status": "Failure",
        "code": refusal.code,
        "reason": refusal.reason,
        "message": refusal.message,
    }
    if refusal.details:
        status["details"] = refusal.details
    return status
