"""Reviews of users, tokens and rights. Nothing of them is stored.

They are answered by the authorizer that every request passes. A review of another user or of a
token needs a right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datum_compute.api import fields
from datum_compute.apiserver import codec, errors
from datum_compute.apiserver.kinds.access_kinds import AUTHORIZATION, REVIEWS
from datum_compute.apiserver.request import access, protobuf, protobuf_bodies
from datum_compute.apiserver.request.access import Attributes, RequestUser
from datum_compute.apiserver.request.body import content_type, decode_object
from datum_compute.apiserver.request.rbac import Rights
from datum_compute.apiserver.request.routes import ResourcePath
from datum_compute.apiserver.request.tokens import AUDIENCE
from datum_compute.client.transport import HttpRequest, HttpResponse

UserOfToken = Callable[[str, str], RequestUser | None]
"""The user of a token for an audience."""


def kind_of(target: ResourcePath) -> str:
    """The kind of review that is asked for; empty for anything else."""
    if target.name:
        return ""
    return REVIEWS.get((target.group, target.version, target.plural), "")


def respond(
    kind: str,
    target: ResourcePath,
    request: HttpRequest,
    user: RequestUser,
    plane: str,
    rights: Rights,
    user_of: UserOfToken,
) -> HttpResponse:
    is_local = kind == "LocalSubjectAccessReview"
    if bool(target.namespace) != is_local:
        raise errors.PathNotFound
    if request.method != "POST":
        raise errors.method_not_allowed("a review can only be created")
    asked = Attributes("create", plane, target.group, target.plural, "", target.namespace)
    if not rights.allows(user, asked):
        raise access.forbidden(user, asked)
    spec = _spec(_body(target.plural, request))
    review = {
        "kind": kind,
        "apiVersion": f"{target.group}/v1",
        "metadata": {"namespace": target.namespace} if is_local else {},
    }
    if kind == "SelfSubjectReview":
        review |= {"status": {"userInfo": user.to_wire()}}
    elif kind == "TokenReview":
        review |= {"spec": spec, "status": _token_status(spec, user_of)}
    elif kind == "SelfSubjectRulesReview":
        review |= {"spec": spec, "status": _rules_status(spec, user, plane, rights)}
    else:
        subject = user if kind == "SelfSubjectAccessReview" else _subject(spec)
        about = _attributes(spec, plane)
        if is_local and about.namespace != target.namespace:
            detail = f"must match metadata.namespace: {target.namespace}"
            raise _invalid("spec.resourceAttributes.namespace", about.namespace, detail)
        status: dict[str, Any] = {"allowed": rights.allows(subject, about)}
        if status["allowed"] and (reason := rights.reason(subject, about)):
            status["reason"] = reason
        review |= {"spec": spec, "status": status}
    return HttpResponse(201, errors.JSON_HEADERS, codec.encode_json(review))


MAX_REVIEW = 16 * 1024
"""Bytes of a review. A guess: the longest have the groups of a user."""


def _body(plural: str, request: HttpRequest) -> dict[str, Any]:
    if len(request.body) > MAX_REVIEW:
        raise errors.too_large(MAX_REVIEW)
    if content_type(request.headers) == protobuf.MEDIA_TYPE:
        return protobuf_bodies.decode_review(plural, request.body)
    return decode_object(request.headers, request.body)


def _token_status(spec: dict[str, Any], user_of: UserOfToken) -> dict[str, Any]:
    token = spec.get("token")
    if not isinstance(token, str) or not token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    wanted = [str(each) for each in spec.get("audiences") or ()]
    for audience in wanted or [AUDIENCE]:
        if (user := user_of(token, audience)) is not None:
            return {"authenticated": True, "user": user.to_wire(), "audiences": [audience]}
    return {"user": {}, "error": "invalid bearer token"}


def _rules_status(
    spec: dict[str, Any], user: RequestUser, plane: str, rights: Rights
) -> dict[str, Any]:
    namespace = spec.get("namespace")
    if not namespace:
        raise errors.bad_request("no namespace on request")
    rules = [rule.to_wire() for rule in rights.rules(user, plane, str(namespace))]
    return {
        "resourceRules": [each for each in rules if "resources" in each],
        "nonResourceRules": [each for each in rules if "nonResourceURLs" in each],
        "incomplete": False,
    }


def _subject(spec: dict[str, Any]) -> RequestUser:
    """The user that the review is about; rights depend on name and groups alone."""
    name, groups = spec.get("user"), spec.get("groups")
    name = name if isinstance(name, str) else ""
    groups = groups if isinstance(groups, list) else []
    if not name and not groups:
        raise _invalid("spec.user", "", "at least one of user or group must be specified")
    return RequestUser(name, tuple(str(group) for group in groups))


def _spec(body: dict[str, Any]) -> dict[str, Any]:
    spec = body.get("spec")
    return spec if isinstance(spec, dict) else {}


def _attributes(spec: dict[str, Any], plane: str) -> Attributes:
    about = spec.get("resourceAttributes")
    if isinstance(about, dict):
        keys = ("verb", "group", "resource", "subresource", "namespace", "name")
        values = {key: str(about.get(key) or "") for key in keys}
        return Attributes(plane=plane, **values)
    about = spec.get("nonResourceAttributes")
    if isinstance(about, dict):
        verb, path = str(about.get("verb") or ""), str(about.get("path") or "")
        return Attributes(verb=verb, plane=plane, path=path)
    detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    raise _invalid("spec.resourceAttributes", None, detail)


def _invalid(field: str, value: Any, detail: str) -> errors.ApiError:
    return errors.invalid("", AUTHORIZATION, "", [fields.invalid(field, value, detail)])
