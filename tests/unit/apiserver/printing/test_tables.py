"""Tables, ages and the paths of columns, as kubectl shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from datum_compute.apiserver.kinds import jsonpath
from datum_compute.apiserver.kinds.builtin_kinds import builtin_kinds
from datum_compute.apiserver.kinds.columns import human_duration
from datum_compute.apiserver.kinds.served_kind import ServedKind, from_crd
from datum_compute.apiserver.printing import tables

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

READY = {"type": "Ready", "status": "False", "reason": "NetworkNotReady"}
WIDGET: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {
        "name": "w",
        "creationTimestamp": "2026-03-01T11:59:13Z",
        "labels": {"app.kubernetes.io/name": "shop"},
    },
    "spec": {"replicas": 2, "ratio": 0.5, "on": True, "cities": ["DFW", "LHR"], "nothing": None},
    "status": {"conditions": [{"type": "Other", "status": "True"}, READY]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", [2]),
        ("spec.replicas", [2]),
        ("{.spec.replicas}", [2]),
        ("$.spec.replicas", [2]),
        (".spec.cities[0]", ["DFW"]),
        (".spec.cities[-1]", ["LHR"]),
        (".spec.cities[7]", []),
        (".spec.cities[*]", ["DFW", "LHR"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["False"]),
        (".status.conditions[?(@.type=='Ready')].reason", ["NetworkNotReady"]),
        ('.status.conditions[?( @.type != "Ready" )].type', ["Other"]),
        ('.status.conditions[?(@.type=="Gone")].status', []),
        (r".metadata.labels.app\.kubernetes\.io/name", ["shop"]),
        (".metadata.labels['app.kubernetes.io/name']", ["shop"]),
        (".spec.absent.deeper", []),
        (".spec.replicas.deeper", []),
        (".metadata.name[0]", []),
        (".spec.nothing", [None]),
    ],
)
def test_a_path_finds_values(path: str, found: list[Any]) -> None:
    assert jsonpath.compile_path(path)(WIDGET) == found


@pytest.mark.parametrize("path", ["", ".a[", ".a[?(@.b)]", ".a..b", ".a[0:2]", ".a]"])
def test_a_path_outside_the_subset_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        jsonpath.compile_path(path)


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (47, "47s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (8 * 3600 - 1, "7h59m"),
        (8 * 3600 + 300, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400 - 1, "7d23h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (740 * 86400, "2y10d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_ages_grow_coarser(seconds: int, printed: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == printed


def widget_kind(*columns: dict[str, Any]) -> ServedKind:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
        "additionalPrinterColumns": list(columns),
    }
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    (kind,) = from_crd({"metadata": {"name": "widgets.example.com"}, "spec": spec})
    return kind


def cells(kind: ServedKind, obj: dict[str, Any]) -> list[Any]:
    (row,) = tables.table(kind, [obj], now=NOW, resource_version="1")["rows"]
    found: list[Any] = row["cells"]
    return found


def builtin(name: str) -> ServedKind:
    return next(kind for kind in builtin_kinds() if kind.resource.kind == name)


@pytest.mark.parametrize(
    ("column_type", "path", "cell"),
    [
        ("integer", ".spec.replicas", 2),
        ("integer", ".metadata.name", None),
        ("integer", ".spec.on", None),
        ("number", ".spec.ratio", 0.5),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.replicas", None),
        ("string", ".metadata.name", "w"),
        ("string", ".spec.replicas", "2"),
        ("string", ".spec.on", "true"),
        ("string", ".spec.cities", '["DFW","LHR"]'),
        ("string", ".spec.cities[*]", "DFW LHR"),
        ("string", ".spec.absent", None),
        ("string", ".spec.nothing", None),
        ("date", ".metadata.creationTimestamp", "47s"),
        ("date", ".metadata.deletionTimestamp", None),
        ("date", ".metadata.name", "<invalid>"),
    ],
)
def test_a_value_has_the_type_its_column_declares(column_type: str, path: str, cell: Any) -> None:
    kind = widget_kind({"name": "Cell", "type": column_type, "jsonPath": path})

    assert cells(kind, WIDGET) == ["w", cell]


def test_a_table_has_rows_columns_and_its_revision() -> None:
    column = {"name": "Where", "type": "string", "jsonPath": ".spec.cities", "priority": 1}
    printed = tables.table(
        widget_kind(column),
        [WIDGET],
        now=NOW,
        resource_version="42",
    )

    assert (printed["kind"], printed["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert printed["metadata"] == {"resourceVersion": "42"}
    assert [(c["name"], c["format"], c["priority"]) for c in printed["columnDefinitions"]] == [
        ("Name", "name", 0),
        ("Where", "", 1),
    ]
    assert all(set(c) == DEFINITION for c in printed["columnDefinitions"])
    assert len(printed["rows"]) == 1


DEFINITION = {"name", "type", "format", "description", "priority"}
PARTIAL = {
    "kind": "PartialObjectMetadata",
    "apiVersion": "meta.k8s.io/v1",
    "metadata": WIDGET["metadata"],
}


@pytest.mark.parametrize(
    ("include", "expected"), [("None", None), ("Metadata", PARTIAL), ("Object", WIDGET)]
)
def test_a_row_includes_the_object_as_requested(
    include: tables.IncludeObject, expected: Any
) -> None:
    printed = tables.table(
        widget_kind(), [WIDGET], now=NOW, include_object=include, resource_version="1"
    )

    assert printed["rows"][0]["object"] == expected


def test_later_events_of_a_watch_leave_the_columns_out() -> None:
    printed = tables.table(
        widget_kind(), [WIDGET], now=NOW, resource_version="1", with_columns=False
    )

    assert printed["columnDefinitions"] is None
    assert printed["rows"][0]["cells"] == ["w", "47s"]


EVENT = {
    "metadata": {"name": "w.1"},
    "involvedObject": {"kind": "Widget", "name": "w"},
    "type": "Warning",
    "reason": "Failed",
    "message": "it broke\n",
    "firstTimestamp": "2026-03-01T11:50:00Z",
    "lastTimestamp": "2026-03-01T11:59:50Z",
    "count": 4,
    "source": {"component": "cell", "host": "dfw"},
}


@pytest.mark.parametrize(
    ("kind", "obj", "expected"),
    [
        ("Namespace", {"status": {"phase": "Active"}}, ["w", "Active", "47s"]),
        ("ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": ""}}, ["w", 2, "47s"]),
        ("ConfigMap", {}, ["w", 0, "47s"]),
        ("Secret", {"type": "Opaque", "data": None}, ["w", "Opaque", 0, "47s"]),
        ("ServiceAccount", {}, ["w", 0, "47s"]),
        ("Lease", {"spec": {"holderIdentity": "me"}}, ["w", "me", "47s"]),
        ("CustomResourceDefinition", {}, ["w", "2026-03-01T11:59:13Z"]),
    ],
)
def test_built_in_kinds_show_what_kubectl_users_expect(
    kind: str, obj: dict[str, Any], expected: list[Any]
) -> None:
    assert cells(builtin(kind), {"metadata": WIDGET["metadata"], **obj}) == expected


def test_the_columns_of_events() -> None:
    kind = builtin("Event")

    printed = dict(zip([c.name for c in kind.columns], cells(kind, EVENT), strict=True))

    assert printed == {
        "Last Seen": "10s",
        "Type": "Warning",
        "Reason": "Failed",
        "Object": "widget/w",
        "Subobject": None,
        "Source": "cell, dfw",
        "Message": "it broke",
        "First Seen": "10m",
        "Count": 4,
        "Name": "w.1",
    }
    assert [c.name for c in kind.columns if c.priority == 0] == [
        "Last Seen",
        "Type",
        "Reason",
        "Object",
        "Message",
    ]
