"""Questions about people: who am I, what may I, and may somebody else.

The last is for those who decide on behalf of others, so it takes a right of its own. All are
answered by the authorizer that every request has to pass.
"""

from __future__ import annotations

from typing import Any

from datum_compute.apiserver import codec, errors
from datum_compute.apiserver.request import access, protobuf, protobuf_bodies
from datum_compute.apiserver.request.access import Attributes, Authorizer, RequestUser
from datum_compute.apiserver.request.body import content_type, decode_object
from datum_compute.client.transport import HttpRequest, HttpResponse

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAY_I = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WHAT_MAY_I = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
MAY_THEY = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def respond(
    path: str, request: HttpRequest, user: RequestUser, plane: str, authorizer: Authorizer
) -> HttpResponse | None:
    """The answer to a review; None when the path is none."""
    if path not in (WHO_AM_I, MAY_I, WHAT_MAY_I, MAY_THEY):
        return None
    if request.method != "POST":
        raise errors.method_not_allowed("a review can only be created")
    _check_may_ask(path, user, plane, authorizer)
    body = _body(path, request)
    if path == WHO_AM_I:
        answer = _who(user)
    elif path == MAY_I:
        answer = _may(body, "SelfSubjectAccessReview", user, plane, authorizer)
    elif path == WHAT_MAY_I:
        answer = _rules(body, user, plane, authorizer)
    else:
        answer = _may(body, "SubjectAccessReview", _subject(body), plane, authorizer)
    return HttpResponse(201, errors.JSON_HEADERS, codec.encode_json(answer))


def _body(path: str, request: HttpRequest) -> dict[str, Any]:
    if content_type(request.headers) == protobuf.MEDIA_TYPE:
        return protobuf_bodies.decode_review(path.rpartition("/")[2], request.body)
    return decode_object(request.headers, request.body)


def _who(user: RequestUser) -> dict[str, Any]:
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "status": {"userInfo": {"username": user.name, "groups": list(user.groups)}},
    }


def _rules(
    body: dict[str, Any], user: RequestUser, plane: str, authorizer: Authorizer
) -> dict[str, Any]:
    """Rights are the same in every namespace, so the one asked about only has to be named."""
    spec = body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
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


def _check_may_ask(path: str, user: RequestUser, plane: str, authorizer: Authorizer) -> None:
    group, _, resource = path.removeprefix("/apis/").split("/")
    asking = Attributes("create", plane, group, resource)
    if not authorizer.allows(user, asking):
        message = f"{resource}.{group} is forbidden: {access.denial(user, asking)}"
        raise errors.ApiError(403, "Forbidden", message, {"group": group, "kind": resource})


def _subject(body: dict[str, Any]) -> RequestUser:
    """Whom the question is about. What else is known of them changes nothing here: rights
    hang on names and groups."""
    spec = body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    name, groups = spec.get("user"), spec.get("groups")
    name = name if isinstance(name, str) else ""
    groups = groups if isinstance(groups, list) else []
    if not name and not groups:
        raise errors.bad_request("at least one of user or groups must be specified")
    return RequestUser(name, tuple(str(group) for group in groups))


def _may(
    body: dict[str, Any], kind: str, user: RequestUser, plane: str, authorizer: Authorizer
) -> dict[str, Any]:
    spec = body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    asked = _attributes(spec, plane)
    return {
        "kind": kind,
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": authorizer.allows(user, asked)},
    }


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
