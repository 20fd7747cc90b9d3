"""Reviews of users and their rights: SelfSubjectReview and the three access reviews.

They are answered by the authorizer that every request passes. A SubjectAccessReview is about
another user and needs a grant.
"""

from __future__ import annotations

from typing import Any

from datum_compute.apiserver import codec, errors
from datum_compute.apiserver.request import access, protobuf, protobuf_bodies
from datum_compute.apiserver.request.access import Attributes, Authorizer, RequestUser
from datum_compute.apiserver.request.body import content_type, decode_object
from datum_compute.client.transport import HttpRequest, HttpResponse

SELF_SUBJECT_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SELF_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SELF_RULES_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def respond(
    path: str, request: HttpRequest, user: RequestUser, plane: str, authorizer: Authorizer
) -> HttpResponse | None:
    """The response to a review; None for any other path."""
    if path not in (SELF_SUBJECT_REVIEWS, SELF_ACCESS_REVIEWS, SELF_RULES_REVIEWS, ACCESS_REVIEWS):
        return None
    if request.method != "POST":
        raise errors.method_not_allowed("a review can only be created")
    _authorize(path, user, plane, authorizer)
    body = _body(path, request)
    if path == SELF_SUBJECT_REVIEWS:
        review = _user_review(user)
    elif path == SELF_ACCESS_REVIEWS:
        review = _access_review(body, "SelfSubjectAccessReview", user, plane, authorizer)
    elif path == SELF_RULES_REVIEWS:
        review = _rules_review(body, user, plane, authorizer)
    else:
        review = _access_review(body, "SubjectAccessReview", _subject(body), plane, authorizer)
    return HttpResponse(201, errors.JSON_HEADERS, codec.encode_json(review))


MAX_REVIEW = 16 * 1024
"""Bytes of a review. A guess: the longest have the groups of a user."""


def _body(path: str, request: HttpRequest) -> dict[str, Any]:
    if len(request.body) > MAX_REVIEW:
        raise errors.too_large(MAX_REVIEW)
    if content_type(request.headers) == protobuf.MEDIA_TYPE:
        return protobuf_bodies.decode_review(path.rpartition("/")[2], request.body)
    return decode_object(request.headers, request.body)


def _user_review(user: RequestUser) -> dict[str, Any]:
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "status": {"userInfo": {"username": user.name, "groups": list(user.groups)}},
    }


def _rules_review(
    body: dict[str, Any], user: RequestUser, plane: str, authorizer: Authorizer
) -> dict[str, Any]:
    """Rights are the same in every namespace, so the namespace is required but not used."""
    spec = _spec(body)
    if not spec.get("namespace"):
        raise errors.bad_request("no namespace on request")
    rules = [
        {"verbs": list(rule.verbs), "apiGroups": [rule.group], "resources": [rule.resource]}
        for rule in authorizer.rules(user, plane)
    ]
    paths = [{"verbs": ["get"], "nonResourceURLs": list(authorizer.paths(user))}]
    return {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": {"resourceRules": rules, "nonResourceRules": paths, "incomplete": False},
    }


def _authorize(path: str, user: RequestUser, plane: str, authorizer: Authorizer) -> None:
    group, _, resource = path.removeprefix("/apis/").split("/")
    attributes = Attributes("create", plane, group, resource)
    if not authorizer.allows(user, attributes):
        raise access.forbidden(user, attributes)


def _subject(body: dict[str, Any]) -> RequestUser:
    """The user that the review is about; rights depend on name and groups alone."""
    spec = _spec(body)
    name, groups = spec.get("user"), spec.get("groups")
    name = name if isinstance(name, str) else ""
    groups = groups if isinstance(groups, list) else []
    if not name and not groups:
        raise errors.bad_request("at least one of user or groups must be specified")
    return RequestUser(name, tuple(str(group) for group in groups))


def _access_review(
    body: dict[str, Any], kind: str, user: RequestUser, plane: str, authorizer: Authorizer
) -> dict[str, Any]:
    spec = _spec(body)
    return {
        "kind": kind,
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": authorizer.allows(user, _attributes(spec, plane))},
    }


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
    raise errors.bad_request(
        "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    )
