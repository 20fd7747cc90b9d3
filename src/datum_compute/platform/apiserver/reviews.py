"""Questions about oneself: who am I, and may I."""

from __future__ import annotations

from typing import Any

from datum_compute.client.transport import Request, Response
from datum_compute.platform.apiserver import decoding, status
from datum_compute.platform.apiserver.access import Attributes, Authorizer, User

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAY_I = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def respond(
    path: str, request: Request, user: User, plane: str, authorizer: Authorizer
) -> Response | None:
    """The answer to a review; None when the path is none."""
    if path not in (WHO_AM_I, MAY_I):
        return None
    if request.method != "POST":
        raise status.method_not_allowed("a review can only be created")
    body = decoding.decode_object(request.headers, request.body)
    answer = _who(user) if path == WHO_AM_I else _may(body, user, plane, authorizer)
    return Response(201, status.JSON, decoding.encode_json(answer))


def _who(user: User) -> dict[str, Any]:
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "status": {"userInfo": {"username": user.name, "groups": list(user.groups)}},
    }


def _may(body: dict[str, Any], user: User, plane: str, authorizer: Authorizer) -> dict[str, Any]:
    spec = body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    asked = _attributes(spec, plane)
    return {
        "kind": "SelfSubjectAccessReview",
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
    raise status.bad_request(
        "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    )
