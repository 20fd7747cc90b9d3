"""OpenAPI 2, as far as kubectl needs it: where each kind is patched, and by which parameters.

For lists of objects and for kinds that it does not know, kubectl asks for this document instead of
OpenAPI 3, and stops where it is missing. It has no schemas on purpose: kubectl then computes
patches from its own types, as :mod:`.openapi` says. kubectl asks for protobuf, other clients for
JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.request.protobuf import write

PROTOBUF_ACCEPTED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_INFO = {"title": "Kubernetes", "version": "unversioned"}
_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


def as_json(kinds: Sequence[ServedKind]) -> bytes:
    parameters = [{"name": name, "in": "query", "type": "string"} for name in _PARAMETERS]
    paths = {
        path: {
            "patch": {
                "operationId": operation,
                "parameters": parameters,
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            }
        }
        for path, operation, kind in _patches(kinds)
    }
    document = {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": {}}
    return msgspec.json.encode(document)


def as_protobuf(kinds: Sequence[ServedKind]) -> bytes:
    """The same as a message of gnostic's OpenAPIv2 schema."""
    parameters = [
        # ParametersItem, Parameter, NonBodyParameter, QueryParameterSubSchema
        write(1, write(2, write(3, write(2, "query"), write(4, name), write(6, "string"))))
        for name in _PARAMETERS
    ]
    responses = write(9, write(1, write(1, "200"), write(2, write(1, write(1, "OK")))))
    items = []
    for path, operation, kind in _patches(kinds):
        action = write(13, write(1, "x-kubernetes-action"), write(2, write(2, "patch\n")))
        served = write(2, write(2, msgspec.json.encode(kind)))
        served = write(13, write(1, "x-kubernetes-group-version-kind"), served)
        taken = [write(8, each) for each in parameters]
        patch = write(8, write(5, operation), *taken, responses, action, served)
        items.append(write(2, write(1, path), write(2, patch)))
    info = write(2, write(1, _INFO["title"]), write(2, _INFO["version"]))
    return b"".join([write(1, "2.0"), info, write(8, *items), write(9)])


def _patches(kinds: Iterable[ServedKind]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, operation and kind of everything that can be patched."""
    for kind in kinds:
        resource = kind.resource
        if "patch" not in kind.verbs:
            continue
        operation = f"patch_{resource.group or 'core'}_{resource.version}_{resource.kind}"
        named = {"group": resource.group, "kind": resource.kind, "version": resource.version}
        yield resource.path("{namespace}", "{name}"), operation, named
