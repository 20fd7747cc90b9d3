"""Requests whose answers are compared with those of a real server, in the order they are sent.

A case is one request. What it depends on was made by cases before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

GROUP = "raw.example.com"
NAMESPACE = "raw"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
MAPS, SECRETS, ACCOUNTS = (
    f"{CORE}/{plural}" for plural in ("configmaps", "secrets", "serviceaccounts")
)
WIDGETS = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
EVENTS = f"{CORE}/events"
NEW_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = (f"{RBAC}/namespaces/{NAMESPACE}/{each}" for each in ("roles", "rolebindings"))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REVIEWS = "/apis/authorization.k8s.io/v1"
IDENTITY = "/apis/authentication.k8s.io/v1"

JSON, MERGE = "application/json", "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


class RawCase(NamedTuple):
    """One request; ``@revision`` and ``@uid`` stand for what the server last gave for the object
    that the path names."""

    name: str
    method: str
    path: str
    body: Any = None
    query: str = ""
    content_type: str = JSON
    accept: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def definition(**spec: Any) -> dict[str, Any]:
    """The kind of the cases."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
                    "color": {"type": "string", "enum": ["red", "green"]},
                    "tags": {
                        "type": "array",
                        "items": {"type": "string"},
                        "x-kubernetes-list-type": "set",
                    },
                    "replicas": {"type": "integer"},
                    "note": {"type": "string", "maxLength": 8, "pattern": "^[a-z]*$"},
                    "when": {"type": "string", "format": "date-time"},
                },
            },
            "status": {
                "type": "object",
                "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}},
            },
        },
    }
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wdg"]},
            "versions": [version],
            **spec,
        },
    }


