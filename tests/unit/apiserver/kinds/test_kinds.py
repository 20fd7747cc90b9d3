"""From definitions to served kinds, and which definitions are refused, where and why."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from datum_compute.api.scheme import Resource
from datum_compute.apiserver.kinds.builtin_kinds import builtin_kinds
from datum_compute.apiserver.kinds.definitions import BUILTIN_NAMES, validate_definition
from datum_compute.apiserver.kinds.registry import KindRegistry, stored_faults
from datum_compute.apiserver.kinds.served_kind import from_crd

Edit = Callable[[dict[str, Any]], None]
SCHEMA = "spec.validation.openAPIV3Schema"


def definition(**spec: Any) -> dict[str, Any]:
    widget = {"type": "object", "properties": {"color": {"type": "string"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": widget}}},
    }
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
            **spec,
        },
    }


def with_version(**fields: Any) -> dict[str, Any]:
    crd = definition()
    crd["spec"]["versions"][0].update(fields)
    return crd


def with_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return with_version(schema={"openAPIV3Schema": schema})


def with_field(field: Any) -> dict[str, Any]:
    return with_schema({"type": "object", "properties": {"x": field}})


def faults(crd: dict[str, Any]) -> list[str]:
    return [str(error) for error in validate_definition(crd)]


def test_a_minimal_definition_is_completed() -> None:
    (kind,) = from_crd(definition())

    assert kind.resource == Resource("example.com", "v1", "widgets", "Widget")
    assert (kind.list_kind, kind.singular) == ("WidgetList", "widget")
    assert [column.name for column in kind.columns] == ["Name", "Age"]
    assert (kind.has_status, kind.has_scale, kind.builtin) == (False, False, False)
    assert set(kind.verbs) >= {"get", "list", "watch", "create", "update", "patch", "delete"}


def test_every_field_of_a_definition_is_applied() -> None:
    crd = with_version(
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
        },
        additionalPrinterColumns=[
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1}
        ],
        selectableFields=[{"jsonPath": ".spec.color"}],
    )
    crd["spec"]["scope"] = "Cluster"
    crd["spec"]["names"] |= {
        "listKind": "Widgets",
        "singular": "gadget",
        "shortNames": ["wd"],
        "categories": ["all"],
    }

    (kind,) = from_crd(crd)

    assert not kind.resource.namespaced
    assert (kind.list_kind, kind.singular) == ("Widgets", "gadget")
    assert (kind.short_names, kind.categories) == (("wd",), ("all",))
    assert [(column.name, column.priority) for column in kind.columns] == [
        ("Name", 0),
        ("Color", 1),
    ]
    assert (kind.has_status, kind.has_scale) == (True, True)
    assert kind.selectable_fields == ("spec.color",)


def test_each_served_version_is_a_kind_of_its_own() -> None:
    crd = definition()
    (v1,) = crd["spec"]["versions"]
    crd["spec"]["versions"] += [
        {**v1, "name": "v2", "storage": False},
        {**v1, "name": "v0", "storage": False, "served": False},
    ]

    served = from_crd(crd)

    assert [kind.resource.version for kind in served] == ["v1", "v2"]
    assert served[0].schema is served[1].schema


@pytest.mark.parametrize(
    ("crd", "fault"),
    [
        ({"metadata": {}}, "spec.group: Required value"),
        (definition(group=""), "spec.group: Required value"),
        (definition(scope="Everywhere"), "spec.scope: Unsupported value"),
        (definition(versions=[]), "spec.versions: Invalid value"),
        (definition(names={"plural": "widgets"}), "spec.names.kind: Required value"),
        (
            definition(names={"plural": "gadgets", "kind": "Widget"}),
            'metadata.name: Invalid value: "widgets.example.com": '
            'must be spec.names.plural+"."+spec.group',
        ),
        (definition(group="Example.com"), 'spec.group: Invalid value: "Example.com"'),
        (
            definition(names={"plural": "widgets", "kind": "Widget", "shortNames": ["W"]}),
            'spec.names.shortNames[0]: Invalid value: "W"',
        ),
        (with_version(name="V1"), 'spec.versions[0].name: Invalid value: "V1"'),
        (
            with_version(storage=False),
            'spec.versions: Invalid value: ["v1"]: '
            "must have exactly one version marked as storage version",
        ),
        (
            with_version(schema=None),
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
        ),
        (
            with_version(
                additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}]
            ),
            'spec.additionalPrinterColumns[0].type: Invalid value: "text"',
        ),
        (
            with_version(additionalPrinterColumns=[{"name": "A", "type": "date", "jsonPath": "a"}]),
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a"',
        ),
        (
            with_version(subresources={"scale": {"specReplicasPath": ".status.n"}}),
            'spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": '
            "should be a json path under .spec",
        ),
        (
            with_version(deprecated=True, deprecationWarning=""),
            'spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string',
        ),
        (
            with_version(selectableFields=[{"jsonPath": ".spec"}]),
            'spec.selectableFields[0].jsonPath: Invalid value: ".spec": must point to a field',
        ),
        (
            with_version(selectableFields=[{"jsonPath": ".a["}]),
            'spec.selectableFields[0].jsonPath: Invalid value: ".a["',
        ),
    ],
)
def test_a_definition_is_refused_at_the_exact_path(crd: dict[str, Any], fault: str) -> None:
    assert any(found.startswith(fault) for found in faults(crd)), faults(crd)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (
            {"type": "object", "allOf": [{"properties": {"a": {"minimum": 1}}}]},
            f".properties[a]: Required value: because it is defined in "
            f"{SCHEMA}.allOf[0].properties[a]",
        ),
        ({}, ".type: Required value: must not be empty at the root"),
        ({"type": "string"}, '.type: Invalid value: "string": must be object at the root'),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "properties": {
                "labels": {"type": "object"}}}}},
            ".properties[metadata]: Forbidden: must not specify anything "
            "other than name and generateName, but metadata is implicitly specified",
        ),
    ],
)  # fmt: skip
def test_a_root_schema_is_refused(schema: dict[str, Any], fault: str) -> None:
    assert faults(with_schema(schema)) == [SCHEMA + fault]


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        ({}, ".type: Required value: must not be empty for specified object fields"),
        ("string", ': Invalid value: "string": must be a schema'),
        (
            {"type": "text"},
            '.type: Unsupported value: "text": supported values: "array", "boolean", "integer", '
            '"number", "object", "string"',
        ),
        ({"type": "array"}, ".items: Required value: must be specified"),
        (
            {"type": "array", "items": {}},
            ".items.type: Required value: must not be empty for specified array items",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
            "complexity becomes quadratic",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "additionalProperties": {"type": "string"},
            },
            ".additionalProperties: Forbidden: additionalProperties and properties are mutual "
            "exclusive",
        ),
        ({"type": "string", "$ref": "#/x"}, ".$ref: Forbidden: $ref is not supported"),
        (
            {"type": "string", "anyOf": [{"type": "string"}]},
            ".anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            {"type": "object", "not": {"default": {}}},
            ".not.default: Forbidden: must be undefined to be structural",
        ),
        (
            {"type": "integer", "default": "x"},
            '.default: Invalid value: "string":  in body must be of type integer: "string"',
        ),
        (
            {"type": "object", "properties": {}, "default": {"gone": 1}},
            '.default: Invalid value: {"gone":1}: must not have unknown fields',
        ),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"},
            '.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", '
            '"map", "set"',
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is "
            "true without x-kubernetes-preserve-unknown-fields",
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            ".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or "
            "undefined",
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {}},
                "x-kubernetes-list-type": "set",
            },
            ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list "
            "with x-kubernetes-list-type=set",
        ),
        (
            {
                "type": "object",
                "required": ["a"],
                "properties": {"a": {"type": "string"}},
                "default": {},
            },
            ".default.a: Required value",
        ),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
            ".x-kubernetes-list-map-keys: Required value: must not be empty if "
            "x-kubernetes-list-type is map",
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            ".items.properties[name].default: Required value: this property is in "
            "x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(field: Any, fault: str) -> None:
    assert faults(with_field(field)) == [f"{SCHEMA}.properties[x]{fault}"]


def test_a_bad_pattern_is_refused_with_its_reason() -> None:
    (fault,) = faults(with_field({"type": "string", "pattern": "a(?=b)"}))

    assert fault.startswith(
        f'{SCHEMA}.properties[x].pattern: Invalid value: "a(?=b)": '
        "must be a valid regular expression, but isn't: "
    )


def test_all_faults_of_a_definition_are_reported_at_once() -> None:
    crd = with_schema({"type": "object", "properties": {"x": {}, "y": {}}})
    crd["metadata"]["name"] = "other"

    assert len(faults(crd)) == 3


def test_every_built_in_kind_has_columns_and_validation() -> None:
    served = builtin_kinds()

    assert {kind.resource.kind for kind in served if "delete" in kind.verbs} == {
        "Namespace",
        "ConfigMap",
        "Secret",
        "ServiceAccount",
        "Event",
        "Lease",
        "CustomResourceDefinition",
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }
    for kind in served:
        assert kind.builtin
        assert "Name" in [column.name for column in kind.columns]
        obj = {"metadata": {"name": "a"}, "future": {"field": 1}}
        outcome = kind.schema.process(obj)
        assert outcome.errors == []
        assert ("future" in obj) != ("future" in outcome.unknown)


@pytest.mark.parametrize(
    ("kind", "obj", "fault"),
    [
        ("ConfigMap", {"data": {"n": 1}}, "data.n: Invalid value"),
        ("ConfigMap", {"data": "x"}, "data: Invalid value"),
        ("Secret", {"data": {"k": "not base64!"}}, "data.k: Invalid value"),
        (
            "Lease",
            {"spec": {"leaseDurationSeconds": 0}},
            "spec.leaseDurationSeconds: Invalid value",
        ),
        ("Namespace", {"spec": {"finalizers": "kubernetes"}}, "spec.finalizers: Invalid value"),
    ],
)
def test_field_types_of_built_in_kinds_are_checked(
    kind: str, obj: dict[str, Any], fault: str
) -> None:
    served = {one.resource.kind: one for one in builtin_kinds()}

    (error,) = served[kind].schema.process(obj).errors

    assert str(error).startswith(fault)


def test_a_secret_without_a_type_is_opaque() -> None:
    served = {one.resource.kind: one for one in builtin_kinds()}
    secret: dict[str, Any] = {"data": {}}

    served["Secret"].schema.process(secret)

    assert secret["type"] == "Opaque"


def test_a_stored_definition_never_replaces_or_removes_a_built_in_kind() -> None:
    registry = KindRegistry(builtin_kinds())
    before = registry.kinds()
    stored = definition(
        group="coordination.k8s.io", names={"plural": "leases", "kind": "Lease"}, scope="Cluster"
    )
    stored["metadata"]["name"] = "leases.coordination.k8s.io"

    registry.define(msgspec.json.encode(stored))
    assert registry.kinds() == before

    registry.undefine("leases.coordination.k8s.io")
    assert registry.kinds() == before
    assert not registry.terminating


def test_the_names_of_built_in_kinds_are_protected() -> None:
    names: dict[str, tuple[str, ...]] = {}
    for kind in builtin_kinds():
        if group := kind.resource.group:
            names[group] = (*names.get(group, ()), kind.resource.plural, kind.resource.kind)

    assert names == BUILTIN_NAMES


@pytest.mark.parametrize("fields", [1, 10_000])
def test_a_deleted_definition_leaves_nothing_in_memory(fields: int) -> None:
    registry = KindRegistry(builtin_kinds())
    crd = definition()
    properties = {f"field{number}": {"type": "string"} for number in range(fields)}
    version = crd["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = properties
    raw = msgspec.json.encode(crd)

    assert stored_faults(raw) == []
    registry.define(raw)
    kind = registry.find("example.com", "v1", "widgets")
    assert kind is not None
    kept = weakref.ref(kind.schema)
    registry.undefine("widgets.example.com")
    del kind
    gc.collect()

    assert kept() is None


def test_planes_with_the_same_definition_share_its_kinds() -> None:
    registries = [KindRegistry(builtin_kinds()) for _ in range(2)]
    for registry in registries:
        registry.define(msgspec.json.encode(definition()))
    first, second = (each.find("example.com", "v1", "widgets") for each in registries)

    assert first is not None
    assert first is second


def test_the_faults_of_a_definition_are_found_again() -> None:
    crd = definition(scope="Galaxy")
    raw = msgspec.json.encode(crd)
    first = stored_faults(raw)

    assert first
    assert stored_faults(raw) == first
