"""Every difference of two specs is described."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datum_compute.cli.render.spec_diff import (
    SpecChange,
    diff_specs,
    normalize_spec,
    summarize_changes,
)
from datum_compute.decisions.admission import with_defaults
from datum_compute.decisions.instances.revisions import template_hash
from tests.support.decisions.workloads import CONTAINER, MACHINE, REMOVED, with_changes

RESTARTED = "spec.template.metadata.annotations[compute.datumapis.com/restartedAt]"
SSH_KEYS = "spec.template.metadata.annotations[compute.datumapis.com/ssh-keys]"
SECRET_REF = {"secretKeyRef": {"name": "tokens", "key": "level"}}
EDGE = {"name": "edge", "cityCodes": ["IAD"], "scaleSettings": {"minReplicas": 1}}
SIDECAR = "RUNTIME.sandbox.containers[1]"


def changes_of(changes: dict[str, Any], base: dict[str, Any] = CONTAINER) -> list[str]:
    found = diff_specs(base["spec"], with_changes(base, changes)["spec"])
    return [f"{change.label} {change}" for change in found]


WORDED: list[tuple[dict[str, Any], list[str]]] = [
    ({"APP.image": "b:2"}, ["image registry.example/acme/api:1.4.2 → b:2"]),
    ({f"{SIDECAR}.image": "p:4"}, ["image (sidecar) registry.example/acme/proxy:3 → p:4"]),
    ({"APP.env[0].value": "debug"}, ["env LOG_LEVEL info → debug"]),
    ({"APP.env": REMOVED}, ["env LOG_LEVEL info → (none)"]),
    ({"APP.env[1]": {"name": "A", "value": "1"}}, ["env A (none) → 1"]),
    ({"APP.env[1]": {"name": "A"}}, ['env A (none) → ""']),
    (
        {"APP.env[0]": {"name": "LOG_LEVEL", "valueFrom": SECRET_REF}},
        ["env LOG_LEVEL info → from Secret tokens, key level"],
    ),
    (
        {"APP.env[1]": {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.ip"}}}},
        ["env IP valueFrom.fieldRef.fieldPath (none) → status.ip"],
    ),
    ({"APP.env[0].value": "a\nb"}, ['env LOG_LEVEL info → "a\\nb"']),
    ({"APP.ports[0].port": 80}, ["port http 8080 → 80"]),
    ({"APP.ports[0].protocol": "UDP"}, ["port http 8080 → 8080/UDP"]),
    ({"APP.ports[1]": {"name": "admin", "port": 9}}, ["port admin (none) → 9"]),
    ({"APP.command": ["sh", "-c", "run it"]}, ["command (none) → sh -c 'run it'"]),
    ({"APP.args": ["--fast"]}, ["args (none) → --fast"]),
    ({"APP.volumeAttachments[0].mountPath": "/d"}, ["mount scratch /data → /d"]),
    (
        {"APP.volumeAttachments[0].mountPath": REMOVED},
        ["mount scratch /data → attached, not mounted"],
    ),
    ({"APP.resources": {"limits": {"cpu": "1"}}}, ["resources.limits.cpu (none) → 1"]),
    ({f"{SIDECAR}": REMOVED}, ["image (sidecar) registry.example/acme/proxy:3 → (none)"]),
    ({f"{SIDECAR}": {"name": "x"}}, [
        "image (sidecar) registry.example/acme/proxy:3 → (none)",
        "container x (none) → {}",
    ]),
    ({"RUNTIME.resources.instanceType": "x"}, ["instance type datumcloud/d1-standard-2 → x"]),
    ({"spec.template.metadata.labels.team": "api"}, ["label team web → api"]),
    ({"spec.template.metadata.labels.team": ""}, ['label team web → ""']),
    ({"spec.template.metadata.annotations": {"a.b/c": "d"}}, ["annotation a.b/c (none) → d"]),
    ({RESTARTED: "2026-01-01T00:00:00Z"}, ["restarted at (none) → 2026-01-01T00:00:00Z"]),
    (
        {"DISK.resources.requests.storage": "20Gi"},
        ["volume scratch disk 10Gi with ext4 → disk 20Gi with ext4"],
    ),
    (
        {"VOLUME": {"name": "scratch", "configMap": {"name": "c"}}},
        ["volume scratch disk 10Gi with ext4 → ConfigMap c"],
    ),
    ({"VOLUME.disk.deviceName": "sdb"}, ["volume scratch disk.deviceName (none) → sdb"]),
    ({"TEMPLATE.networkInterfaces[0].network.name": "lab"}, ["network default → lab"]),
    ({"TEMPLATE.networkInterfaces[1]": {"network": {"name": "lab"}}}, ["network 2 (none) → lab"]),
    ({"PLACEMENT.cityCodes": ["DFW", "IAD"]}, ["cities (default) DFW, LHR → DFW, IAD"]),
    ({"SCALE.minReplicas": 3}, ["min replicas (default) 2 → 3"]),
    ({"SCALE.maxReplicas": 5}, ["max replicas (default) (none) → 5"]),
    ({"SCALE.metrics": [{"resource": {"name": "cpu"}}]}, [
        "scaleSettings.metrics[0].resource.name (default) (none) → cpu",
    ]),
    ({"spec.placements[1]": EDGE}, [
        "cities (edge) (none) → IAD",
        "min replicas (edge) (none) → 1",
    ]),
    ({"spec.gateway": {"listeners": [1, "1"]}}, ["gateway.listeners (none) → 1, 1"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), WORDED, ids=lambda value: str(value)[:60])
def test_a_change_is_described(changes: dict[str, Any], expected: list[str]) -> None:
    assert changes_of(changes) == expected


def test_ssh_keys_are_described_by_their_users() -> None:
    keys = MACHINE["spec"]["template"]["metadata"]["annotations"]["compute.datumapis.com/ssh-keys"]

    assert changes_of({SSH_KEYS: f"{keys}\nbo:ssh-rsa AAAA"}, MACHINE) == ["SSH keys ana → ana, bo"]


def test_a_disk_image_is_named() -> None:
    changes = {
        "DISK.populator.image.name": "b",
        "DISK.resources": {"requests": {"storage": "30Gi"}},
    }

    assert changes_of(changes, MACHINE) == [
        "volume boot disk of image datumcloud/ubuntu-2204-lts → disk 30Gi of image b"
    ]


def test_the_order_of_named_items_is_a_change() -> None:
    two = with_changes(
        CONTAINER, {"APP.env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    )
    turned = {"APP.env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]}

    assert changes_of(turned, two) == ["order of env A, B → B, A"]


def test_similar_texts_are_distinguished() -> None:
    old, new = {"gateway": {"port": 1}}, {"gateway": {"port": "1"}}

    assert [str(change) for change in diff_specs(old, new)] == ['1 → "1"']


def test_a_long_value_is_cut() -> None:
    (change,) = diff_specs({"gateway": "a" * 1000}, {"gateway": "b"})

    assert change.old == "a" * 100 + "… (1000 characters)"


def test_server_defaults_are_no_change() -> None:
    for base in (CONTAINER, MACHINE):
        assert diff_specs(base["spec"], with_defaults(base)["spec"]) == ()
        assert diff_specs({**base["spec"], "gateway": None}, base["spec"]) == ()


def summary_of(changes: dict[str, Any]) -> str:
    return summarize_changes(
        diff_specs(CONTAINER["spec"], with_changes(CONTAINER, changes)["spec"])
    )


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        ({}, "no changes"),
        (
            {"APP.image": "registry.example/acme/api:1.5.0", "APP.env[0].value": "hunter2"},
            "image 1.4.2 → 1.5.0, env LOG_LEVEL",
        ),
        ({"APP.image": "other/api:1"}, "image registry.example/acme/api:1.4.2 → other/api:1"),
        (
            {"APP.image": "registry.example/acme/api"},
            "image registry.example/acme/api:1.4.2 → registry.example/acme/api",
        ),
        ({f"{SIDECAR}.image": "registry.example/acme/proxy:4"}, "image (sidecar) 3 → 4"),
        ({"SCALE.minReplicas": 3}, "min replicas (default) 2 → 3"),
        ({"PLACEMENT.cityCodes": ["DFW", "IAD"]}, "cities (default) +IAD -LHR"),
        (
            {"APP.args": ["a"], "APP.command": ["b"], "APP.env": [], "SCALE.minReplicas": 1},
            "env LOG_LEVEL, args, command, 1 more",
        ),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_summary_is_one_line_without_secrets(changes: dict[str, Any], summary: str) -> None:
    assert summary_of(changes) == summary


def test_images_by_digest_are_described_by_the_digest() -> None:
    old, new = (f"acme/api@sha256:{letter * 64}" for letter in "ab")
    change = SpecChange("image", old, new, path="image", field="image")

    assert summarize_changes([change]) == f"image sha256:{'a' * 12} → sha256:{'b' * 12}"


# Properties.

LEAVES = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "TCP", "1.0"])
KEYS = st.sampled_from(
    [
        *("template", "spec", "metadata", "labels", "placements", "cityCodes", "name", "env"),
        *("runtime", "sandbox", "containers", "ports", "volumes", "disk", "command"),
    ]
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
SPECS = st.dictionaries(KEYS, JSON, max_size=3)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A real spec and one that differs from it in a few places."""
    old = draw(st.sampled_from([CONTAINER, MACHINE]))["spec"]
    new = copy.deepcopy(old)
    for _ in range(draw(st.integers(0, 3))):
        parents = [value for value in _values(new) if isinstance(value, dict | list) and value]
        if not parents:
            break
        parent: Any = draw(st.sampled_from(parents))
        steps = sorted(parent) if isinstance(parent, dict) else list(range(len(parent)))
        parent[draw(st.sampled_from(steps))] = draw(JSON)
    return old, new


