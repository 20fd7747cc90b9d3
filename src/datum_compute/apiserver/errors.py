"""The errors a client gets: ``Status`` bodies with the codes and texts of a kube-apiserver.

Clients match on codes, reasons and details, and people know the messages. An
:class:`ApiError` may be raised anywhere below the handler, which turns it into a response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from datum_compute.api.fields import MAX_ERRORS, MAX_TEXT, FieldError, aggregate
from datum_compute.api.scheme import Resource
from datum_compute.client.transport import HttpResponse

JSON_HEADERS = {"content-type": "application/json"}
TEXT_HEADERS = {"content-type": "text/plain; charset=utf-8"}


class ApiError(Exception):
    """An error with everything its ``Status`` carries."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def to_wire(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if not self.reason:  # a webhook may give none
            del status["reason"]
        if self.details:
            status["details"] = self.details
        return status

    def response(self) -> HttpResponse:
        headers = dict(JSON_HEADERS)
        if "retryAfterSeconds" in self.details:
            headers["retry-after"] = str(self.details["retryAfterSeconds"])
        return HttpResponse(self.code, headers, msgspec.json.encode(self.to_wire()))


class NotDecoded(ApiError):
    """The object has a field of another type: 400, and of a patch the patch is at fault."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


class PathNotFound(Exception):
    """No such path: a 404 in plain text, from which clients know that the kind is not served."""


PATH_NOT_FOUND = HttpResponse(404, TEXT_HEADERS, b"404 page not found\n")


def path_not_found() -> ApiError:
    """No such path below a group of the server's own: there it is a Status."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def success(resource: Resource, name: str, uid: str) -> bytes:
    """The body for a completed deletion."""
    details = _about(resource, name) | {"uid": uid}
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
    )


def _about(resource: Resource, name: str = "") -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in details.items() if value}


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    what = f'{resource.group_resource} "{name}"' if name else resource.group_resource
    return ApiError(403, "Forbidden", f"{what} is forbidden: {why}", _about(resource, name))


def forbidden_path(user: str, verb: str, path: str) -> ApiError:
    message = f'forbidden: User "{user}" cannot {verb} path "{path}"'
    return ApiError(403, "Forbidden", message)


def no_impersonation(user: str) -> ApiError:
    message = f'forbidden: User "{user}" cannot impersonate another user here'
    return ApiError(403, "Forbidden", message)


def namespace_terminating(resource: Resource, name: str, namespace: str) -> ApiError:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(resource, name, why)
    error.details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    return error


def not_found(resource: Resource, name: str) -> ApiError:
    message = f'{resource.group_resource} "{name}" not found'
    return ApiError(404, "NotFound", message, _about(resource, name))


def method_not_allowed(
    message: str = "the server does not allow this method on the requested resource",
) -> ApiError:
    return ApiError(405, "MethodNotAllowed", message)


def not_acceptable(accepted: str) -> ApiError:
    message = f"only the following media types are accepted: {accepted}"
    return ApiError(406, "NotAcceptable", message)


def cannot_be_shown(form: str, why: str) -> ApiError:
    message = f"you requested {form}, but the requested object {why}"
    return ApiError(406, "NotAcceptable", message)


def already_exists(resource: Resource, name: str, *, leaving: bool = False) -> ApiError:
    message = f'{resource.group_resource} "{name}" already exists'
    if leaving:
        message = f"object is being deleted: {message}"
    return ApiError(409, "AlreadyExists", message, _about(resource, name))


def conflict(resource: Resource, name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, _about(resource, name))


def modified(resource: Resource, name: str) -> ApiError:
    why = (
        "the object has been modified; please apply your changes to the latest version"
        " and try again"
    )
    return conflict(resource, name, why)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_large(limit: int) -> ApiError:
    message = f"Request entity too large: limit is {limit}"
    return ApiError(413, "RequestEntityTooLarge", message)


def unsupported_media(accepted: str) -> ApiError:
    message = (
        "the body of the request was in an unknown format - accepted media types include:"
        f" {accepted}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422 with one cause per error, of many for the first. ``kind`` is the kind, not the
    plural."""
    qualified, name = f"{kind}.{group}" if group else kind, name[:MAX_TEXT]
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [
        {"reason": error.cause_reason, "message": error.message, "field": error.path[:MAX_TEXT]}
        for error in errors[:MAX_ERRORS]
    ]
    message = f'{qualified} "{name}" is invalid: {aggregate(errors)}'
    return ApiError(422, "Invalid", message, details)


def invalid_object(resource: Resource, name: str, errors: Sequence[FieldError]) -> ApiError:
    return invalid(resource.kind, resource.group, name, errors)


def rejected_patch() -> ApiError:
    """For a JSON patch that does not apply."""
    message = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", message, {"causes": []})


def revision_too_large(requested: int, current: int) -> ApiError:
    message = f"Too large resource version: {requested}, current: {current}"
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError(504, "Timeout", f"Timeout: {message}", details)


def too_many_requests(why: str, retry_seconds: int) -> ApiError:
    message = f"too many requests, please try again later: {why}"
    return ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_seconds})


def internal(why: str = "the server failed; see its log") -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {why}")


def unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message, {"retryAfterSeconds": 1})
