"""The subresource ``token`` of service accounts: a TokenRequest makes a token."""

from __future__ import annotations

from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import encode_json
from datum_compute.apiserver.objects import object_meta
from datum_compute.apiserver.request.body import decode_object
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.request.tokens import AUDIENCE, SERVICE_ACCOUNTS, ServiceAccountTokens
from datum_compute.client.transport import HttpResponse

SUBRESOURCE = "token"
DEFAULT_SECONDS = 3600
_MIN_SECONDS, _MAX_SECONDS = 600, 2**32
_MAX_REQUEST = 16 * 1024


class _Spec(msgspec.Struct, rename="camel"):
    audiences: list[str] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: dict[str, Any] | None = None


def create(call: RequestContext, tokens: ServiceAccountTokens) -> HttpResponse:
    """Raises 404 for an unknown account, and 422 for a lifetime that is too short or too long."""
    if call.kind.stored_as != SERVICE_ACCOUNTS:
        raise errors.PathNotFound
    if call.request.method != "POST":
        raise errors.method_not_allowed()
    if len(call.request.body) > _MAX_REQUEST:
        raise errors.too_large(_MAX_REQUEST)
    account = call.existing()
    body = decode_object(call.request.headers, call.request.body) if call.request.body else {}
    try:
        spec = msgspec.convert(body.get("spec") or {}, _Spec)
    except msgspec.ValidationError as error:
        raise errors.bad_request(f"the spec of the TokenRequest cannot be read: {error}") from error
    if spec.bound_object_ref:
        detail = "a token cannot be bound to an object here"
        raise _invalid(fields.forbidden("spec.boundObjectRef", detail))
    seconds = DEFAULT_SECONDS if spec.expiration_seconds is None else spec.expiration_seconds
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        if seconds > _MAX_SECONDS:
            detail = "may not specify a duration larger than 2^32 seconds"
        raise _invalid(fields.invalid("spec.expirationSeconds", seconds, detail))
    audiences = spec.audiences or [AUDIENCE]
    token, expires = tokens.issue(
        call.plane.name, account.namespace, account.name, account.uid, audiences, seconds
    )
    answer = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": account.name, "namespace": account.namespace},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None},
        "status": {"token": token, "expirationTimestamp": object_meta.timestamp(expires)},
    }
    return HttpResponse(201, errors.JSON_HEADERS, encode_json(answer))


def _invalid(error: fields.FieldError) -> errors.ApiError:
    return errors.invalid("TokenRequest", "authentication.k8s.io", "", [error])
