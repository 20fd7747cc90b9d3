"""Everything a plane serves that is not an object: version, health, discovery, OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from datum_compute.apiserver import errors
from datum_compute.apiserver.builtin import discovery, openapi, openapi_v2
from datum_compute.apiserver.codec import encode_json
from datum_compute.apiserver.objects.planes import Plane
from datum_compute.client.transport import HttpRequest, HttpResponse

VERSION = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.4+datum",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "any/any",
}
"""The API is that of Kubernetes 1.32. Some kubectl builds choose the client they run by this."""

_AGGREGATED = re.compile(
    r"application/json;\s*(?:g=apidiscovery\.k8s\.io;\s*v=(v2beta1|v2);\s*as=APIGroupDiscoveryList)"
)


def respond(plane: Plane, path: str, request: HttpRequest) -> HttpResponse:
    """The response to a GET of a path that addresses no object. Raises PathNotFound."""
    if path in ("/", "/index.html"):
        return _json(_cached(plane, "/", lambda: {"paths": _paths(plane)}))
    if path == "/version":
        return _json(VERSION)
    if path.split("/")[1] in _HEALTH:
        return _health(path, request)
    if path in ("/api", "/apis"):
        return _roots(plane, path, request)
    if path == "/openapi/v3":
        index = _cached(plane, path, lambda: openapi.index(plane.registry.kinds(), plane.prefix))
        return _json(index)
    if path == "/openapi/v2":
        return _openapi_v2(plane, request)
    parts = path.strip("/").split("/")
    if parts[:2] == ["openapi", "v3"]:
        return _openapi(plane, parts[2:], request)
    return _group_or_version(plane, parts)


def _paths(plane: Plane) -> list[str]:
    """What is served besides objects."""
    kinds = plane.registry.kinds()
    groups = {f"/apis/{kind.resource.group}" for kind in kinds if kind.resource.group}
    versions = {f"/apis/{kind.resource.api_version}" for kind in kinds if kind.resource.group}
    health = {f"/{name}{check}" for name in _HEALTH for check in ("", *_CHECKS)}
    others = ("/api", "/api/v1", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/version")
    return sorted({*groups, *versions, *health, *others})


_HEALTH = ("healthz", "livez", "readyz")
_CHECKS = ("/ping", "/etcd")
"""Each answers by itself, under the names that the real server has for them."""


def _health(path: str, request: HttpRequest) -> HttpResponse:
    if (check := path.rpartition("/")) and check[0] and f"/{check[2]}" not in _CHECKS:
        raise errors.PathNotFound
    if any(key == "verbose" for key, _ in request.query):
        name = path.split("/")[1]
        lines = f"[+]ping ok\n[+]store ok\n{name} check passed\n"
        return HttpResponse(200, errors.TEXT_HEADERS, lines.encode())
    return HttpResponse(200, errors.TEXT_HEADERS, b"ok")


def _roots(plane: Plane, path: str, request: HttpRequest) -> HttpResponse:
    core = path == "/api"
    wanted = _AGGREGATED.search(request.headers.get("accept", ""))
    kinds = plane.registry.kinds
    if wanted is None:
        build = discovery.core_versions if core else lambda: discovery.group_list(kinds())
        return _json(_cached(plane, (path, ""), build))
    version = wanted[1]
    body, tag = _cached(
        plane,
        (path, version),
        lambda: _tagged(discovery.aggregated(kinds(), core=core, version=version)),
    )
    headers = {
        "content-type": (
            f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        ),
        "etag": tag,
        "vary": "Accept",
        "cache-control": "public",
    }
    if request.headers.get("if-none-match") == tag:
        return HttpResponse(304, headers)
    return HttpResponse(200, headers, body)


def _tagged(document: dict[str, Any]) -> tuple[bytes, str]:
    return encode_json(document), discovery.etag(document)


def _group_or_version(plane: Plane, parts: list[str]) -> HttpResponse:
    kinds = plane.registry.kinds()
    document = None
    if parts == ["api", "v1"]:
        document = discovery.resource_list(kinds, "", "v1")
    elif parts[0] == "apis" and len(parts) == 2:
        document = discovery.group(kinds, parts[1])
    elif parts[0] == "apis" and len(parts) == 3:
        document = discovery.resource_list(kinds, parts[1], parts[2])
    if document is None:
        raise errors.PathNotFound
    return _json(document)


def _openapi(plane: Plane, place: list[str], request: HttpRequest) -> HttpResponse:
    if (place[:1], len(place)) not in ((["api"], 2), (["apis"], 3)):
        raise errors.PathNotFound
    body, digest = openapi.encoded_document(plane.registry.kinds(), "/".join(place[1:]))
    if not body:
        raise errors.PathNotFound
    tag = f'"{digest}"'
    headers = {"content-type": "application/json", "etag": tag, "vary": "Accept"}
    if dict(request.query).get("hash") == digest:
        headers["cache-control"] = "public, immutable"
    if request.headers.get("if-none-match") == tag:
        return HttpResponse(304, headers)
    return HttpResponse(200, headers, body)


def _openapi_v2(plane: Plane, request: HttpRequest) -> HttpResponse:
    accepted = request.headers.get("accept", "") or "*/*"
    media = [clause.partition(";")[0].strip() for clause in accepted.split(",")]
    known = (openapi_v2.PROTOBUF_ACCEPTED, "application/json", "application/*", "*/*")
    chosen = next((each for each in media if each in known), None)
    if chosen is None:
        raise errors.not_acceptable(f"application/json, {openapi_v2.PROTOBUF_ACCEPTED}")
    build, form = openapi_v2.as_json, "application/json"
    if chosen == openapi_v2.PROTOBUF_ACCEPTED:
        build, form = openapi_v2.as_protobuf, openapi_v2.PROTOBUF_TYPE
    body = _cached(plane, ("/openapi/v2", form), lambda: build(plane.registry.kinds()))
    return HttpResponse(200, {"content-type": form, "vary": "Accept"}, body)


def _cached(plane: Plane, key: Any, build: Callable[[], Any]) -> Any:
    """A document of this plane, built again only when the kinds it serves have changed."""
    generation, document = plane.documents.get(key, (-1, None))
    if generation != plane.registry.generation:
        generation, document = plane.registry.generation, build()
        plane.documents[key] = (generation, document)
    return document


def _json(document: Any) -> HttpResponse:
    return HttpResponse(200, errors.JSON_HEADERS, encode_json(document))
