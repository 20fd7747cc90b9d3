"""OpenAPI 3: an index, and one document per group and version.

kubectl reads them to learn whether the server checks unknown fields itself (the
``fieldValidation`` parameter of a PATCH), to map a kind to its paths, and for ``explain``.
The index links each document under a hash of its content, so that clients may
cache it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api.scheme import Resource
from datum_compute.apiserver import codec
from datum_compute.apiserver.builtin import openapi_meta as meta
from datum_compute.apiserver.kinds.served_kind import SUBRESOURCE_VERBS, ServedKind, StoredForm
from datum_compute.apiserver.schema import Schema

Document = dict[str, Any]

_PATCHES = (codec.JSON_PATCH, codec.MERGE_PATCH)
"""What every kind takes. Strategic merge is left out on purpose: kubectl then computes those
patches from its own types, which know more of built-in kinds than our schemas."""


def index(kinds: Sequence[ServedKind], prefix: str = "") -> Document:
    """``/openapi/v3``. ``prefix`` is the plane's: links are relative to the server's root."""
    paths: Document = {}
    for api_version in sorted({kind.resource.api_version for kind in kinds}):
        place = _place(api_version)
        link = f"{prefix}/openapi/v3/{place}?hash={_hash(_facts(kinds, api_version))}"
        paths[place] = {"serverRelativeURL": link}
    return {"paths": paths}


def encoded_document(kinds: Sequence[ServedKind], group_version: str) -> tuple[bytes, str]:
    """The document as bytes, and the hash the index links it under; empty when there is none."""
    facts = _facts(kinds, group_version)
    if not facts:
        return b"", ""
    name = _hash(facts)
    return _documents.find(name) or _documents.add(name, _encoded(facts)), name


def _facts(kinds: Sequence[ServedKind], group_version: str) -> tuple[_Facts, ...]:
    return tuple(
        _Facts(k.resource, k.list_kind, k.has_status, k.has_scale, k.verbs, k.schema, k.stored_form)
        for k in sorted(kinds, key=lambda kind: kind.resource.plural)
        if k.resource.api_version == group_version
    )


def _place(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a document depends on. Equal schemas are one object, so identity is enough."""

    resource: Resource
    list_kind: str
    has_status: bool
    has_scale: bool
    verbs: tuple[str, ...]
    schema: Schema
    stored_form: StoredForm | None = None

    @property
    def named(self) -> tuple[Any, ...]:
        return self.resource, self.list_kind, self.has_status, self.has_scale, self.verbs


class RecentDocuments:
    """Those that were built last, by hash: planes of one type share theirs. Bounded by bytes, since
    definitions of users may be large and are soon gone."""

    MAX_BYTES = 4 * 1024 * 1024

    def __init__(self) -> None:
        self._found: dict[str, bytes] = {}
        self.size = 0

    def find(self, name: str) -> bytes | None:
        document = self._found.pop(name, None)
        if document is not None:
            self._found[name] = document  # the first is the one that was used least recently
        return document

    def add(self, name: str, document: bytes) -> bytes:
        if len(document) <= self.MAX_BYTES:
            self._found[name] = document
            self.size += len(document)
        while self.size > self.MAX_BYTES:
            self.size -= len(self._found.pop(next(iter(self._found))))
        return document


_documents = RecentDocuments()


def _encoded(kinds: tuple[_Facts, ...]) -> bytes:
    document = _document(kinds)
    return msgspec.json.encode(document, order="sorted")


def _hash(kinds: tuple[_Facts, ...]) -> str:
    """Of what the document depends on: the index has all hashes, and builds no document."""
    text = msgspec.json.encode([(*kind.named, kind.schema.digest) for kind in kinds])
    return hashlib.sha512(text).hexdigest()[:64].upper()


def _document(kinds: Iterable[_Facts]) -> Document:
    paths: Document = {}
    components = meta.shared_components()
    for kind in kinds:
        paths.update(_paths(kind))
        name = _component(kind.resource, kind.resource.kind)
        components[name] = _object_component(kind)
        components[_component(kind.resource, kind.list_kind)] = _list_component(kind, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": components},
    }


def _component(resource: Resource, kind: str) -> str:
    """Component names reverse the group, as upstream's generator does."""
    group = ".".join(reversed(resource.group.split("."))) if resource.group else "io.k8s.api.core"
    return f"{group}.{resource.version}.{kind}"


def _object_component(kind: _Facts) -> Document:
    source = kind.schema.source
    declared = source.get("properties", {})
    if kind.stored_form is not None:
        declared = kind.stored_form.shown(declared, "")
    properties = {
        **declared,
        "apiVersion": meta.API_VERSION_FIELD,
        "kind": meta.KIND_FIELD,
        "metadata": meta.described(meta.OBJECT_META, "Name, identity and labels of the object."),
    }
    return {**source, "properties": properties, **_gvk_list(kind.resource, kind.resource.kind)}


def _list_component(kind: _Facts, item: str) -> Document:
    return {
        "type": "object",
        "description": f"A list of {kind.resource.plural}.",
        "required": ["items"],
        "properties": {
            "apiVersion": meta.API_VERSION_FIELD,
            "kind": meta.KIND_FIELD,
            "metadata": meta.described(meta.LIST_META, "The version and the page of the list."),
            "items": {
                "type": "array",
                "items": meta.reference(item),
                "description": "The objects.",
            },
        },
        **_gvk_list(kind.resource, kind.list_kind),
    }


