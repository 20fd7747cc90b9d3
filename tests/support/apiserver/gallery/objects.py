"""Objects of a bad shape, in JSON and YAML."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from tests.support.apiserver.gallery.shapes import (
    BOX,
    CONFIG_MAPS,
    SECRETS,
    TABLE,
    YAML,
    Sent,
    Shape,
    apply,
    config_map,
    custom,
    nested,
    patch,
    path_of,
    post,
    texts,
)

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = "/api/v1/namespaces/default/events"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
LARGE = f"{CONFIG_MAPS}/large"
YAML_HEAD = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n"


def in_json(share: int) -> Iterator[Shape]:
    def made(name: str, body: Any, status: int = 201, query: str = "") -> Shape:
        return Shape(name, post(f"{CONFIG_MAPS}{query}", body), status)

    many = 150_000 // share
    yield Shape("unknown fields", post(CONFIG_MAPS, config_map() | texts(many)), 201)
    warn, strict = "?fieldValidation=Warn", "?fieldValidation=Strict"
    yield made("warnings of unknown fields", config_map() | texts(many), 201, warn)
    yield made("faults of unknown fields", config_map() | texts(many), 400, strict)
    repeated = b'{"metadata":{"name":"one"},"data":{' + b'"a":"",' * many + b'"a":""}}'
    yield made("repeated fields", repeated)
    yield made("warnings of repeated fields", repeated, 201, warn)
    yield made("faults of repeated fields", repeated, 400, strict)
    yield made("keys", config_map(data=texts(60_000 // share)))
    yield made("invalid keys", config_map(data={f"/{n}": "" for n in range(many)}), 422)
    yield made("values of another type", config_map(data=dict.fromkeys(texts(many), 1)), 400)
    broken = config_map(binaryData=dict.fromkeys(texts(60_000 // share), "!"))
    yield made("values that are no base64", broken, 400)
    yield made("numbers", config_map(x=[1.5] * (500_000 // share)))
    yield made("long numbers", config_map(x=[10**4000] * (600 // share + 1)))
    yield made("a text above a mebibyte", config_map(data={"a": "x" * 2_900_000}), 422)
    escaped = b'{"metadata":{"name":"one"},"data":{"a":"' + b"\\u0041" * (170_000 // share) + b'"}}'
    yield made("escaped characters", escaped)
    yield made("a body above the limit", b" " * 3_200_000, 413)
    yield made("blanks", b" " * 2_900_000 + b"{}", 422)
    yield made("labels", config_map(metadata={"labels": texts(150_000)}), 422)
    yield made("annotations", config_map(metadata={"annotations": texts(100_000)}), 422)
    finalizers = config_map(metadata={"finalizers": ["a/b"] * 100_000})
    yield made("finalizers", finalizers, 422)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}
    owners = [owner | {"uid": str(number)} for number in range(20_000)]
    yield made("owners", config_map(metadata={"ownerReferences": owners}), 422)
    bad_owners = config_map(metadata={"ownerReferences": [{}] * 1_000})
    yield made("faults of owners", bad_owners, 422)
    entry: dict[str, Any] = {
        "manager": "a",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
    }
    fields: dict[str, Any] = {"f:data": {f"f:key{number}": {} for number in range(60_000 // share)}}
    managed = [entry | {"fieldsV1": fields}]
    yield made("managed fields", config_map(metadata={"managedFields": managed}))
    managed = [entry | {"manager": f"m{number}", "fieldsV1": {}} for number in range(many // 10)]
    yield made("managers", config_map(metadata={"managedFields": managed}))
    yield made("deep lists", config_map(x=[nested(150)] * (8_000 // share)))
    yield made("a list that is too deep", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400)
    yield made("an open list", b'{"x":' + b"[" * 1_000_000, 400)
    yield made("a lone surrogate", b'{"metadata":{"name":"one"},"data":{"a":"\\ud800"}}', 400)
    yield made("invalid UTF-8", b'{"metadata":{"name":"one"},"data":{"a":"\xff"}}', 400)
    yield made("a name of a megabyte", config_map("x" * 1_000_000), 422)
    yield made("a prefix of a megabyte", {"metadata": {"generateName": "x" * 1_000_000}}, 422)
    yield made("a list as a body", [config_map()] * (20_000 // share), 400)
    wrong = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}
    yield made("another kind", wrong, 400)


def of_other_kinds(share: int) -> Iterator[Shape]:
    secret = {"metadata": {"name": "one"}, "stringData": texts(60_000 // share)}
    yield Shape("texts of a Secret", post(SECRETS, secret), 201)
    docker = {"metadata": {"name": "one"}, "type": "kubernetes.io/dockerconfigjson"}
    config = base64.b64encode(b"[" * 300_000).decode()
    body = docker | {"data": {".dockerconfigjson": config}}
    yield Shape("a docker configuration that is too deep", post(SECRETS, body), 422)
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    rules = [rule | {"resourceNames": [f"n{number}"]} for number in range(20_000)]
    role = {"metadata": {"name": "one"}, "rules": rules[:1_000]}
    yield Shape("rules of a Role", post(f"{RBAC}/roles", role), 201)
    role = {"metadata": {"name": "one"}, "rules": rules}
    yield Shape("more rules of a Role than allowed", post(f"{RBAC}/roles", role), 413)
    faulty = {"metadata": {"name": "one"}, "rules": [{}] * 30_000}
    yield Shape("faults of a Role", post(f"{RBAC}/roles", faulty), 422)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User"}
    subjects = [subject | {"name": f"u{number}"} for number in range(1_000)]
    bound = {"metadata": {"name": "one"}, "roleRef": reference, "subjects": subjects}
    made = post(f"{RBAC}/roles", {"metadata": {"name": "one"}, "rules": [rule]})
    yield Shape("subjects of a binding", post(f"{RBAC}/rolebindings", bound), 201, (made,))
    lease = {"metadata": {"name": "one"}, "spec": {"renewTime": "9" * 100_000}}
    yield Shape("a Lease without a time", post(LEASES, lease), 400)
    event = {"metadata": {"name": "one"}, "message": "x" * 1_000_000, "involvedObject": {}}
    yield Shape("a long Event", post(EVENTS, event), 201)
    account = {"metadata": {"name": "hostile"}, "secrets": [{"name": "a"}] * (100_000 // share)}
    yield Shape("secrets of an account", post(ACCOUNTS, account), 201)
    scattered = custom("boxes") | {"spec": {f"k{n}": [{"a": n}] for n in range(100_000 // share)}}
    yield Shape("lists of an object of any shape", post(path_of("boxes"), scattered), 201, (BOX,))


def in_yaml(share: int) -> Iterator[Shape]:
    def made(name: str, rest: bytes, status: int = 201) -> Shape:
        return Shape(name, post(CONFIG_MAPS, YAML_HEAD + rest, YAML), status)

    lines = b"".join(b"  key%d: text\n" % number for number in range(14_000 // share))
    yield made("YAML with keys", b"data:\n" + lines)
    yield made("YAML with 59:59", b"x: " + b":".join([b"59"] * (80_000 // share)))
    yield made("YAML with aliases", b"a: &a [1]\nb: [" + b"*a," * 10_000 + b"]", 400)
    bomb = b"a0: &a0 [1]\n"
    for n in range(1, 9):
        bomb += b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9))
    yield made("YAML whose aliases multiply", bomb, 400)
    yield made("YAML with deep lists", b"x: " + b"[" * 100_000, 400)
    yield made("YAML with merged keys", b"x: &x {a: 1}\ny:\n  <<: *x\n", 400)
    yield made("YAML with a tag", b"x: !!python/object/apply:os.getcwd []\n", 400)
    yield made("YAML of two documents", b"---\na: b\n")
    yield made("YAML above its limit", b"data: {a: " + b"x" * 300_000 + b"}", 413)
    anchors = b"".join(b"k%d: &a%d 1\n" % (n, n) for n in range(10_000 // share))
    yield made("YAML with many anchors", anchors)
    text = b"data:\n  a: " + b"\n    ".join([b"x"] * (40_000 // share)) + b"\n"
    yield made("YAML with a text of many lines", text)


def on_a_large_object(share: int) -> Iterator[Shape]:
    """Small requests about an object of 60,000 keys."""
    large = post(CONFIG_MAPS, config_map("large", data=texts(60_000 // share)))

    def made(name: str, sent: Sent, status: int = 200) -> Shape:
        return Shape(name, sent, status, (large,))

    small = {"metadata": {"labels": {"a": "b"}}}
    yield made("a small patch of a large object", patch(LARGE, small))
    yield made("a table of a large object", Sent("GET", LARGE, accept=TABLE))
    yield made("YAML of a large object", Sent("GET", LARGE, accept=YAML))
    yield made("a large object, printed", Sent("GET", f"{LARGE}?pretty=true"))
    deep = post(CONFIG_MAPS, config_map("large", x=[nested(150)] * (8_000 // share)))
    printed = Sent("GET", f"{LARGE}?pretty=true")
    yield Shape("a deep object, printed", printed, 200, (deep,))
    metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    yield made("the metadata of a large object", Sent("GET", LARGE, accept=metadata))
    yield made("a list of a large object", Sent("GET", CONFIG_MAPS, accept=TABLE))
    yield made("deletion of a large object", Sent("DELETE", LARGE))
    yield made("deletion of a collection", Sent("DELETE", CONFIG_MAPS))
    body = config_map("large", data=texts(60_000 // share, "x"))
    yield made("a large update", Sent("PUT", LARGE, body))
    yield made("an update with another name", Sent("PUT", LARGE, config_map("other")), 400)
    stale = config_map("large", metadata={"resourceVersion": "1"})
    yield made("a stale update", Sent("PUT", LARGE, stale), 409)
    removals = {"data": dict.fromkeys(texts(60_000 // share))}
    yield made("a merge patch that removes all", patch(LARGE, removals))
    yield made(
        "a small apply to a large object", apply(LARGE, config_map("large", data={"a": "b"}))
    )
    keys = config_map("large", data=texts(60_000 // share, "other"))
    yield made("60,000 conflicts of apply", apply(LARGE, keys), 409)
    yield made("60,000 forced fields", apply(LARGE, keys, force=True))


def shapes(share: int) -> Iterator[Shape]:
    yield from in_json(share)
    yield from of_other_kinds(share)
    yield from in_yaml(share)
    yield from on_a_large_object(share)
