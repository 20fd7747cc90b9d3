"""Requests as authors of client libraries try them: legal options in unusual combinations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.differential.further_cases import APPLY
from tests.support.differential.raw_cases import (
    ACCOUNTS,
    DEFINITIONS,
    JSON_PATCH,
    LEASES,
    MAPS,
    MERGE,
    METADATA,
    SECRETS,
    STRATEGIC,
    TABLE,
    WIDGETS,
    RawCase,
    config_map,
    definition,
    obj,
    widget,
)

SPACES = "/api/v1/namespaces"
_MANY = "client"


def client_cases() -> Iterator[RawCase]:
    for kind, path, make in (("map", MAPS, config_map), ("widget", WIDGETS, widget)):
        yield from _objects(f"client {kind}", path, make)
        yield from _lists(f"client {kind}", path)
        yield from _ends(f"client {kind}", path, make)
    yield from _status()
    yield from _scale()
    yield from _accounts_and_secrets()
    yield from _spaces()
    yield from _definitions()
    yield from _leases()


def _objects(case: str, path: str, make: Any) -> Iterator[RawCase]:
    labels = {"labels": {"set": _MANY}}
    for number in range(3):
        body = make(f"c{number}", metadata=labels)
        yield RawCase(f"{case} {number}", "POST", path, body, "fieldManager=lib&pretty=true")
    one = f"{path}/c0"
    for name, metadata in {
        "generation": {"generation": 7},
        "status of deletion": {"deletionTimestamp": "2020-01-01T00:00:00Z"},
        "creation time": {"creationTimestamp": "2020-01-01T00:00:00Z"},
        "self link": {"selfLink": "/x"},
        "revision": {"resourceVersion": "5"},
        "zero revision": {"resourceVersion": "0"},
        "uid": {"uid": "own"},
        "name and base": {"generateName": "base-"},
        "annotation key in capitals": {"annotations": {"Example.com/A": "b"}},
        "empty labels": {"labels": {}},
        "other namespace": {"namespace": "other"},
        "cluster name": {"clusterName": "x"},
    }.items():
        body = make("fresh", metadata=metadata)
        yield RawCase(f"{case} create with {name}", "POST", path, body, "dryRun=All")
    for name, query in {
        "all dry": "dryRun=All&dryRun=All",
        "empty dry": "dryRun=",
        "odd dry": "dryRun=Some",
        "empty validation": "fieldValidation=",
        "odd validation": "fieldValidation=Odd",
        "long manager": "fieldManager=" + "m" * 129,
        "timeout": "timeout=5s&dryRun=All",
        "odd timeout": "timeout=soon&dryRun=All",
        "timeout without unit": "timeout=5&dryRun=All",
        "long timeout": "timeout=1h30m&dryRun=All",
        "odd option": "odd=1&dryRun=All",
    }.items():
        yield RawCase(f"{case} create {name}", "POST", path, make("again"), query)
    for name, patch, form in (
        ("nothing", {}, MERGE),
        ("null", None, MERGE),
        ("empty list", [], JSON_PATCH),
        ("test", [{"op": "test", "path": "/metadata/name", "value": "c0"}], JSON_PATCH),
        ("failed test", [{"op": "test", "path": "/metadata/name", "value": "x"}], JSON_PATCH),
        ("escaped", [{"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}], JSON_PATCH),
        ("name", {"metadata": {"name": "other"}}, MERGE),
        ("namespace", {"metadata": {"namespace": "other"}}, MERGE),
        ("stale", {"metadata": {"resourceVersion": "1"}}, MERGE),
        ("no metadata", {"metadata": None}, MERGE),
        ("label", {"metadata": {"labels": {"new": "x", "set": None}}}, MERGE),
        ("kind", {"kind": "Other"}, MERGE),
        ("strategic", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC),
    ):
        raw = b"null" if patch is None else patch
        yield RawCase(f"{case} patch {name}", "PATCH", one, raw, "dryRun=All", form)
    yield RawCase(f"{case} patch absent", "PATCH", f"{path}/none", {}, "", MERGE)
    yield RawCase(f"{case} put absent", "PUT", f"{path}/none", make("none"))
    yield RawCase(f"{case} put other name", "PUT", one, make("c1"))
    with_uid = make("c0", metadata={"uid": "other", "resourceVersion": "@revision"})
    yield RawCase(f"{case} put other uid", "PUT", one, with_uid)
    for name, query in (("twice", "fieldManager=lib"), ("by other", "fieldManager=b")):
        body = make("c2", metadata={"labels": {"set": "other"}})
        yield RawCase(f"{case} apply {name}", "PATCH", f"{path}/c2", body, query, APPLY)


def _lists(case: str, path: str) -> Iterator[RawCase]:
    selector = f"labelSelector=set={_MANY}"
    for name, query in {
        "first": f"{selector}&limit=1",
        "none": f"{selector}&limit=0",
        "fewer": f"{selector}&limit=-1",
        "odd limit": f"{selector}&limit=x",
        "cached": f"{selector}&resourceVersion=0",
        "exact without": f"{selector}&resourceVersionMatch=Exact",
        "exact of zero": f"{selector}&resourceVersion=0&resourceVersionMatch=Exact",
        "not older": f"{selector}&resourceVersion=0&resourceVersionMatch=NotOlderThan",
        "odd match": f"{selector}&resourceVersion=1&resourceVersionMatch=Odd",
        "far revision": f"{selector}&resourceVersion=99999999999999999999",
        "odd token": f"{selector}&continue=x",
        "two selectors": f"{selector}&fieldSelector=metadata.name!=c0",
        "name in set": "labelSelector=set in (client,other),!absent",
        "two keys": "labelSelector=set,set!=other",
        "by odd field": "fieldSelector=metadata.labels.set=client",
        "by name and namespace": "fieldSelector=metadata.name=c0,metadata.namespace=raw",
        "watch ended": f"{selector}&watch=1&timeoutSeconds=1",
        "watch of zero": f"{selector}&watch=true&timeoutSeconds=1&resourceVersion=0",
        "watch odd": f"{selector}&watch=maybe&timeoutSeconds=1",
        "timeout": f"{selector}&timeoutSeconds=5",
        "pretty": f"{selector}&pretty=1",
    }.items():
        yield RawCase(f"{case} list {name}", "GET", path, None, query)
    for name, accept in (("table", TABLE), ("metadata", f"{METADATA},application/json")):
        yield RawCase(f"{case} list as {name}", "GET", path, None, selector, accept=accept)
        yield RawCase(f"{case} get as {name}", "GET", f"{path}/c1", accept=accept)
    metadata = METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList")
    yield RawCase(f"{case} list as list", "GET", path, None, selector, accept=metadata)
    for choice in ("None", "Metadata", "Object", "Odd"):
        query = f"{selector}&includeObject={choice}"
        yield RawCase(f"{case} table with {choice}", "GET", path, None, query, accept=TABLE)
    yield RawCase(f"{case} head", "HEAD", f"{path}/c1")
    yield RawCase(f"{case} options", "OPTIONS", f"{path}/c1")


def _ends(case: str, path: str, make: Any) -> Iterator[RawCase]:
    one = f"{path}/c1"
    options = {"kind": "DeleteOptions", "apiVersion": "v1"}
    for name, body in {
        "without type": {"dryRun": ["All"]},
        "of meta": {**options, "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]},
        "of odd type": {**options, "kind": "Odd", "dryRun": ["All"]},
        "uid": {**options, "dryRun": ["All"], "preconditions": {"uid": "x"}},
        "revision": {**options, "dryRun": ["All"], "preconditions": {"resourceVersion": "1"}},
        "odd policy": {**options, "propagationPolicy": "Odd", "dryRun": ["All"]},
        "policy and orphans": {
            **options,
            "propagationPolicy": "Orphan",
            "orphanDependents": True,
            "dryRun": ["All"],
        },
        "orphans": {**options, "orphanDependents": True, "dryRun": ["All"]},
        "grace": {**options, "gracePeriodSeconds": 30, "dryRun": ["All"]},
        "negative grace": {**options, "gracePeriodSeconds": -5, "dryRun": ["All"]},
        "odd field": {**options, "odd": 1, "dryRun": ["All"]},
        "of other": {"kind": "ConfigMap", "apiVersion": "v1"},
    }.items():
        yield RawCase(f"{case} delete {name}", "DELETE", one, body)
    query = "propagationPolicy=Foreground&dryRun=All"
    yield RawCase(f"{case} delete by query", "DELETE", one, None, query)
    held = make("held", metadata={"finalizers": ["example.com/x"], "labels": {"set": "held"}})
    yield RawCase(f"{case} held", "POST", path, held)
    yield RawCase(f"{case} held deleted", "DELETE", f"{path}/held")
    yield RawCase(f"{case} held deleted again", "DELETE", f"{path}/held")
    more = {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}
    yield RawCase(f"{case} held more", "PATCH", f"{path}/held", more, "", MERGE)
    labeled = {"metadata": {"labels": {"x": "y"}}}
    yield RawCase(f"{case} held labeled", "PATCH", f"{path}/held", labeled, "", MERGE)
    free: dict[str, Any] = {"metadata": {"finalizers": None}}
    yield RawCase(f"{case} held freed", "PATCH", f"{path}/held", free, "", MERGE)
    yield RawCase(f"{case} held gone", "GET", f"{path}/held")
    for name, query in {
        "tried": f"labelSelector=set={_MANY}&dryRun=All",
        "some": "labelSelector=set=other",
        "by field": "fieldSelector=metadata.name=c1",
        "none": "labelSelector=set=absent",
        "odd": "labelSelector=set in (",
    }.items():
        yield RawCase(f"{case} collection {name}", "DELETE", path, None, query)
    yield RawCase(f"{case} left", "GET", path, None, f"labelSelector=set={_MANY}")


def _status() -> Iterator[RawCase]:
    path = f"{WIDGETS}/state"
    yield RawCase("state", "POST", WIDGETS, widget("state", status={"phase": "A"}))
    status = f"{path}/status"
    yield RawCase("state read", "GET", status)
    change: Any = {
        "status": {"phase": "B"},
        "spec": {"size": 9},
        "metadata": {"labels": {"l": "m"}},
    }
    yield RawCase("state merged", "PATCH", status, change, "", MERGE)
    yield RawCase("state merged in spec", "PATCH", path, {"status": {"phase": "C"}}, "", MERGE)
    bad = {"status": {"phase": 7}}
    yield RawCase("state of odd type", "PATCH", status, bad, "", MERGE)
    odd = {"status": {"odd": 7}}
    yield RawCase("state of odd field", "PATCH", status, odd, "", MERGE)
    strict = "fieldValidation=Strict"
    yield RawCase("state of odd field strict", "PATCH", status, odd, strict, MERGE)
    body = widget("state", status={"phase": "D"}, metadata={"resourceVersion": "@revision"})
    yield RawCase("state put", "PUT", status, body)
    yield RawCase("state put blindly", "PUT", status, widget("state", status={"phase": "E"}))
    steps = [{"op": "replace", "path": "/status/phase", "value": "F"}]
    yield RawCase("state by steps", "PATCH", status, steps, "", JSON_PATCH)
    applied = widget("state", status={"phase": "G"})
    yield RawCase("state applied", "PATCH", status, applied, "fieldManager=s&force=true", APPLY)
    yield RawCase("state none", "PATCH", status, {"status": None}, "", MERGE)
    yield RawCase("state posted", "POST", status, widget("state"))
    yield RawCase("state deleted", "DELETE", status)
    yield RawCase("state as table", "GET", status, accept=TABLE)
    yield RawCase("state at last", "GET", path)


def _scale() -> Iterator[RawCase]:
    path = f"{WIDGETS}/state/scale"
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "state"}}
    yield RawCase("scale read", "GET", path)
    for name, body in {
        "put": {**scale, "spec": {"replicas": 2}},
        "put nothing": scale,
        "put negative": {**scale, "spec": {"replicas": -1}},
        "put text": {**scale, "spec": {"replicas": "2"}},
        "put stale": {**scale, "metadata": {"name": "state", "resourceVersion": "1"}},
        "put nameless": {**scale, "metadata": {}},
        "put widget": widget("state"),
    }.items():
        yield RawCase(f"scale {name}", "PUT", path, body)
    yield RawCase("scale merged", "PATCH", path, {"spec": {"replicas": 4}}, "", MERGE)
    yield RawCase("scale merged dry", "PATCH", path, {"spec": {"replicas": 5}}, "dryRun=All", MERGE)
    steps = [{"op": "replace", "path": "/spec/replicas", "value": 6}]
    yield RawCase("scale by steps", "PATCH", path, steps, "", JSON_PATCH)
    yield RawCase("scale deleted", "DELETE", path)
    yield RawCase("scale of absent", "GET", f"{WIDGETS}/absent/scale")
    yield RawCase("scaled", "GET", f"{WIDGETS}/state")


def _accounts_and_secrets() -> Iterator[RawCase]:
    accounts: dict[str, dict[str, Any]] = {
        "nulls": {"secrets": [None], "imagePullSecrets": [None]},
        "empty": {"secrets": [], "imagePullSecrets": []},
        "twice": {"secrets": [{"name": "a"}, {"name": "a"}]},
        "pull": {"imagePullSecrets": [{"name": "a"}, {}]},
        "odd": {"automountServiceAccountToken": "yes"},
    }
    for name, content in accounts.items():
        body = obj("ServiceAccount", "client", **content)
        yield RawCase(f"client account {name}", "POST", ACCOUNTS, body, "dryRun=All")
    secrets: dict[str, dict[str, Any]] = {
        "both": {"data": {"a": "eA=="}, "stringData": {"a": "y", "b": ""}},
        "padded wrong": {"data": {"a": "eA"}},
        "of lines": {"data": {"a": "eA==\n"}},
        "of number": {"stringData": {"a": 1}},
        "immutable null": {"immutable": None, "stringData": {}},
        "odd type": {"type": "Odd Type/x"},
    }
    for name, content in secrets.items():
        body = obj("Secret", "client", **content)
        yield RawCase(f"client secret {name}", "POST", SECRETS, body, "dryRun=All")
    query = "fieldSelector=type=Opaque,metadata.name=absent"
    yield RawCase("client secrets of a type", "GET", SECRETS, None, query)


def _spaces() -> Iterator[RawCase]:
    space = obj("Namespace", "raw-client", metadata={"labels": {"a": "b"}})
    yield RawCase("client space", "POST", SPACES, space)
    path = f"{SPACES}/raw-client"
    yield RawCase("client space put", "PUT", path, obj("Namespace", "raw-client"))
    fixed = {"metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}}
    yield RawCase("client space label", "PATCH", path, fixed, "", MERGE)
    spec: dict[str, Any] = {"spec": {"finalizers": []}}
    yield RawCase("client space spec", "PATCH", path, spec, "", MERGE)
    status = {"status": {"phase": "Terminating"}}
    yield RawCase("client space status", "PATCH", f"{path}/status", status, "dryRun=All", MERGE)
    yield RawCase("client space removed", "DELETE", path)


def _definitions() -> Iterator[RawCase]:
    path = f"{DEFINITIONS}/widgets.raw.example.com"
    yield RawCase("client definition status", "GET", f"{path}/status", accept=METADATA)
    yield RawCase("client definition put blindly", "PUT", path, definition())
    scope = {"spec": {"scope": "Cluster"}}
    yield RawCase("client definition scope", "PATCH", path, scope, "dryRun=All", MERGE)
    group = {"spec": {"group": "other.example.com"}}
    yield RawCase("client definition group", "PATCH", path, group, "dryRun=All", MERGE)
    none: dict[str, Any] = {"spec": {"versions": []}}
    yield RawCase("client definition versions", "PATCH", path, none, "dryRun=All", MERGE)
    gone: dict[str, Any] = {"status": {"storedVersions": []}}
    yield RawCase("client definition stored", "PATCH", f"{path}/status", gone, "dryRun=All", MERGE)
    query = "labelSelector=absent"
    yield RawCase("client definitions deleted", "DELETE", DEFINITIONS, None, query)


def _leases() -> Iterator[RawCase]:
    lease = obj("Lease", "client", "coordination.k8s.io/v1", spec={"holderIdentity": "a"})
    yield RawCase("client lease", "POST", LEASES, lease)
    path = f"{LEASES}/client"
    yield RawCase("client lease put blindly", "PUT", path, lease)
    lease = {**lease, "metadata": {"name": "client", "resourceVersion": "@revision"}}
    yield RawCase("client lease put", "PUT", path, {**lease, "spec": {"holderIdentity": "b"}})
    yield RawCase("client lease put late", "PUT", path, {**lease, "spec": {}})
    yield RawCase("client lease strategic", "PATCH", path, {"spec": None}, "dryRun=All", STRATEGIC)
    yield RawCase("client lease as table", "GET", path, accept=TABLE)
    yield RawCase("client lease gone", "DELETE", path)
