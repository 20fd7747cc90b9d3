"""Equal templates hash equal, different ones differ, and no release changes either."""

from __future__ import annotations

import json
from copy import deepcopy
from hashlib import sha256
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.decisions.instances.revisions import template_hash
from tests.support.decisions.template_hashes import GOLDEN
from tests.support.paths import ROOT

CRDS = ROOT / "deploy" / "crds"


def container(**more: Any) -> dict[str, Any]:
    return {
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [{"name": "app", "image": "nginx", **more}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
        }
    }


PLAIN = template_hash(container())

fields = st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=3),
    max_leaves=6,
)
templates = st.dictionaries(fields | st.sampled_from(["metadata", "spec"]), values, max_size=3)


FROZEN = 46
"""How many of the golden file's templates the digest below covers. It may be raised for new
templates; earlier ones never change."""
DIGEST = "3171d8272849c79f"


def test_the_golden_file_only_grows() -> None:
    first = json.dumps(GOLDEN[:FROZEN], sort_keys=True).encode()

    assert len(GOLDEN) >= FROZEN
    assert sha256(first).hexdigest()[:16] == DIGEST
    assert len({case["about"] for case in GOLDEN}) == len(GOLDEN)


def test_the_hash_is_the_digest_of_the_canonical_form() -> None:
    template = {
        "spec": {"b": [1, "é", {}], "a": {"x": None, "y": [], "z": True}, "c": "", "d": {}},
        "metadata": {"labels": {"l": ""}},
    }
    canonical = '{"metadata":{"labels":{"l":""}},"spec":{"a":{"z":true},"b":[1,"é",{}]}}'

    assert template_hash(template) == sha256(canonical.encode()).hexdigest()[:16]


@pytest.mark.parametrize("case", GOLDEN, ids=[case["about"] for case in GOLDEN])
def test_a_template_hashes_to_the_same_value_for_ever(case: dict[str, Any]) -> None:
    """The file only grows: a changed hash would restart everything that runs."""
    assert template_hash(case["template"]) == case["hash"]


def test_the_hash_is_sixteen_hexadecimal_digits() -> None:
    assert len(PLAIN) == 16
    int(PLAIN, 16)


@pytest.mark.parametrize(
    "same",
    [
        container(ports=[]),
        container(env=None),
        container(command=[], args=[], resources={}),
        container(resources={"limits": {}, "requests": None}),
        {**container(), "metadata": {}},
        {**container(), "metadata": {"labels": {}, "annotations": {}}},
        {**container(), "metadata": {"creationTimestamp": None}},
        json.dumps(container(), indent=3).encode(),
        msgspec.Raw(json.dumps(container()).encode()),
    ],
)
def test_equivalent_templates_hash_the_same(same: Any) -> None:
    assert template_hash(same) == PLAIN


@pytest.mark.parametrize(
    "other",
    [
        container(image="nginx:2"),
        container(args=[""]),
        container(command=["sh"]),
        container(later={"field": 1}),
        {**container(), "metadata": {"labels": {"a": ""}}},
        {**container(), "metadata": {"annotations": {"a": "b"}}},
        {
            **container(),
            "metadata": {
                "annotations": {"compute.datumapis.com/restartedAt": "2026-01-01T00:00:00Z"}
            },
        },
    ],
)
def test_different_templates_hash_differently(other: dict[str, Any]) -> None:
    assert template_hash(other) != PLAIN


def test_a_later_restart_changes_the_template_hash() -> None:
    def restarted(at: str) -> str:
        annotations = {"compute.datumapis.com/restartedAt": at}
        return template_hash({**container(), "metadata": {"annotations": annotations}})

    assert restarted("2026-01-01T00:00:00Z") != restarted("2026-01-01T00:00:01Z")


@pytest.mark.parametrize(
    ("spelled", "short"),
    [
        (
            container(ports=[{"name": "http", "port": 80, "protocol": "TCP"}]),
            container(ports=[{"name": "http", "port": 80}]),
        ),
        (
            container(
                env=[
                    {
                        "name": "A",
                        "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}},
                    }
                ]
            ),
            container(
                env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
            ),
        ),
        (
            {
                "spec": {
                    "volumes": [
                        {
                            "name": "d",
                            "disk": {
                                "template": {
                                    "spec": {
                                        "type": "pd-standard",
                                        "resources": {"requests": {"storage": "10Gi"}},
                                    }
                                }
                            },
                        }
                    ]
                }
            },
            {
                "spec": {
                    "volumes": [
                        {
                            "name": "d",
                            "disk": {
                                "template": {
                                    "spec": {"resources": {"requests": {"storage": "10Gi"}}}
                                }
                            },
                        }
                    ]
                }
            },
        ),
        (
            {"spec": {"volumes": [{"name": "c", "configMap": {"name": "m", "defaultMode": 420}}]}},
            {"spec": {"volumes": [{"name": "c", "configMap": {"name": "m"}}]}},
        ),
    ],
    ids=["protocol", "optional", "disk type", "mode"],
)
def test_a_default_spelled_out_hashes_as_if_it_were_not(
    spelled: dict[str, Any], short: dict[str, Any]
) -> None:
    assert template_hash(spelled) == template_hash(short)


def test_a_default_value_in_another_field_changes_the_hash() -> None:
    assert template_hash(container(protocol="TCP")) != PLAIN
    assert template_hash(
        container(ports=[{"name": "http", "port": 80, "protocol": "UDP"}])
    ) != template_hash(container(ports=[{"name": "http", "port": 80}]))


