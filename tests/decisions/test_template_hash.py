"""Equal wishes hash equal, different ones differ, and no release changes either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.decisions.hashing import template_hash

GOLDEN = json.loads((Path(__file__).parent / "template_hashes.json").read_text())


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
    max_leaves=12,
)
templates = st.dictionaries(fields | st.sampled_from(["metadata", "spec"]), values, max_size=4)


@pytest.mark.parametrize("case", GOLDEN, ids=[case["about"] for case in GOLDEN])
def test_a_template_hashes_to_the_same_value_for_ever(case: dict[str, Any]) -> None:
    """The file only grows: a changed hash would restart everything that runs."""
    assert template_hash(case["template"]) == case["hash"]


def test_it_is_sixteen_hexadecimal_digits() -> None:
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
def test_what_says_no_more_hashes_the_same(same: Any) -> None:
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
def test_what_says_more_hashes_differently(other: dict[str, Any]) -> None:
    assert template_hash(other) != PLAIN


def test_a_later_restart_is_another_template() -> None:
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


def test_a_default_elsewhere_is_a_value() -> None:
    assert template_hash(container(protocol="TCP")) != PLAIN
    assert template_hash(
        container(ports=[{"name": "http", "port": 80, "protocol": "UDP"}])
    ) != template_hash(container(ports=[{"name": "http", "port": 80}]))


@given(templates, st.randoms(use_true_random=False))
def test_the_order_of_fields_does_not_matter(template: dict[str, Any], random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            random.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    assert template_hash(shuffled(template)) == template_hash(template)


@given(templates, fields, st.sampled_from([None, {}, [], ""]))
def test_an_empty_field_more_changes_nothing(
    template: dict[str, Any], field: str, empty: Any
) -> None:
    assert template_hash({field: empty, **template}) == template_hash(template)


@given(templates)
def test_bytes_and_values_hash_alike(template: dict[str, Any]) -> None:
    assert template_hash(json.dumps(template).encode()) == template_hash(template)