def obj(kind: str, name: Any = "one", version: str = "v1", **content: Any) -> dict[str, Any]:
    metadata = {"name": name, **content.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def config_map(name: Any = "one", **content: Any) -> dict[str, Any]:
    return obj("ConfigMap", name, **content)


def widget(name: Any = "one", **content: Any) -> dict[str, Any]:
    return obj("Widget", name, f"{GROUP}/v1", **content)


def cases() -> list[RawCase]:
    """All of them, each with a name of its own."""
    parts = (
        _creates(),
        _metadata(),
        _data(),
        _other_kinds(),
        _reads(),
        _lists(),
        _updates(),
        _patches(),
        _definitions(),
        _rights(),
        _paths(),
        _deletes(),
    )
    return list(itertools.chain.from_iterable(parts))


def _each(*values: Any) -> Iterator[tuple[int, Any]]:
    yield from enumerate(values)


def _post(name: str, path: str, body: Any, query: str = "", **more: Any) -> RawCase:
    return RawCase(name, "POST", path, body, query, **more)


def _creates() -> Iterator[RawCase]:
    for kind, path, make in (("map", MAPS, config_map), ("widget", WIDGETS, widget)):
        yield _post(f"create {kind}", path, make())
        yield _post(f"create {kind} again", path, make())
        yield _post(f"create {kind} two", path, make("two", metadata={"labels": {"a": "b"}}))
        yield _post(f"create {kind} without name", path, make(""))
        yield _post(f"create {kind} with odd name", path, make("Odd_Name"))
        yield _post(f"create {kind} with long name", path, make("x" * 254))
        yield _post(f"create {kind} with numeric name", path, make(7))
        yield _post(f"create {kind} without body", path, b"")
        yield _post(f"create {kind} with broken body", path, b"{")
        yield _post(f"create {kind} with list body", path, b"[]")
        yield _post(f"create {kind} with text body", path, b'"a"')
        yield _post(f"create {kind} of odd kind", path, {**make("x"), "kind": "Odd"})
        yield _post(f"create {kind} of odd version", path, {**make("x"), "apiVersion": "odd/v1"})
        yield _post(f"create {kind} as text", path, make("x"), content_type="text/plain")
        yaml = "\n".join(
            (
                f"apiVersion: {make()['apiVersion']}",
                f"kind: {make()['kind']}",
                "metadata: {name: y}",
            )
        )
        yield _post(f"create {kind} as yaml", path, yaml.encode(), content_type="application/yaml")
        yield _post(f"create {kind} dry", path, make("dry"), "dryRun=All")
        yield _post(f"create {kind} oddly dry", path, make("dry"), "dryRun=Some")
        yield _post(f"create {kind} oddly strict", path, make("x"), "fieldValidation=Odd")
        manager = "dryRun=All&fieldManager=" + "m" * 129
        yield _post(f"create {kind} with long manager", path, make("x"), manager)
        yield _post(f"create {kind} elsewhere", path, make("x", metadata={"namespace": "other"}))
        missing = path.replace(f"/{NAMESPACE}/", "/missing/")
        yield _post(f"create {kind} in missing namespace", missing, make("x"))
        for choice in ("Strict", "Warn", "Ignore"):
            query = f"fieldValidation={choice}"
            unknown = make(f"unknown-{choice.lower()}", odd={"x": 1})
            yield _post(f"create {kind} with unknown field {choice}", path, unknown, query)
        body = b'{"apiVersion":"%s","kind":"%s","metadata":{"name":"twice","name":"%s"}}'
        for choice in ("Strict", "Ignore"):
            raw = body % (
                make()["apiVersion"].encode(),
                make()["kind"].encode(),
                f"twice-{choice.lower()}".encode(),
            )
            query = f"fieldValidation={choice}"
            yield _post(f"create {kind} with field twice {choice}", path, raw, query)


def _metadata() -> Iterator[RawCase]:
    for index, metadata in _each(
        {"labels": {"a": "not ok"}},
        {"labels": {"not ok": "a"}},
        {"labels": {"a": "x" * 64}},
        {"labels": {"-a/b": "c"}},
        {"labels": {"a": 1}},
        {"labels": None},
        {"annotations": {"not ok": "a"}},
        {"annotations": {"Note/Upper": "a"}},
        {"annotations": []},
        {"finalizers": ["example.com/hold"]},
        {"finalizers": ["a/b/c"]},
        {"finalizers": [""]},
        {"finalizers": "x"},
        {"generateName": "made-", "name": "given"},
        {"generation": 7},
        {"uid": "mine"},
        {"creationTimestamp": "2001-01-01T00:00:00Z"},
        {"creationTimestamp": None},
        {"creationTimestamp": "soon"},
        {"deletionTimestamp": "2001-01-01T00:00:00Z"},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": ""}]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n"}]},
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "K", "name": n, "uid": n, "controller": True}
                for n in ("a", "b")
            ]
        },
        {"odd": 1},
    ):
        for kind, path, make in (("map", MAPS, config_map), ("widget", WIDGETS, widget)):
            name = f"meta-{index}"
            yield _post(f"{kind} {name}", path, make(name, metadata=metadata), "dryRun=All")