FULL: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"team": "blue"}},
    "spec": {
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2", "requests": {"cpu": 1}},
            "sandbox": {
                "containers": [
                    {
                        "name": "app",
                        "image": "nginx",
                        "command": ["/app"],
                        "args": ["-v", "--x"],
                        "env": [
                            {"name": "A", "value": "b"},
                            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c"}}},
                            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s"}}},
                            {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "p"}}},
                        ],
                        "ports": [{"name": "http", "port": 80}],
                        "volumeAttachments": [{"name": "cfg", "mountPath": "/etc"}],
                    }
                ]
            },
            "virtualMachine": {"ports": [{"name": "ssh", "port": 22}]},
        },
        "networkInterfaces": [
            {
                "network": {"name": "default"},
                "networkPolicy": {"ingress": [{"ports": [{"port": 80}]}]},
            }
        ],
        "volumes": [
            {"name": "cfg", "configMap": {"name": "cfg"}},
            {"name": "key", "secret": {"secretName": "key"}},
            {"name": "data", "disk": {"template": {"spec": {"resources": {"x": "10Gi"}}}}},
        ],
    },
}
"""With every place in it that has a default, and none of them filled in."""

Place = tuple[str | int, ...]


def leaves(value: Any, path: Place = ()) -> list[Place]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for n, item in enumerate(value) for leaf in leaves(item, (*path, n))]
    return [path]


def changed(path: Place, value: Any) -> dict[str, Any]:
    """The full template with another value there; ``...`` takes it away."""
    template = deepcopy(FULL)
    at: Any = template
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return template


LEAVES = leaves(FULL)


@given(st.sampled_from(LEAVES), st.integers(1, 5) | st.text(min_size=1, max_size=4) | st.just(...))
def test_any_change_changes_the_hash(leaf: Place, value: Any) -> None:
    other = changed(leaf, value)

    assert (template_hash(other) == template_hash(FULL)) == (other == FULL)


@given(st.sampled_from(LEAVES), fields, st.integers() | st.booleans() | st.just(["x"]))
def test_an_unknown_field_changes_the_hash(leaf: Place, field: str, value: Any) -> None:
    beside = next(n for n in reversed(range(len(leaf))) if isinstance(leaf[n], str))
    path = (*leaf[:beside], f"later{field}")

    assert template_hash(changed(path, value)) != template_hash(FULL)


@given(st.dates(), st.dates())
def test_a_restart_changes_the_hash(first: Any, second: Any) -> None:
    def restarted(at: Any) -> str:
        path = ("metadata", "annotations", "compute.datumapis.com/restartedAt")
        return template_hash(changed(path, f"{at}T00:00:00Z"))

    assert restarted(first) != template_hash(FULL)
    assert (restarted(first) == restarted(second)) == (first == second)


CONTAINER: Place = ("spec", "runtime", "sandbox", "containers", 0)
INGRESS: Place = ("spec", "networkInterfaces", 0, "networkPolicy", "ingress", 0)
DEFAULTS: dict[Place, Any] = {
    (*CONTAINER, "ports", 0, "protocol"): "TCP",
    (*CONTAINER, "env", 1, "valueFrom", "configMapKeyRef", "optional"): False,
    (*CONTAINER, "env", 2, "valueFrom", "secretKeyRef", "optional"): False,
    (*CONTAINER, "env", 3, "valueFrom", "fieldRef", "apiVersion"): "v1",
    ("spec", "runtime", "virtualMachine", "ports", 0, "protocol"): "TCP",
    (*INGRESS, "ports", 0, "protocol"): "TCP",
    ("spec", "volumes", 0, "configMap", "defaultMode"): 0o644,
    ("spec", "volumes", 0, "configMap", "optional"): False,
    ("spec", "volumes", 1, "secret", "defaultMode"): 0o644,
    ("spec", "volumes", 1, "secret", "optional"): False,
    ("spec", "volumes", 2, "disk", "template", "spec", "type"): "pd-standard",
}


@given(st.sampled_from(list(DEFAULTS)), st.text(min_size=1, max_size=3))
def test_values_equal_to_their_default_do_not_change_the_hash_and_others_do(
    path: Place, other: str
) -> None:
    assert template_hash(changed(path, DEFAULTS[path])) == template_hash(FULL)
    if other != DEFAULTS[path]:
        assert template_hash(changed(path, other)) != template_hash(FULL)


def published_defaults(schema: dict[str, Any], path: tuple[str, ...] = ()) -> dict[Any, Any]:
    found = {path: schema["default"]} if "default" in schema else {}
    for name, field in (schema.get("properties") or {}).items():
        found |= published_defaults(field, (*path, name))
    if "items" in schema:
        found |= published_defaults(schema["items"], (*path, "[]"))
    return found


def test_every_published_default_is_known_to_the_hash() -> None:
    text = (CRDS / "compute.datumapis.com_workloads.yaml").read_text()
    version = yaml.safe_load(text)["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    known = {
        tuple("[]" if isinstance(key, int) else key for key in path): value
        for path, value in DEFAULTS.items()
    }

    published = published_defaults(spec["properties"]["template"])

    assert published
    assert published.items() <= known.items()


@given(templates)
def test_equal_templates_hash_equal_whatever_the_order_of_fields(template: dict[str, Any]) -> None:
    def reversed_(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: reversed_(value[key]) for key in reversed(value)}
        return [reversed_(item) for item in value] if isinstance(value, list) else value

    assert template_hash(reversed_(template)) == template_hash(template)


@given(templates, fields, st.sampled_from([None, {}, [], ""]))
def test_equal_templates_hash_equal_with_or_without_an_empty_field(
    template: dict[str, Any], field: str, empty: Any
) -> None:
    assert template_hash({field: empty, **template}) == template_hash(template)


@given(templates)
def test_equal_templates_hash_equal_as_bytes_and_as_values(template: dict[str, Any]) -> None:
    assert template_hash(json.dumps(template).encode()) == template_hash(template)