def _values(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(one for item in inner for one in _values(item))]


PAIRS = st.tuples(SPECS, SPECS) | neighbours()


def exact(spec: dict[str, Any]) -> str:
    return json.dumps(normalize_spec(spec), sort_keys=True)


@settings(max_examples=50)
@given(PAIRS)
def test_there_are_no_changes_exactly_when_specs_are_equal(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    old, new = pair

    assert (diff_specs(old, new) == ()) == (exact(old) == exact(new))


@settings(max_examples=50)
@given(PAIRS)
def test_swapping_the_specs_swaps_the_changes(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    forth = {(c.path, c.old, c.new) for c in diff_specs(*pair)}
    back = {(c.path, c.new, c.old) for c in diff_specs(*reversed(pair))}

    assert forth == back


@settings(max_examples=50)
@given(PAIRS)
@example(({"template": {"metadata": {"labels": {"env": []}}}}, {}))  # the name of a named list
def test_every_changed_leaf_is_in_a_change(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Leaves by their path in both documents, found independently of the product."""
    old, new = (dict(leaves(normalize_spec(spec))) for spec in pair)
    covered = [change.path for change in diff_specs(*pair)]

    for path in sorted(set(old) | set(new)):
        if old.get(path) != new.get(path):
            assert any(reaches(one, path) for one in covered), (path, covered)


def leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    return [(path, json.dumps(value, sort_keys=True))]  # a list is one leaf


def reaches(covered: str, path: tuple[str, ...]) -> bool:
    """Whether a change concerns this leaf: the leaf, a part of it, or its parent."""
    leaf = ".".join(path)
    return (
        covered == leaf
        or covered.startswith((f"{leaf}.", f"{leaf}["))
        or (leaf.startswith((f"{covered}.", f"{covered}[")) or not leaf)
    )


@settings(max_examples=50)
@given(neighbours())
def test_a_template_without_changes_is_not_rolled(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    old, new = (spec.get("template") for spec in pair)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return

    rolls = template_hash(old) != template_hash(new)

    assert rolls == bool(diff_specs({"template": old}, {"template": new}))