def _data() -> Iterator[RawCase]:
    for index, data in _each(
        {"data": {"a": "1", "b.c_d-E": ""}},
        {"data": {"a b": "1"}},
        {"data": {"..": "1"}},
        {"data": {"": "1"}},
        {"data": {"a": 1}},
        {"data": []},
        {"data": None},
        {"binaryData": {"a": "AQ=="}},
        {"binaryData": {"a": "%"}},
        {"data": {"a": "1"}, "binaryData": {"a": "AQ=="}},
        {"immutable": "yes"},
    ):
        yield _post(f"map data {index}", MAPS, config_map(f"data-{index}", **data), "dryRun=All")
    for index, data in _each(
        {"data": {"a": "AQ=="}},
        {"data": {"a": "%"}},
        {"stringData": {"a": "plain"}},
        {"stringData": {"a b": "plain"}},
        {"stringData": {"a": 1}},
        {"type": "example.com/own"},
        {"type": 7},
        {"type": "kubernetes.io/tls"},
        {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "", "tls.key": ""}},
        {"type": "kubernetes.io/basic-auth"},
        {"type": "kubernetes.io/basic-auth", "stringData": {"username": ""}},
        {"type": "kubernetes.io/ssh-auth"},
        {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": ""}},
        {"type": "kubernetes.io/dockercfg"},
        {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{"}},
        {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}},
        {"type": "kubernetes.io/service-account-token"},
    ):
        body = obj("Secret", f"data-{index}", **data)
        yield _post(f"secret data {index}", SECRETS, body, "dryRun=All")
    for index, spec in _each(
        {"size": 2},
        {"size": 0},
        {"size": 11},
        {"size": "1"},
        {"size": 1.5},
        {"size": 2.0},
        {"size": None},
        {"size": True},
        {"color": "red"},
        {"color": "pink"},
        {"tags": ["a", "b"]},
        {"tags": ["a", "a"]},
        {"tags": {}},
        {"note": "abcdefghi"},
        {"note": "ABC"},
        {"when": "2020-01-01T00:00:00Z"},
        {"when": "soon"},
        {"odd": 1},
        [],
        "text",
        None,
    ):
        body = widget(f"spec-{index}", spec=spec)
        yield _post(f"widget spec {index}", WIDGETS, body, "dryRun=All")
    for kind, path, body in (
        ("map", MAPS, config_map("fixed", data={"a": "1"}, immutable=True)),
        ("secret", SECRETS, obj("Secret", "fixed", data={"a": "AQ=="}, immutable=True)),
    ):
        yield _post(f"{kind} immutable", path, body)
        for index, change in _each(
            {"data": {"a": "Ag=="}},
            {"immutable": False},
            {"immutable": None},
            {"metadata": {"labels": {"a": "b"}}},
            {"data": None, "immutable": None},
        ):
            yield RawCase(
                f"{kind} immutable change {index}", "PATCH", f"{path}/fixed", change, "", MERGE
            )
    change = {"type": "example.com/other"}
    yield RawCase("secret type change", "PATCH", f"{SECRETS}/fixed", change, "", MERGE)


def _other_kinds() -> Iterator[RawCase]:
    yield _post("account", ACCOUNTS, obj("ServiceAccount", "robot"))
    yield _post(
        "account with fields",
        ACCOUNTS,
        obj(
            "ServiceAccount", "second", secrets=[{"name": "a"}], automountServiceAccountToken=False
        ),
    )
    yield _post("account with odd field", ACCOUNTS, obj("ServiceAccount", "x", secrets={}))
    spaces = "/api/v1/namespaces"
    yield _post("namespace", spaces, obj("Namespace", "raw-second"))
    yield _post("namespace again", spaces, obj("Namespace", "raw-second"))
    yield _post("namespace with dot", spaces, obj("Namespace", "a.b"))
    yield _post("namespace too long", spaces, obj("Namespace", "n" * 64))
    yield RawCase("namespace read", "GET", f"{spaces}/raw-second")
    yield RawCase("namespaces of a phase", "GET", spaces, None, "fieldSelector=status.phase=None")
    yield RawCase("namespaces by odd field", "GET", spaces, None, "fieldSelector=spec.x=1")
    yield RawCase("namespaces deleted", "DELETE", spaces)
    yield RawCase("namespace default deleted", "DELETE", f"{spaces}/default")
    lease = obj("Lease", "lock", "coordination.k8s.io/v1")
    for index, spec in _each(
        {"holderIdentity": "a", "leaseDurationSeconds": 10},
        {"leaseDurationSeconds": 0},
        {"leaseDurationSeconds": -1},
        {"leaseTransitions": -1},
        {"renewTime": "2020-01-01T00:00:00.000000Z"},
        {"renewTime": "soon"},
        {"holderIdentity": 7},
        {"odd": 1},
    ):
        yield _post(f"lease {index}", LEASES, {**lease, "spec": spec}, "dryRun=All")
    held = {**lease, "spec": {"holderIdentity": "a", "leaseTransitions": 0}}
    yield RawCase("lease by put", "PUT", f"{LEASES}/lock", held)
    yield RawCase("lease by put again", "PUT", f"{LEASES}/lock", held)
    yield RawCase(
        "lease by stale put",
        "PUT",
        f"{LEASES}/lock",
        {**held, "metadata": {"name": "lock", "resourceVersion": "1"}},
    )
    about = {"kind": "Widget", "name": "one", "namespace": NAMESPACE, "apiVersion": f"{GROUP}/v1"}
    event = obj(
        "Event", "happened", involvedObject=about, reason="Did", message="it", type="Normal"
    )
    yield _post("event", EVENTS, event)
    yield _post(
        "event of other namespace", EVENTS, {**event, "involvedObject": {**about, "namespace": "x"}}
    )
    yield RawCase(
        "events of an object", "GET", EVENTS, None, "fieldSelector=involvedObject.name=one"
    )
    yield RawCase("events by odd field", "GET", EVENTS, None, "fieldSelector=message=it")
    yield RawCase("event in the other group", "GET", f"{NEW_EVENTS}/happened")
    yield RawCase(
        "events in the other group", "GET", NEW_EVENTS, None, "fieldSelector=regarding.name=one"
    )
    yield RawCase(
        "events in the other group by core field",
        "GET",
        NEW_EVENTS,
        None,
        "fieldSelector=involvedObject.name=one",
    )
    new = obj(
        "Event",
        "new",
        "events.k8s.io/v1",
        regarding=about,
        reason="Did",
        note="it",
        type="Normal",
        action="Do",
        reportingController="example.com/c",
        reportingInstance="c-1",
        eventTime="2020-01-01T00:00:00.000000Z",
    )
    yield _post("new event", NEW_EVENTS, new)
    yield RawCase("new event in core", "GET", f"{EVENTS}/new")


def _reads() -> Iterator[RawCase]:
    for kind, path in (("map", MAPS), ("widget", WIDGETS)):
        yield RawCase(f"get {kind}", "GET", f"{path}/one")
        yield RawCase(f"get absent {kind}", "GET", f"{path}/absent")
        yield RawCase(f"get {kind} as table", "GET", f"{path}/one", accept=TABLE)
        yield RawCase(f"get {kind} metadata", "GET", f"{path}/one", accept=METADATA)
        yield RawCase(f"get {kind} as html", "GET", f"{path}/one", accept="text/html")
        yield RawCase(
            f"get {kind} as odd form",
            "GET",
            f"{path}/one",
            accept="application/json;as=Odd;v=v1;g=x",
        )
        yield RawCase(
            f"get {kind} of old revision", "GET", f"{path}/one", None, "resourceVersion=0"
        )
        yield RawCase(
            f"get {kind} of odd revision", "GET", f"{path}/one", None, "resourceVersion=x"
        )
        yield RawCase(f"get {kind} with slash", "GET", f"{path}/one/")
        yield RawCase(f"list {kind} as table", "GET", path, None, "labelSelector=a=b", accept=TABLE)
        yield RawCase(
            f"list {kind} as bare table",
            "GET",
            path,
            None,
            "labelSelector=a=b&includeObject=None",
            accept=TABLE,
        )
        yield RawCase(
            f"list {kind} as odd table", "GET", path, None, "includeObject=Odd", accept=TABLE
        )
        yield RawCase(f"list {kind} with slash", "GET", f"{path}/", None, "labelSelector=a=b")


def _lists() -> Iterator[RawCase]:
    for kind, path in (("map", MAPS), ("widget", WIDGETS)):
        for selector in (
            "a=b",
            "a==b",
            "a!=b",
            "a",
            "!a",
            "a in (b,c)",
            "a notin (b)",
            "a in (",
            "a=b=c",
            "-a=b",
        ):
            yield RawCase(
                f"list {kind} by label {selector}", "GET", path, None, f"labelSelector={selector}"
            )
        for selector in (
            "metadata.name=two",
            "metadata.name!=one,metadata.name=two",
            f"metadata.namespace={NAMESPACE},metadata.name=two",
            "odd=1",
            "odd",
            "spec.color=red",
        ):
            yield RawCase(
                f"list {kind} by field {selector}", "GET", path, None, f"fieldSelector={selector}"
            )
        for query in (
            "limit=1",
            "limit=x",
            "continue=odd",
            "limit=1&resourceVersion=x",
            "resourceVersionMatch=Exact",
            "resourceVersionMatch=Odd&resourceVersion=1",
            "resourceVersionMatch=Exact&resourceVersion=0",
            "sendInitialEvents=true",
            "watch=true&timeoutSeconds=1&sendInitialEvents=true",
            "watch=true&timeoutSeconds=x",
            "watch=true&timeoutSeconds=1&fieldSelector=metadata.name=two",
            "watch=1&timeoutSeconds=1&fieldSelector=metadata.name=two&resourceVersion=0",
            "watch&timeoutSeconds=1&fieldSelector=metadata.name=two",
            "watch=0&fieldSelector=metadata.name=two",
        ):
            yield RawCase(f"list {kind} {query}", "GET", path, None, query)


def _updates() -> Iterator[RawCase]:
    for kind, path, make in (("map", MAPS, config_map), ("widget", WIDGETS, widget)):
        content: dict[str, Any] = {"data": {"a": "2"}} if kind == "map" else {"spec": {"size": 5}}
        one = f"{path}/one"
        yield RawCase(
            f"put {kind}", "PUT", one, make(metadata={"resourceVersion": "@revision"}, **content)
        )
        yield RawCase(f"put {kind} without revision", "PUT", one, make(**content))
        yield RawCase(
            f"put {kind} stale", "PUT", one, make(metadata={"resourceVersion": "1"}, **content)
        )
        yield RawCase(
            f"put {kind} of another name",
            "PUT",
            one,
            make("two", metadata={"resourceVersion": "@revision"}),
        )
        yield RawCase(f"put {kind} without name", "PUT", one, make(""))
        yield RawCase(
            f"put {kind} of another uid",
            "PUT",
            one,
            make(metadata={"resourceVersion": "@revision", "uid": "x"}),
        )
        yield RawCase(
            f"put {kind} absent",
            "PUT",
            f"{path}/absent",
            make("absent", metadata={"resourceVersion": "1"}),
        )
        yield RawCase(
            f"put {kind} elsewhere",
            "PUT",
            one,
            make(metadata={"resourceVersion": "@revision", "namespace": "x"}),
        )
        yield RawCase(
            f"put {kind} of odd kind",
            "PUT",
            one,
            {**make(metadata={"resourceVersion": "@revision"}), "kind": "Odd"},
        )
        yield RawCase(
            f"put {kind} dry",
            "PUT",
            one,
            make(metadata={"resourceVersion": "@revision", "labels": {"x": "y"}}, **content),
            "dryRun=All",
        )
        yield RawCase(f"put {kind} to collection", "PUT", path, make())
        yield RawCase(f"post {kind} to object", "POST", one, make())
    status = f"{WIDGETS}/one/status"
    yield RawCase(
        "put status",
        "PUT",
        status,
        widget(
            metadata={"resourceVersion": "@revision"},
            spec={"size": 9},
            status={"phase": "Up", "replicas": 2},
        ),
    )
    yield RawCase(
        "put odd status",
        "PUT",
        status,
        widget(metadata={"resourceVersion": "@revision"}, status={"phase": 1}),
    )
    yield RawCase("get status", "GET", status)
    yield RawCase("get scale", "GET", f"{WIDGETS}/one/scale")
    yield RawCase(
        "put scale",
        "PUT",
        f"{WIDGETS}/one/scale",
        {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {"name": "one", "namespace": NAMESPACE},
            "spec": {"replicas": 4},
        },
    )
    yield RawCase(
        "patch scale", "PATCH", f"{WIDGETS}/one/scale", {"spec": {"replicas": 5}}, "", MERGE
    )
    yield RawCase(
        "patch scale below zero",
        "PATCH",
        f"{WIDGETS}/one/scale",
        {"spec": {"replicas": -1}},
        "",
        MERGE,
    )
    yield RawCase("get odd subresource", "GET", f"{WIDGETS}/one/odd")
    yield RawCase("get map status", "GET", f"{MAPS}/one/status")


def _patches() -> Iterator[RawCase]:
    for kind, path in (("map", MAPS), ("widget", WIDGETS)):
        two = f"{path}/two"
        for index, body in _each(
            {"metadata": {"labels": {"c": "d"}}},
            {"metadata": {"labels": {"c": None}}},
            {"metadata": {"name": "x"}},
            {"metadata": {"resourceVersion": "1"}},
            {"metadata": {"labels": {"c": "not ok"}}},
            {"kind": "Odd"},
            {"odd": 1},
            {},
            [],
            b"{",
        ):
            yield RawCase(f"merge {kind} {index}", "PATCH", two, body, "", MERGE)
        for index, operations in _each(
            [{"op": "test", "path": "/metadata/name", "value": "two"}],
            [{"op": "test", "path": "/metadata/name", "value": "x"}],
            [{"op": "add", "path": "/metadata/labels/e", "value": "f"}],
            [{"op": "remove", "path": "/metadata/labels/e"}],
            [{"op": "remove", "path": "/metadata/labels/e"}],
            [{"op": "replace", "path": "/metadata/labels/zz", "value": "f"}],
            [{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/g"}],
            [{"op": "move", "from": "/metadata/labels/g", "path": "/metadata/labels/h"}],
            [{"op": "odd", "path": "/metadata/labels/g"}],
            [{"op": "add", "path": "no slash", "value": 1}],
            {},
            b"[",
        ):
            yield RawCase(f"json patch {kind} {index}", "PATCH", two, operations, "", JSON_PATCH)
        yield RawCase(
            f"strategic {kind}", "PATCH", two, {"metadata": {"labels": {"s": "t"}}}, "", STRATEGIC
        )
        yield RawCase(f"plain patch {kind}", "PATCH", two, {"metadata": {"labels": {"s": "t"}}})
        yield RawCase(f"forced merge {kind}", "PATCH", two, {}, "force=true", MERGE)
        yield RawCase(f"merge absent {kind}", "PATCH", f"{path}/absent", {}, "", MERGE)
        yield RawCase(
            f"dry merge {kind}",
            "PATCH",
            two,
            {"metadata": {"labels": {"dry": "x"}}},
            "dryRun=All",
            MERGE,
        )
        yield RawCase(
            f"merge {kind} with unknown field strictly",
            "PATCH",
            two,
            {"odd": 1},
            "fieldValidation=Strict",
            MERGE,
        )


def _definitions() -> Iterator[RawCase]:
    def other(**spec: Any) -> dict[str, Any]:
        body = definition(**{"names": {"plural": "others", "kind": "Other"}, **spec})
        names = body["spec"].get("names") or {}
        body["metadata"] = {"name": f"{names.get('plural')}.{body['spec'].get('group')}"}
        return body

    first = definition()["spec"]["versions"][0]
    for index, spec in _each(
        {"group": "nodot"},
        {"group": "Upper.example.com"},
        {"scope": "Odd"},
        {"names": {"plural": "Others", "kind": "Other"}},
        {"names": {"plural": "others", "kind": "Other", "listKind": "Other"}},
        {"names": {"plural": "others"}},
        {"versions": []},
        {"versions": [{**first, "storage": False}]},
        {"versions": [first, {**first, "storage": False}]},
        {"versions": [{**first, "name": "V1"}]},
        {"versions": [{**first, "schema": None}]},
        {"versions": [{**first, "schema": {"openAPIV3Schema": {"type": "string"}}}]},
        {
            "versions": [
                {
                    **first,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}},
                }
            ]
        },
        {
            "versions": [
                {
                    **first,
                    "additionalPrinterColumns": [{"name": "A", "type": "odd", "jsonPath": ".a"}],
                }
            ]
        },
        {
            "versions": [
                {
                    **first,
                    "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "a"}],
                }
            ]
        },
        {"versions": [{**first, "deprecationWarning": "x"}]},
        {"preserveUnknownFields": True},
        {"group": "odd.k8s.io"},
    ):
        yield _post(f"definition {index}", DEFINITIONS, other(**spec), "dryRun=All")
    body = other()
    yield _post(
        "definition with another name",
        DEFINITIONS,
        {**body, "metadata": {"name": "x.example.com"}},
        "dryRun=All",
    )
    path = f"{DEFINITIONS}/widgets.{GROUP}"
    for name, change in (
        ("scope", {"spec": {"scope": "Cluster"}}),
        ("kind", {"spec": {"names": {"kind": "Gadget"}}}),
        ("group", {"spec": {"group": "other.example.com"}}),
        ("versions", {"spec": {"versions": [{**first, "name": "v2"}]}}),
    ):
        yield RawCase(f"definition change {name}", "PATCH", path, change, "dryRun=All", MERGE)
    yield RawCase(
        "definition strategic",
        "PATCH",
        path,
        {"metadata": {"labels": {"a": "b"}}},
        "dryRun=All",
        STRATEGIC,
    )


def _rights() -> Iterator[RawCase]:
    rule = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]}
    role = obj("Role", "reader", "rbac.authorization.k8s.io/v1", rules=[rule])
    yield _post("role", ROLES, role)
    for index, rules in _each(
        [{}],
        [{"verbs": ["get"]}],
        [{"verbs": ["get"], "apiGroups": [""]}],
        [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
        [{"verbs": "get"}],
        {},
        None,
    ):
        yield _post(
            f"role {index}",
            ROLES,
            {**role, "metadata": {"name": f"r{index}"}, "rules": rules},
            "dryRun=All",
        )
    binding = obj(
        "RoleBinding",
        "reader",
        "rbac.authorization.k8s.io/v1",
        subjects=[{"kind": "User", "name": "bob"}],
        roleRef={"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"},
    )
    yield _post("binding", BINDINGS, binding)
    for index, change in _each(
        {"roleRef": None},
        {"roleRef": {"kind": "Odd", "name": "x"}},
        {"roleRef": {"kind": "Role"}},
        {"roleRef": {"kind": "ClusterRole", "name": "x", "apiGroup": "odd"}},
        {"subjects": [{"kind": "Odd", "name": "x"}]},
        {"subjects": [{"kind": "User"}]},
        {"subjects": [{"kind": "ServiceAccount", "name": "x"}]},
        {"subjects": [{"kind": "ServiceAccount", "name": "x", "apiGroup": "odd"}]},
        {"subjects": None},
    ):
        yield _post(
            f"binding {index}",
            BINDINGS,
            {**binding, "metadata": {"name": f"b{index}"}, **change},
            "dryRun=All",
        )
    yield RawCase(
        "binding to another role",
        "PATCH",
        f"{BINDINGS}/reader",
        {"roleRef": {"name": "x"}},
        "",
        MERGE,
    )
    bob = (("Impersonate-User", "bob"),)
    for name, method, path in (
        ("list maps", "GET", MAPS + "?labelSelector=none=none"),
        ("get map", "GET", f"{MAPS}/one"),
        ("delete map", "DELETE", f"{MAPS}/one"),
        ("list secrets", "GET", SECRETS),
        ("list maps everywhere", "GET", "/api/v1/configmaps"),
        ("list widgets", "GET", WIDGETS),
        ("get namespace", "GET", f"/api/v1/namespaces/{NAMESPACE}"),
        ("discovery", "GET", "/apis/coordination.k8s.io"),
        ("get odd path", "GET", "/odd"),
    ):
        yield RawCase(f"bob: {name}", method, path, headers=bob)
    yield RawCase("bob as carol", "GET", MAPS, headers=(*bob, ("Impersonate-Group", "x")))
    yield RawCase("group without user", "GET", MAPS, headers=(("Impersonate-Group", "x"),))
    yield _post("bob: create role", ROLES, {**role, "metadata": {"name": "more"}}, headers=bob)
    who = (
        *bob,
        ("Impersonate-Group", "x"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-scope", "s"),
    )
    review: dict[str, Any] = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
    }
    yield _post("who is bob", f"{IDENTITY}/selfsubjectreviews", review, headers=who)
    asked = {"verb": "get", "resource": "configmaps", "namespace": NAMESPACE}
    for name, plural, spec in (
        ("self may", "selfsubjectaccessreviews", {"resourceAttributes": asked}),
        ("self without", "selfsubjectaccessreviews", {}),
        ("bob may", "subjectaccessreviews", {"user": "bob", "resourceAttributes": asked}),
        (
            "bob may not",
            "subjectaccessreviews",
            {"user": "bob", "resourceAttributes": {**asked, "verb": "delete"}},
        ),
        (
            "bob's path",
            "subjectaccessreviews",
            {"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/odd"}},
        ),
        ("nobody", "subjectaccessreviews", {"resourceAttributes": asked}),
        ("rules nowhere", "selfsubjectrulesreviews", {}),
    ):
        kind = {"s": "SelfSubjectAccessReview", "u": "SubjectAccessReview"}[
            "u" if plural.startswith("subj") else "s"
        ]
        kind = "SelfSubjectRulesReview" if "rules" in plural else kind
        yield _post(
            f"review {name}",
            f"{REVIEWS}/{plural}",
            {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec},
        )
    local = f"{REVIEWS}/namespaces/{NAMESPACE}/localsubjectaccessreviews"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "LocalSubjectAccessReview",
        "metadata": {"namespace": NAMESPACE},
    }
    for name, spec in (
        ("here", {"user": "bob", "resourceAttributes": asked}),
        ("there", {"user": "bob", "resourceAttributes": {**asked, "namespace": "x"}}),
    ):
        yield _post(f"local review {name}", local, {**body, "spec": spec})
    tokens = f"{ACCOUNTS}/robot/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    for name, seconds in (("short", 10), ("long", 2**33)):
        lifetime = {"expirationSeconds": seconds}
        yield _post(f"token {name}", tokens, {**request, "spec": lifetime})
    yield _post("token of absent account", f"{ACCOUNTS}/absent/token", {**request, "spec": {}})
    yield RawCase("token read", "GET", tokens)
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "x"},
    }
    yield _post("unknown token", f"{IDENTITY}/tokenreviews", review)
    yield _post("no token", f"{IDENTITY}/tokenreviews", {**review, "spec": {}})
    yield RawCase("review read", "GET", f"{IDENTITY}/tokenreviews")
    yield RawCase("bad token", "GET", MAPS, headers=(("Authorization", "Bearer odd"),))