def _paths(kind: _Facts) -> Document:
    resource = kind.resource
    collection = resource.path("{namespace}")
    one = resource.path("{namespace}", "{name}")
    in_namespace = [_path_parameter("namespace")] if resource.namespaced else []
    named = [*in_namespace, _path_parameter("name")]
    item = _component(resource, resource.kind)
    paths = {
        collection: {"parameters": in_namespace, **_collection_operations(kind)},
        one: {"parameters": named, **_object_operations(kind, item)},
    }
    if resource.namespaced and "list" in kind.verbs:
        everywhere = _operation(kind, "list", _component(resource, kind.list_kind), "AllNamespaces")
        paths[resource.path()] = {"parameters": [], "get": everywhere}
    if kind.has_status:
        below = _operations(kind, SUBRESOURCE_VERBS, item, "Status")
        paths[f"{one}/status"] = {"parameters": named, **below}
    if kind.has_scale:
        below = _operations(kind, SUBRESOURCE_VERBS, meta.SCALE, "Scale")
        paths[f"{one}/scale"] = {"parameters": named, **below}
    return paths


# verb -> (HTTP method, x-kubernetes-action)
_METHODS = {
    "list": ("get", "list"),
    "create": ("post", "post"),
    "deletecollection": ("delete", "deletecollection"),
    "get": ("get", "get"),
    "update": ("put", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
}


def _collection_operations(kind: _Facts) -> Document:
    item = _component(kind.resource, kind.resource.kind)
    listed = _component(kind.resource, kind.list_kind)
    answers = {"list": listed, "create": item, "deletecollection": meta.STATUS}
    return {
        _METHODS[verb][0]: _operation(kind, verb, answer)
        for verb, answer in answers.items()
        if verb in kind.verbs
    }


def _object_operations(kind: _Facts, item: str) -> Document:
    wanted = [verb for verb in ("get", "update", "patch", "delete") if verb in kind.verbs]
    return _operations(kind, wanted, item)


def _operations(kind: _Facts, verbs: Sequence[str], item: str, suffix: str = "") -> Document:
    return {
        _METHODS[verb][0]: _operation(kind, verb, meta.STATUS if verb == "delete" else item, suffix)
        for verb in verbs
    }


def _operation(kind: _Facts, verb: str, answer: str, suffix: str = "") -> Document:
    resource = kind.resource
    method, action = _METHODS[verb]
    operation: Document = {
        "operationId": f"{verb}{_identifier(resource)}{resource.kind}{suffix}",
        "tags": [_identifier(resource)],
        "parameters": [_query(name, text) for name, text in _PARAMETERS.get(verb, {}).items()],
        "responses": {"200": {"description": "OK", "content": _json(answer)}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(resource, resource.kind),
    }
    if verb in ("create", "update"):
        operation["requestBody"] = {"content": _json(answer), "required": True}
    elif verb == "patch":
        content = {form: {"schema": meta.reference(meta.PATCH)} for form in _PATCHES}
        operation["requestBody"] = {"content": content, "required": True}
    elif method == "delete":
        operation["requestBody"] = {"content": _json(meta.DELETE_OPTIONS)}
    return operation


def _identifier(resource: Resource) -> str:
    words = f"{resource.group or 'core'}.{resource.version}".replace("-", ".").split(".")
    return "".join(word[:1].upper() + word[1:] for word in words)


def _json(component: str) -> Document:
    return {"application/json": {"schema": meta.reference(component)}}


def _gvk(resource: Resource, kind: str) -> Document:
    return {"group": resource.group, "kind": kind, "version": resource.version}


def _gvk_list(resource: Resource, kind: str) -> Document:
    return {"x-kubernetes-group-version-kind": [_gvk(resource, kind)]}


def _path_parameter(name: str) -> Document:
    text = {"name": "The object's name.", "namespace": "The object's namespace."}[name]
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}


def _query(name: str, description: str) -> Document:
    kind = {"limit": "integer", "timeoutSeconds": "integer"}.get(name, "string")
    if name in ("watch", "allowWatchBookmarks", "sendInitialEvents", "force"):
        kind = "boolean"
    schema = {"type": kind, "uniqueItems": True}
    return {"name": name, "in": "query", "description": description, "schema": schema}


_WRITING = {
    "dryRun": "All: process the request without storing anything.",
    "fieldManager": "The name of the client that writes.",
    "fieldValidation": "What to do about unknown fields: Ignore, Warn or Strict.",
}
_SELECTING = {
    "labelSelector": "Only objects with these labels.",
    "fieldSelector": "Only objects with these values of selectable fields.",
    "limit": "The most objects in one response.",
    "continue": "The token from the previous page.",
    "resourceVersion": "How recent the response must be.",
    "resourceVersionMatch": "How resourceVersion is interpreted.",
    "timeoutSeconds": "Seconds after which the request ends.",
}
_PARAMETERS = {
    "create": _WRITING,
    "update": _WRITING,
    "patch": {**_WRITING, "force": "For an apply: take over fields of other clients."},
    "deletecollection": _SELECTING,
    "list": {
        **_SELECTING,
        "watch": "Follow changes instead of listing.",
        "allowWatchBookmarks": "Send bookmarks in a watch.",
        "sendInitialEvents": "Begin a watch with the current state.",
    },
}
