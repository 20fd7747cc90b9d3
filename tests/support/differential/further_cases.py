"""Requests that differ in one thing each from what clients usually send, sent after the others.

Each is there since the two servers once answered it differently, or could easily do so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.differential.raw_cases import (
    ACCOUNTS,
    CORE,
    DEFINITIONS,
    GROUP,
    JSON_PATCH,
    MAPS,
    MERGE,
    STRATEGIC,
    TABLE,
    WIDGETS,
    RawCase,
    config_map,
    definition,
    obj,
    widget,
)

APPLY = "application/apply-patch+yaml"
_TEXT = {"type": "string"}
_NAMED = {"type": "object", "required": ["a"], "properties": {"a": _TEXT}}


def further_cases() -> Iterator[RawCase]:
    yield from _definitions()
    for kind, path, make in (("map", MAPS, config_map), ("widget", WIDGETS, widget)):
        for number in (1, 2, 3):
            labels = {"n": str(number), "far": "yes"}
            body = make(f"n{number}", metadata={"labels": labels})
            yield RawCase(f"further {kind} {number}", "POST", path, body)
        yield from _lists(kind, path)
        yield from _patches(kind, f"{path}/n1")
    yield from _selectors()
    yield from _forms()
    yield from _applies()
    yield from _strategic_patches()
    untyped = obj("Secret", "untyped", type="")
    yield RawCase("further secret of empty type", "POST", f"{CORE}/secrets", untyped, "dryRun=All")
    yield from _paths()


def _definitions() -> Iterator[RawCase]:
    for name, field in _FIELDS.items():
        spec = {"type": "object", "properties": {"f": field}}
        schema = {"type": "object", "properties": {"spec": spec}}
        yield _definition(f"schema {name}", schema={"openAPIV3Schema": schema})
    for name, schema in _ROOTS.items():
        yield _definition(f"schema {name}", schema={"openAPIV3Schema": schema})
    for name, fields in _VERSIONS.items():
        yield _definition(f"version {name}", **fields)
    yield _definition("conversion without strategy", conversion={})
    review = {"conversionReviewVersions": ["v1"]}
    yield _definition("conversion", conversion={"strategy": "None", "webhook": review})
    empty = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    body = {**empty, "metadata": {"name": "x.y.z"}}
    yield RawCase("definition without spec", "POST", DEFINITIONS, body, "dryRun=All")


_FIELDS: dict[str, Any] = {
    "not structural": {"type": "object", "not": {"x-kubernetes-preserve-unknown-fields": True}},
    "of list items": {"type": "array", "items": [_TEXT]},
    "of type null": {"type": "null"},
    "with reference": {"$ref": "#/x"},
    "with items beside": {"type": "array", "items": _TEXT, "additionalItems": _TEXT},
    "with text as number": {"type": "integer", "minimum": "1"},
    "with bad default": {"type": "string", "default": 1},
    "with default that lacks a field": {**_NAMED, "default": {}},
    "of embedded nothing": {"type": "object", "x-kubernetes-embedded-resource": True},
    "of set of objects": {"type": "array", "x-kubernetes-list-type": "set", "items": _NAMED},
    "of set with nulls": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "nullable": True},
    },
    "with absent key": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["z"],
        "items": _NAMED,
    },
    "with key twice": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a", "a"],
        "items": _NAMED,
    },
    "with keys of texts": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a"],
        "items": _TEXT,
    },
    "with keys alone": {"type": "array", "x-kubernetes-list-map-keys": ["a"], "items": _NAMED},
    "with odd map": {"type": "object", "x-kubernetes-map-type": "odd"},
    "that does not keep": {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
    "with bad rule": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >"}]},
}
_ROOTS: dict[str, Any] = {
    "that may be null": {"type": "object", "nullable": True},
    "that is a map": {"type": "object", "additionalProperties": _TEXT},
    "of metadata": {
        "type": "object",
        "properties": {"metadata": {"type": "object", "properties": {"labels": _TEXT}}},
    },
    "of default metadata": {
        "type": "object",
        "properties": {"metadata": {"type": "object", "default": {}}},
    },
    "of version as number": {"type": "object", "properties": {"apiVersion": {"type": "integer"}}},
}
_VERSIONS: dict[str, Any] = {
    "with scale without path": {"subresources": {"scale": {"specReplicasPath": ".spec.n"}}},
    "with scale elsewhere": {
        "subresources": {
            "scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}
        }
    },
    "with absent selectable field": {"selectableFields": [{"jsonPath": ".spec.z"}]},
    "with selectable object": {"selectableFields": [{"jsonPath": ".spec"}]},
    "with field selectable twice": {"selectableFields": [{"jsonPath": ".spec.color"}] * 2},
    "with column without type": {"additionalPrinterColumns": [{"name": "A", "jsonPath": ".a"}]},
    "with column of odd format": {
        "additionalPrinterColumns": [
            {"name": "A", "type": "string", "format": "odd", "jsonPath": ".a"}
        ]
    },
    "with empty warning": {"deprecated": True, "deprecationWarning": ""},
    "with odd name": {"name": "v1.2"},
    "without storage": {"storage": None},
}


def _definition(case: str, /, *, conversion: Any = None, **version: Any) -> RawCase:
    names = {"plural": "others", "kind": "Other"}
    body = definition(names=names, **({} if conversion is None else {"conversion": conversion}))
    body["metadata"] = {"name": f"others.{GROUP}"}
    versions = body["spec"]["versions"]
    if "schema" in version:  # another schema has not the fields that these name
        versions[0].pop("selectableFields")
        versions[0].pop("subresources")
    versions[0] |= version
    return RawCase(f"definition, {case}", "POST", DEFINITIONS, body, "dryRun=All")


def _selectors() -> Iterator[RawCase]:
    for parameter, selectors in (
        ("labelSelector", ("n>1", "n < 3", "n>x", "Far/n=1", "far=yes,n notin (1)", "n in (1,)")),
        (
            "fieldSelector",
            (
                "metadata.name=a=b",
                r"metadata.name=a\xb",
                " metadata.name=n1",
                "metadata.name==n1,",
                "=n1",
            ),
        ),
    ):
        for selector in selectors:
            query = f"{parameter}={selector}"
            yield RawCase(f"further list {selector}", "GET", MAPS, None, query)


def _lists(kind: str, path: str) -> Iterator[RawCase]:
    for query in (
        "limit=-1",
        "limit=1&limit=2",
        "limit=1&resourceVersion=0",
        "timeoutSeconds=x",
        "sendInitialEvents=false",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
        "watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan",
        "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=Exact",
        "watch=1&timeoutSeconds=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
        "watch=1&timeoutSeconds=1&continue=x",
    ):
        selected = f"labelSelector=far=yes&{query}"
        yield RawCase(f"further list {kind} {query}", "GET", path, None, selected)
    watched = "watch=1&timeoutSeconds=1&labelSelector=far=yes"
    yield RawCase(f"further {kind} watched as table", "GET", path, None, watched, accept=TABLE)
    yield RawCase(f"further {kind} exported", "GET", f"{path}/n1", None, "export=true")


def _forms() -> Iterator[RawCase]:
    form = "application/json;as={};v={};g=meta.k8s.io"
    for what, place in (("list", WIDGETS), ("object", f"{WIDGETS}/n1")):
        for accept in (
            "application/json;as=Table",
            form.format("Table", "v2"),
            form.format("Table", "v1beta1"),
            form.format("PartialObjectMetadata", "v1beta1"),
            form.format("PartialObjectMetadataList", "v1"),
        ):
            case = f"further {what} as {accept}"
            yield RawCase(case, "GET", place, None, "labelSelector=n=1", accept=accept)


def _patches(kind: str, path: str) -> Iterator[RawCase]:
    held = [{"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c", "a.b/d"]}]
    for name, operations in {
        "at the last": [*held, {"op": "remove", "path": "/metadata/finalizers/-1"}],
        "before the end": [
            *held,
            {"op": "add", "path": "/metadata/finalizers/-1", "value": "a.b/e"},
        ],
        "beyond the begin": [*held, {"op": "remove", "path": "/metadata/finalizers/-3"}],
        "at zero one": [
            *held,
            {"op": "replace", "path": "/metadata/finalizers/01", "value": "x/y"},
        ],
        "of nothing": [None],
        "at a number": [{"op": "add", "path": 7, "value": 1}],
        "of a whole": [{"op": "replace", "path": "", "value": []}],
        "of added whole": [{"op": "add", "path": "", "value": {}}],
        "without value": [{"op": "replace", "path": "/metadata/labels"}],
        "of absent": [{"op": "copy", "from": "/absent", "path": "/metadata/labels"}],
        "of kind": [{"op": "remove", "path": "/kind"}],
        "of version": [{"op": "replace", "path": "/apiVersion", "value": "odd/v1"}],
        "of numeric kind": [{"op": "replace", "path": "/kind", "value": 7}],
        "of labels": [{"op": "add", "path": "/metadata/labels", "value": "x"}],
        "of uid": [{"op": "replace", "path": "/metadata/uid", "value": "x"}],
        "of revision": [{"op": "remove", "path": "/metadata/resourceVersion"}],
    }.items():
        case = f"further {kind} patch {name}"
        yield RawCase(case, "PATCH", path, operations, "dryRun=All", JSON_PATCH)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
    for name, metadata in {
        "number as label": {"labels": {"a": 1}},
        "grace": {"deletionGracePeriodSeconds": 5},
        "owner twice": {"ownerReferences": [owner, owner]},
        "owner with odd field": {"ownerReferences": [{**owner, "odd": 1}]},
        "owner of odd version": {"ownerReferences": [{**owner, "apiVersion": "a/b/c"}]},
        "event as owner": {"ownerReferences": [{**owner, "kind": "Event"}]},
        "two ways to delete": {"finalizers": ["orphan", "foregroundDeletion"]},
        "finalizer of nobody": {"finalizers": ["abc"]},
    }.items():
        case, body = f"further {kind} merge {name}", {"metadata": metadata}
        yield RawCase(case, "PATCH", path, body, "dryRun=All", MERGE)
    twice = b'{"metadata":{"labels":{"a":"1","a":"2"}}}'
    for choice in ("Strict", "Warn"):
        query = f"dryRun=All&fieldValidation={choice}"
        yield RawCase(f"further {kind} merge twice {choice}", "PATCH", path, twice, query, MERGE)
    grace = "dryRun=All&gracePeriodSeconds="
    for seconds in ("x", "-1"):
        query = f"{grace}{seconds}"
        yield RawCase(f"further {kind} delete after {seconds}", "DELETE", path, None, query)
    yield RawCase(f"further {kind} put as yaml text", "PUT", path, b"a: b", "", "text/yaml")


def _applies() -> Iterator[RawCase]:
    path = f"{WIDGETS}/applied"
    good = widget("applied", spec={"size": 2})
    nameless = {**good, "metadata": {}}
    yield RawCase("apply", "PATCH", path, good, "fieldManager=a", APPLY)
    for name, body, query in (
        ("of another", widget("applied", spec={"size": 3}), "fieldManager=b"),
        ("of another by force", widget("applied", spec={"size": 3}), "fieldManager=b&force=true"),
        ("of nothing", widget("applied"), "fieldManager=a"),
        ("without name", nameless, "fieldManager=a"),
        ("of odd kind", {**good, "kind": "Odd"}, "fieldManager=a"),
        ("with uid", widget("applied", metadata={"uid": "x"}), "fieldManager=a"),
        (
            "with managed fields",
            widget("applied", metadata={"managedFields": []}),
            "fieldManager=a",
        ),
        ("with unknown field", widget("applied", spec={"odd": 1}), "fieldManager=a"),
        (
            "with unknown field ignored",
            widget("applied", spec={"odd": 1}),
            "fieldManager=a&fieldValidation=Ignore",
        ),
        ("without manager", good, ""),
    ):
        yield RawCase(f"apply {name}", "PATCH", path, body, query, APPLY)
    yield RawCase("applied", "GET", path)
    absent = f"{WIDGETS}/absent/status"
    body = widget("absent", status={"phase": "A"})
    yield RawCase("apply absent status", "PATCH", absent, body, "fieldManager=a", APPLY)


def _strategic_patches() -> Iterator[RawCase]:
    account = obj("ServiceAccount", "strategic", secrets=[{"name": "a"}, {"name": "b"}])
    yield RawCase("strategic account", "POST", ACCOUNTS, account)
    for name, body in {
        "adds": {"secrets": [{"name": "c"}]},
        "changes": {"secrets": [{"name": "b", "namespace": "x"}]},
        "orders": {
            "$setElementOrder/secrets": [{"name": "b"}, {"name": "c"}],
            "secrets": [{"name": "c"}],
        },
        "deletes": {"secrets": [{"$patch": "delete", "name": "a"}]},
        "replaces": {"secrets": [{"$patch": "replace"}, {"name": "z"}]},
        "holds": {"metadata": {"finalizers": ["a.b/d", "a.b/c"]}},
        "holds more": {"metadata": {"finalizers": ["a.b/b"]}},
        "releases": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}},
        "labels": {"metadata": {"labels": {"$patch": "replace", "only": "x"}}},
    }.items():
        yield RawCase(
            f"strategic patch {name}", "PATCH", f"{ACCOUNTS}/strategic", body, "", STRATEGIC
        )


def _paths() -> Iterator[RawCase]:
    for method, path in (
        ("GET", "/readyz/odd"),
        ("GET", "/readyz/ping"),
        ("POST", "/version"),
        ("DELETE", "/apis/coordination.k8s.io/v1"),
        ("GET", "/apis/coordination.k8s.io/v1"),
        ("GET", "/apis/coordination.k8s.io/v9"),
        ("GET", "/api/v1/configmaps/one"),
        ("GET", f"{MAPS}/.."),
        ("GET", f"{WIDGETS}/."),
        ("GET", f"{CORE}/configmaps/one/x/y"),
    ):
        yield RawCase(f"further path {method} {path}", method, path)