def _paths() -> Iterator[RawCase]:
    for method, path in (
        ("GET", "/healthz"),
        ("GET", "/livez"),
        ("GET", "/readyz"),
        ("HEAD", "/healthz"),
        ("GET", "/odd"),
        ("GET", "/api/v2"),
        ("GET", "/apis/odd.example.com"),
        ("GET", f"/apis/{GROUP}"),
        ("GET", f"/apis/{GROUP}/v1"),
        ("GET", f"/apis/{GROUP}/v2"),
        ("GET", f"/apis/{GROUP}/v2/widgets"),
        ("GET", "/apis/coordination.k8s.io"),
        ("GET", "/apis/events.k8s.io"),
        ("GET", f"{CORE}/odds"),
        ("GET", f"{CORE}/odds/one"),
        ("PATCH", "/healthz"),
        ("GET", "/openapi/v3/apis/odd/v1"),
        ("OPTIONS", MAPS),
    ):
        yield RawCase(f"path {method} {path}", method, path)


def _deletes() -> Iterator[RawCase]:
    for kind, path, make in (("map", MAPS, config_map), ("widget", WIDGETS, widget)):
        one = f"{path}/one"
        for index, options in _each(
            {"preconditions": {"uid": "x"}},
            {"preconditions": {"resourceVersion": "1"}},
            {"propagationPolicy": "Odd"},
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            {"dryRun": ["Some"]},
            {"dryRun": ["All"]},
            {"gracePeriodSeconds": "x"},
            b"{",
        ):
            yield RawCase(f"delete {kind} {index}", "DELETE", one, options)
        yield RawCase(f"delete {kind}", "DELETE", one)
        yield RawCase(f"delete {kind} again", "DELETE", one)
        held = make("held", metadata={"finalizers": ["example.com/hold"]})
        yield _post(f"create held {kind}", path, held)
        yield RawCase(f"delete held {kind}", "DELETE", f"{path}/held")
        yield RawCase(f"delete held {kind} again", "DELETE", f"{path}/held")
        yield _post(f"create leaving {kind}", path, held)
        more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
        yield RawCase(f"hold {kind} more", "PATCH", f"{path}/held", more, "", MERGE)
        yield RawCase(
            f"release {kind}",
            "PATCH",
            f"{path}/held",
            {"metadata": {"finalizers": None}},
            "",
            MERGE,
        )
        yield RawCase(f"get released {kind}", "GET", f"{path}/held")
        yield RawCase(f"delete some {kind}", "DELETE", path, None, "labelSelector=a=b")
        yield RawCase(f"delete none {kind}", "DELETE", path, None, "labelSelector=a=b")
        yield RawCase(f"delete {kind} by odd label", "DELETE", path, None, "labelSelector=a in (")
    yield RawCase("delete widgets everywhere", "DELETE", f"/apis/{GROUP}/v1/widgets")
