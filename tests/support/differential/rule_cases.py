"""Requests about the rules of single built-in kinds, and about bodies in YAML, sent last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.differential.further_cases import APPLY
from tests.support.differential.raw_cases import (
    BINDINGS,
    EVENTS,
    GROUP,
    JSON_PATCH,
    LEASES,
    MAPS,
    MERGE,
    NAMESPACE,
    NEW_EVENTS,
    RBAC,
    SECRETS,
    STRATEGIC,
    WIDGETS,
    RawCase,
    config_map,
    obj,
    widget,
)

YAML = "application/yaml"
DRY = "dryRun=All"


def rule_cases() -> Iterator[RawCase]:
    yield from _yaml_bodies()
    yield from _core_events()
    yield from _new_events()
    yield from _event_updates()
    yield from _nulls()
    yield from _leases()
    yield from _bindings()
    yield from _managed_fields()


_FLOW = "{apiVersion: v1, kind: ConfigMap, metadata: {name: flow}, data: {a: b, c: 'd'}}"
_BODIES: dict[str, str] = {
    "in flow": _FLOW,
    "in flow of lines": "\n  " + _FLOW.replace(", ", ",\n  "),
    "in flow with quoted keys": '{"apiVersion": v1, "kind": ConfigMap, "metadata": {name: flow}}',
    "in flow with trailing comma": _FLOW.replace("}}", ",},}"),
    "in JSON with comment": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"flow"}} # x',
    "in flow with number": _FLOW.replace("a: b", "a: 1"),
    "in flow with yes": _FLOW.replace("a: b", "a: yes"),
    "in flow with null": _FLOW.replace("a: b", "a: "),
    "in flow with key twice": _FLOW.replace("a: b", "a: b, a: c"),
    "in flow not ended": _FLOW[:-1],
    "in flow of other kind": _FLOW.replace("ConfigMap", "Secret"),
    "in flow without kind": _FLOW.replace("kind: ConfigMap, ", ""),
    "in flow without version": _FLOW.replace("apiVersion: v1, ", ""),
    "in flow after a mark": "---\n" + _FLOW,
    "in flow before a document": _FLOW + "\n---\n" + _FLOW.replace("a: b", "a: z"),
    "in block with key twice": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: flow\ndata:\n  a: b\n  a: c\n"
    ),
    "in block with odd field": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: flow\nodd:\n  a: b\n"
    ),
    "with tab": '{\n\t"apiVersion": "v1", "kind": "ConfigMap",\n\t"metadata": {"name": "flow"}}',
    "of a list": "[a, b]",
    "of text": "text",
    "of nothing": "",
    "of a comment": "# nothing",
    "of braces": "{}",
    "of null": "null",
}


def _yaml_bodies() -> Iterator[RawCase]:
    for name, text in _BODIES.items():
        body, applied = text.encode(), f"{MAPS}/flow"
        query = "fieldManager=a&dryRun=All"
        yield RawCase(f"yaml create {name}", "POST", MAPS, body, DRY, YAML)
        yield RawCase(f"yaml apply {name}", "PATCH", applied, body, query, APPLY)
    for choice in ("Strict", "Ignore"):
        for name in (
            "in flow with key twice",
            "in block with key twice",
            "in block with odd field",
        ):
            body, query = _BODIES[name].encode(), f"dryRun=All&fieldValidation={choice}"
            case = f"{name} {choice}"
            yield RawCase(f"yaml create {case}", "POST", MAPS, body, query, YAML)
            query += "&fieldManager=a"
            yield RawCase(f"yaml apply {case}", "PATCH", f"{MAPS}/flow", body, query, APPLY)
    yield RawCase("yaml create", "POST", MAPS, _FLOW.encode(), "", YAML)
    yield RawCase(
        "yaml put", "PUT", f"{MAPS}/flow", _FLOW.replace("a: b", "a: z").encode(), "", YAML
    )
    body = _FLOW.encode()
    yield RawCase("yaml applied", "PATCH", f"{MAPS}/flow", body, "fieldManager=a&force=true", APPLY)
    flow = f"{{apiVersion: {GROUP}/v1, kind: Widget, metadata: {{name: flow}}, spec: {{size: 2}}}}"
    yield RawCase("yaml create widget", "POST", WIDGETS, flow.encode(), "", YAML)
    body = flow.replace("2", "4").encode()
    query = "fieldManager=a&force=true"
    yield RawCase("yaml applied widget", "PATCH", f"{WIDGETS}/flow", body, query, APPLY)
    body = flow.replace("size: 2", "size: 2, size: 5").replace("flow", "twice").encode()
    yield RawCase("yaml widget with key twice", "POST", WIDGETS, body, DRY, YAML)
    yield RawCase("yaml merge", "PATCH", f"{MAPS}/flow", b"{data: {a: q}}", "", MERGE)
    yield RawCase("yaml as json", "POST", MAPS, _FLOW.encode(), DRY)
    yield RawCase("yaml delete options", "DELETE", f"{MAPS}/flow", b"{dryRun: [All]}", "", YAML)


_ABOUT = {"kind": "Widget", "name": "one", "namespace": NAMESPACE, "apiVersion": f"{GROUP}/v1"}
_TIME = "2020-01-01T00:00:00.000000Z"
_CORE_EVENT = obj(
    "Event", "ruled", involvedObject=_ABOUT, reason="Did", message="it", type="Normal"
)
_TIMED = {
    **_CORE_EVENT,
    "eventTime": _TIME,
    "action": "Do",
    "reportingComponent": "example.com/c",
    "reportingInstance": "c-1",
}
_NEW_EVENT = obj(
    "Event",
    "ruled",
    "events.k8s.io/v1",
    regarding=_ABOUT,
    reason="Did",
    note="it",
    type="Normal",
    action="Do",
    reportingController="example.com/c",
    reportingInstance="c-1",
    eventTime=_TIME,
)
_NEVER = "0001-01-01T00:00:00.000000Z"
_NOWHERE = {"kind": "Widget", "name": "one"}
_TIMES = (
    "2020-01-01T00:00:00Z",
    "2020-01-01T00:00:00.5Z",
    "2020-01-01T00:00:00.123456789Z",
    "2020-01-01T02:00:00.000001+02:00",
    "2020-01-01T00:00:00,000001Z",
    "2020-01-01T5:00:00.000001Z",
    "2020-01-01t00:00:00.000001z",
    "2020-01-01 00:00:00.000001Z",
    "2020-02-30T00:00:00.000001Z",
    "2020-01-01T00:00:00.000001",
    _NEVER,
    "",
    None,
    7,
)


def _core_events() -> Iterator[RawCase]:
    changes: dict[str, dict[str, Any]] = {
        "without type": {"type": None},
        "of odd type": {"type": "Odd"},
        "without reason": {"reason": None},
        "about nothing": {"involvedObject": None},
        "about nowhere": {"involvedObject": _NOWHERE},
        "with series": {"series": {"count": 1}},
        "with long message": {"message": "m" * 2000},
        "with times": {
            "firstTimestamp": "2020-01-01T02:00:00.5+02:00",
            "lastTimestamp": "2020-01-01T00:00:00Z",
            "count": 2,
        },
        "with odd time": {"firstTimestamp": "2020-01-01"},
        "with empty time": {"firstTimestamp": ""},
        "with odd count": {"count": "2"},
        "with large count": {"count": 2**40},
        "with odd name": {"metadata": {"name": "A_b:c"}},
        "with source": {"source": {"component": "c", "host": "h", "odd": 1}},
    }
    for name, change in changes.items():
        yield RawCase(f"core event {name}", "POST", EVENTS, {**_CORE_EVENT, **change}, DRY)
    for name, change in _EVENT_CHANGES.items():
        stored = {_OLD_NAMES.get(key, key): value for key, value in change.items()}
        yield RawCase(f"core timed event {name}", "POST", EVENTS, {**_TIMED, **stored}, DRY)


_OLD_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_EVENT_CHANGES: dict[str, dict[str, Any]] = {
    "as it should be": {},
    "without time": {"eventTime": None},
    "without controller": {"reportingController": None},
    "of odd controller": {"reportingController": "a b"},
    "of long controller": {"reportingController": "c" * 200},
    "of controller in a domain": {"reportingController": "a/b/c"},
    "without instance": {"reportingInstance": None},
    "of long instance": {"reportingInstance": "i" * 129},
    "without action": {"action": None},
    "of long action": {"action": "a" * 129},
    "without reason": {"reason": None},
    "of long reason": {"reason": "r" * 129},
    "without type": {"type": None},
    "of odd type": {"type": "Odd"},
    "without note": {"note": None},
    "with long note": {"note": "n" * 1025},
    "without object": {"regarding": None},
    "of object nowhere": {"regarding": _NOWHERE},
    "of object elsewhere": {"regarding": {**_ABOUT, "namespace": "other"}},
    "with related": {"related": _ABOUT},
    "with series": {"series": {"count": 2, "lastObservedTime": _TIME}},
    "with short series": {"series": {"count": 1, "lastObservedTime": _TIME}},
    "with series without time": {"series": {"count": 3}},
    "with empty series": {"series": {}},
    "with odd series": {"series": {"count": 2, "lastObservedTime": "2020-01-01T00:00:00Z"}},
    "with first time": {"deprecatedFirstTimestamp": "2020-01-01T00:00:00Z"},
    "with last time": {"deprecatedLastTimestamp": "2020-01-01T00:00:00Z"},
    "with count": {"deprecatedCount": 1},
    "with no count": {"deprecatedCount": 0},
    "with source": {"deprecatedSource": {"component": "c"}},
    "with empty source": {"deprecatedSource": {}},
    "with odd name": {"metadata": {"name": "A_b:c"}},
    "with unknown field": {"odd": 1},
    "without all": {
        "reportingController": None,
        "reportingInstance": None,
        "action": None,
        "reason": None,
        "type": None,
        "regarding": None,
    },
}


def _new_events() -> Iterator[RawCase]:
    for name, change in _EVENT_CHANGES.items():
        yield RawCase(f"new event {name}", "POST", NEW_EVENTS, {**_NEW_EVENT, **change}, DRY)
    core = {key: _NEW_EVENT[key] for key in ("apiVersion", "kind", "metadata", "type", "reason")}
    yield RawCase("new event of few fields", "POST", NEW_EVENTS, core, DRY)
    mixed = {**_NEW_EVENT, "involvedObject": _ABOUT, "message": "m", "count": 1}
    yield RawCase("new event of old fields", "POST", NEW_EVENTS, mixed, DRY)
    mixed = {**_CORE_EVENT, "regarding": _ABOUT, "note": "m", "reportingController": "c"}
    yield RawCase("core event of new fields", "POST", EVENTS, mixed, DRY)
    for time in (each for each in _TIMES if each != _NEVER):
        body = {**_NEW_EVENT, "eventTime": time}
        yield RawCase(f"new event at {time}", "POST", NEW_EVENTS, body, DRY)


def _event_updates() -> Iterator[RawCase]:
    yield RawCase("ruled event", "POST", NEW_EVENTS, _NEW_EVENT)
    series = {"count": 2, "lastObservedTime": _TIME}
    changes: dict[str, dict[str, Any]] = {
        "nothing": {},
        "series": {"series": series},
        "short series": {"series": {"count": 1}},
        "note": {"note": "other"},
        "reason": {"reason": "Other"},
        "type": {"type": "Warning"},
        "action": {"action": "Other"},
        "object": {"regarding": {**_ABOUT, "name": "two"}},
        "related": {"related": _ABOUT},
        "controller": {"reportingController": "example.com/d"},
        "instance": {"reportingInstance": "c-2"},
        "time": {"eventTime": "2020-01-01T00:00:00.000001Z"},
        "no time": {"eventTime": None},
        "count": {"deprecatedCount": 4},
        "source": {"deprecatedSource": {"component": "c"}},
        "first time": {"deprecatedFirstTimestamp": "2020-01-01T00:00:00Z"},
        "labels": {"metadata": {"name": "ruled", "labels": {"a": "b"}}},
    }
    for name, change in changes.items():
        body, path = {**_NEW_EVENT, **change}, f"{NEW_EVENTS}/ruled"
        yield RawCase(f"event put {name}", "PUT", path, body, DRY)
        yield RawCase(f"event patch {name}", "PATCH", path, change, DRY, MERGE)
    changes = {
        "note": {"message": "other"},
        "no action": {"action": None},
        "type": {"type": "Odd"},
        "series": {"series": {"count": 1}},
        "count": {"count": 4},
        "no time": {"eventTime": None},
    }
    for name, change in changes.items():
        path = f"{EVENTS}/ruled"
        yield RawCase(f"core event patch {name}", "PATCH", path, change, DRY, MERGE)
    body = {**_NEW_EVENT, "metadata": {"name": "put"}}
    yield RawCase("new event by put", "PUT", f"{NEW_EVENTS}/put", body)
    body = {**body, "metadata": {"name": "bad"}, "type": "Odd"}
    yield RawCase("bad event by put", "PUT", f"{NEW_EVENTS}/bad", body)
    body = {**_NEW_EVENT, "metadata": {"name": "applied"}}
    yield RawCase(
        "new event by apply", "PATCH", f"{NEW_EVENTS}/applied", body, "fieldManager=a", APPLY
    )
    yield RawCase("ruled event in core", "GET", f"{EVENTS}/ruled")


def _nulls() -> Iterator[RawCase]:
    nulls: tuple[tuple[str, str, str, str, Any], ...] = (
        ("map data", MAPS, "ConfigMap", "data", "x"),
        ("map binary", MAPS, "ConfigMap", "binaryData", "eA=="),
        ("secret data", SECRETS, "Secret", "data", "eA=="),
        ("secret text", SECRETS, "Secret", "stringData", "x"),
    )
    for case, path, kind, field, value in nulls:
        name = case.replace(" ", "-")
        body = {**obj(kind, name), field: {"a": None, "b": value}}
        yield RawCase(f"null {case} tried", "POST", path, body, DRY)
        yield RawCase(f"null {case}", "POST", path, body)
        yield RawCase(f"null {case} read", "GET", f"{path}/{name}")
        change: Any = {**obj(kind, name), field: {"b": None}}
        yield RawCase(f"null {case} put", "PUT", f"{path}/{name}", change)
        change = {field: {"c": None, "d": {}}}
        yield RawCase(f"null {case} merge", "PATCH", f"{path}/{name}", change, "", MERGE)
        change = {field: {"c": None, "d": value}}
        yield RawCase(f"null {case} strategic", "PATCH", f"{path}/{name}", change, "", STRATEGIC)
        change = [{"op": "add", "path": f"/{field}", "value": {"e": None}}]
        yield RawCase(f"null {case} json", "PATCH", f"{path}/{name}", change, "", JSON_PATCH)
        change = {**obj(kind, name), field: {"f": None}}
        query = "fieldManager=a&force=true"
        yield RawCase(f"null {case} apply", "PATCH", f"{path}/{name}", change, query, APPLY)
        yield RawCase(f"null {case} at last", "GET", f"{path}/{name}")
        yield RawCase(f"null {case} all", "POST", path, {**obj(kind, "all"), field: None}, DRY)
        yield RawCase(f"null {case} number", "POST", path, {**obj(kind, "n"), field: {"a": 1}}, DRY)
        yield RawCase(f"null {case} list", "POST", path, {**obj(kind, "n"), field: [None]}, DRY)
    labels = {"labels": {"a": None}, "annotations": {"b": None}}
    for name, path, body in (
        ("map", MAPS, config_map("label", metadata=labels)),
        ("widget", WIDGETS, widget("label", metadata=labels)),
        ("lease", LEASES, obj("Lease", "l", "coordination.k8s.io/v1", metadata=labels)),
    ):
        held = {**body, "metadata": {"name": "l", "finalizers": ["abc"]}}
        yield RawCase(f"finalizer without domain of {name}", "POST", path, held, DRY)
        yield RawCase(f"null label of {name}", "POST", path, body, DRY)
        finalizers = {**body, "metadata": {"name": "l", "finalizers": [None]}}
        yield RawCase(f"null finalizer of {name}", "POST", path, finalizers, DRY)
        owners = {**body, "metadata": {"name": "l", "ownerReferences": [None]}}
        yield RawCase(f"null owner of {name}", "POST", path, owners, DRY)


def _leases() -> Iterator[RawCase]:
    lease = obj("Lease", "timed", "coordination.k8s.io/v1")
    for time in _TIMES:
        for field in ("renewTime", "acquireTime"):
            body = {**lease, "spec": {field: time}}
            yield RawCase(f"lease {field} {time}", "POST", LEASES, body, DRY)
    for name, spec in {
        "both": {"leaseDurationSeconds": 0, "leaseTransitions": -1},
        "empty holder": {"holderIdentity": ""},
        "strategy": {"strategy": "OldestEmulationVersion"},
        "odd strategy": {"strategy": "a b"},
        "preferred": {"preferredHolder": "a"},
        "preferred and strategy": {"preferredHolder": "a", "strategy": "x.y/z"},
        "text": {"leaseDurationSeconds": "10"},
        "fraction": {"leaseDurationSeconds": 1.5},
        "whole fraction": {"leaseDurationSeconds": 10.0},
        "large": {"leaseDurationSeconds": 2**31},
        "nulls": {"leaseDurationSeconds": None, "holderIdentity": None, "renewTime": None},
        "nothing": {},
        "null": None,
    }.items():
        yield RawCase(f"lease of {name}", "POST", LEASES, {**lease, "spec": spec}, DRY)
    body = {**lease, "spec": {"leaseDurationSeconds": 5, "renewTime": _TIME}}
    yield RawCase("timed lease", "POST", LEASES, body)
    for name, spec in {
        "time": {"renewTime": "2020-01-01T03:00:00.000001+02:00"},
        "short time": {"renewTime": "2020-01-01T03:00:00Z"},
        "duration": {"leaseDurationSeconds": 0},
        "transitions": {"leaseTransitions": -2},
        "no duration": {"leaseDurationSeconds": None},
    }.items():
        patch, path = {"spec": spec}, f"{LEASES}/timed"
        yield RawCase(f"lease patch {name}", "PATCH", path, patch, DRY, MERGE)
        config = {**lease, "spec": spec}
        query = "dryRun=All&fieldManager=a&force=true"
        yield RawCase(f"lease apply {name}", "PATCH", path, config, query, APPLY)
        body = {**lease, "spec": spec}
        body["metadata"] = {"name": "timed", "resourceVersion": "@revision"}
        yield RawCase(f"lease put {name}", "PUT", path, body, DRY)


_RBAC_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS: dict[str, Any] = {
    "nobody": {},
    "kind alone": {"kind": "User"},
    "user of odd group": {"kind": "User", "name": "a", "apiGroup": "odd"},
    "user of odd name": {"kind": "User", "name": "a b/c%"},
    "user in namespace": {"kind": "User", "name": "a", "namespace": "n"},
    "group": {"kind": "Group", "name": "system:x"},
    "group without name": {"kind": "Group", "apiGroup": _RBAC_GROUP},
    "account": {"kind": "ServiceAccount", "name": "a", "namespace": "n"},
    "account nowhere": {"kind": "ServiceAccount", "name": "a"},
    "account of odd name": {"kind": "ServiceAccount", "name": "A b", "namespace": "n"},
    "account of long name": {"kind": "ServiceAccount", "name": "a" * 254, "namespace": "n"},
    "account in odd namespace": {"kind": "ServiceAccount", "name": "a", "namespace": "A b"},
    "account of group": {
        "kind": "ServiceAccount",
        "name": "a",
        "namespace": "n",
        "apiGroup": _RBAC_GROUP,
    },
    "account of no name": {"kind": "ServiceAccount", "name": "", "namespace": ""},
    "small kind": {"kind": "user", "name": "a"},
    "pod": {"kind": "Pod", "name": "a", "apiGroup": "odd"},
    "odd field": {"kind": "User", "name": "a", "odd": 1},
    "number as name": {"kind": "User", "name": 1},
    "text": "bob",
    "null": None,
}
_ROLES: dict[str, Any] = {
    "empty": {},
    "null": None,
    "text": "x",
    "without kind": {"name": "r"},
    "small": {"kind": "role", "name": "r"},
    "of odd group": {"kind": "Role", "name": "r", "apiGroup": "odd"},
    "of empty group": {"kind": "Role", "name": "r", "apiGroup": ""},
    "cluster role": {"kind": "ClusterRole", "name": "r", "apiGroup": _RBAC_GROUP},
    "role": {"kind": "Role", "name": "r", "apiGroup": _RBAC_GROUP},
    "with slash": {"kind": "ClusterRole", "name": "a/b"},
    "with percent": {"kind": "ClusterRole", "name": "a%b"},
    "of dots": {"kind": "ClusterRole", "name": ".."},
    "of spaces": {"kind": "ClusterRole", "name": "a b:c"},
    "of long name": {"kind": "ClusterRole", "name": "r" * 300},
    "with odd field": {"kind": "ClusterRole", "name": "r", "odd": 1},
    "all wrong": {"kind": "Odd", "apiGroup": "odd"},
}


def _bindings() -> Iterator[RawCase]:
    role = {"kind": "ClusterRole", "name": "view", "apiGroup": _RBAC_GROUP}
    user = {"kind": "User", "name": "a", "apiGroup": _RBAC_GROUP}
    for kind, path in (
        ("RoleBinding", BINDINGS),
        ("ClusterRoleBinding", f"{RBAC}/clusterrolebindings"),
    ):
        body = obj(kind, "ruled", f"{_RBAC_GROUP}/v1", subjects=[user], roleRef=role)
        for name, subject in _SUBJECTS.items():
            case = f"{kind} of {name}"
            yield RawCase(case, "POST", path, {**body, "subjects": [subject]}, DRY)
        for name, reference in _ROLES.items():
            case = f"{kind} to role {name}"
            yield RawCase(case, "POST", path, {**body, "roleRef": reference}, DRY)
        lacking = {key: value for key, value in body.items() if key != "roleRef"}
        yield RawCase(f"{kind} without role", "POST", path, lacking, DRY)
        yield RawCase(f"{kind} of two", "POST", path, {**body, "subjects": [{}, user, {}]}, DRY)
        yield RawCase(f"{kind} ruled", "POST", path, body)
        path = f"{path}/ruled"
        for name, change in {
            "role": {**role, "name": "edit"},
            "kind": {**role, "kind": "Role"},
            "group": {**role, "apiGroup": "odd"},
            "no group": {"kind": "ClusterRole", "name": "view"},
            "no role": None,
        }.items():
            yield RawCase(f"{kind} put {name}", "PUT", path, {**body, "roleRef": change}, DRY)
            patch = {"roleRef": change}
            yield RawCase(f"{kind} patch {name}", "PATCH", path, patch, DRY, MERGE)
        subjects = {"subjects": [{"kind": "Group", "name": "g"}]}
        yield RawCase(f"{kind} patch subjects", "PATCH", path, subjects, DRY, MERGE)
        yield RawCase(f"{kind} strategic subjects", "PATCH", path, subjects, DRY, STRATEGIC)
        yield RawCase(f"{kind} put without subjects", "PUT", path, {**body, "subjects": []}, DRY)
        applied = {**body, "subjects": [{"kind": "Group", "name": "g"}]}
        query = "dryRun=All&fieldManager=a&force=true"
        yield RawCase(f"{kind} apply subjects", "PATCH", path, applied, query, APPLY)
        yield RawCase(f"{kind} ruled away", "DELETE", path)


_ENTRY = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2020-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {"f:a": {}}},
}
_ENTRIES: dict[str, Any] = {
    "good": [_ENTRY],
    "of empty list": [],
    "of null": None,
    "reset": [{}],
    "twice empty": [{}, {}],
    "of odd operation": [{**_ENTRY, "operation": "Odd"}],
    "without operation": [{**_ENTRY, "operation": None}],
    "without version": [{**_ENTRY, "apiVersion": None}],
    "of odd version": [{**_ENTRY, "apiVersion": "odd/v9"}],
    "without type": [{**_ENTRY, "fieldsType": None}],
    "of odd type": [{**_ENTRY, "fieldsType": "FieldsV2"}],
    "without fields": [{**_ENTRY, "fieldsV1": None}],
    "of empty fields": [{**_ENTRY, "fieldsV1": {}}],
    "of odd fields": [{**_ENTRY, "fieldsV1": {"x:data": {}}}],
    "of odd key": [{**_ENTRY, "fieldsV1": {"k:{": {}}}],
    "of fields as text": [{**_ENTRY, "fieldsV1": "x"}],
    "of fields as list": [{**_ENTRY, "fieldsV1": [1]}],
    "without manager": [{**_ENTRY, "manager": None}],
    "of long manager": [{**_ENTRY, "manager": "m" * 129}],
    "of odd manager": [{**_ENTRY, "manager": "a\u0001b"}],
    "of numeric manager": [{**_ENTRY, "manager": 1}],
    "of odd time": [{**_ENTRY, "time": "soon"}],
    "of time with fraction": [{**_ENTRY, "time": "2020-01-01T02:00:00.5+02:00"}],
    "without time": [{**_ENTRY, "time": None}],
    "of subresource": [{**_ENTRY, "subresource": "status"}],
    "of long subresource": [{**_ENTRY, "subresource": "s" * 257}],
    "with odd field": [{**_ENTRY, "odd": 1}],
    "twice": [_ENTRY, _ENTRY],
    "one of two odd": [_ENTRY, {**_ENTRY, "operation": "Odd"}],
    "of text": ["x"],
    "of null entry": [None],
    "of object": {},
    "of text alone": "x",
}


def _managed_fields() -> Iterator[RawCase]:
    yield RawCase("owned map", "POST", MAPS, config_map("owned", data={"a": "b"}), "fieldManager=a")
    yield RawCase("owned widget", "POST", WIDGETS, widget("owned"), "fieldManager=a")
    for kind, path, make in (("map", MAPS, config_map), ("widget", WIDGETS, widget)):
        for name, entries in _ENTRIES.items():
            metadata = {"managedFields": entries}
            query = "dryRun=All&fieldManager=b"
            body = make("new", metadata=metadata)
            yield RawCase(f"{kind} create managed {name}", "POST", path, body, query)
            metadata = {**metadata, "resourceVersion": "@revision"}
            body = make("owned", metadata=metadata)
            yield RawCase(f"{kind} put managed {name}", "PUT", f"{path}/owned", body, query)
            body = {"metadata": {"managedFields": entries}}
            yield RawCase(
                f"{kind} patch managed {name}", "PATCH", f"{path}/owned", body, query, MERGE
            )
