"""Which data a template names, what of it is delivered, and when a cell has it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.references import (
    ERRORS,
    LARGEST_DELIVERY,
    LARGEST_SOURCE,
    Reference,
    SourceFact,
    decide_data_condition,
    decide_delivery,
    describe_missing_keys,
    entries_to_text,
    parse_entries,
    references_of,
    size_of,
)

ERROR = compute.ANNOTATION_REFERENCED_DATA_ERROR
EXPECTED = compute.ANNOTATION_EXPECTED_REFERENCED_DATA


def spec(
    *,
    env: list[dict[str, Any]] | None = None,
    env_from: list[dict[str, Any]] | None = None,
    volumes: list[dict[str, Any]] | None = None,
    **sandbox: Any,
) -> compute.InstanceSpec:
    container = {"name": "app", "image": "a:1", "env": env or [], "envFrom": env_from or []}
    body = {
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [container], **sandbox},
        },
        "networkInterfaces": [{"network": {"name": "default"}}],
        "volumes": volumes or [],
    }
    return msgspec.convert(body, compute.InstanceSpec)


def variable(kind: str, **reference: Any) -> dict[str, Any]:
    return {"name": "V", "valueFrom": {kind: {"key": "k", **reference}}}


@pytest.mark.parametrize(
    ("template", "entries"),
    [
        (spec(), []),
        (spec(env=[{"name": "V", "value": "literal"}]), []),
        (spec(env=[variable("configMapKeyRef", name="settings")]), ["ConfigMap/settings"]),
        (spec(env=[variable("secretKeyRef", name="keys", optional=True)]), ["Secret/keys?"]),
        (
            spec(
                env_from=[
                    {"configMapRef": {"name": "settings"}},
                    {"secretRef": {"name": "keys", "optional": True}},
                ]
            ),
            ["ConfigMap/settings", "Secret/keys?"],
        ),
        (
            spec(
                volumes=[
                    {"name": "a", "secret": {"secretName": "tls"}},
                    {"name": "b", "configMap": {"name": "settings", "optional": True}},
                ],
                env=[variable("configMapKeyRef", name="settings")],
            ),
            ["ConfigMap/settings", "Secret/tls"],
        ),
        (spec(imagePullSecrets=[{"name": "registry"}]), ["Secret/registry"]),
    ],
)
def test_every_object_is_named_once_and_is_optional_where_every_mention_is(
    template: compute.InstanceSpec, entries: list[str]
) -> None:
    found = [f"{each.entry}{'?' if each.optional else ''}" for each in references_of(template)]

    assert found == entries


def test_a_virtual_machine_has_volumes_too() -> None:
    machine = msgspec.convert(
        {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "virtualMachine": {"volumeAttachments": [{"name": "boot"}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "volumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
        },
        compute.InstanceSpec,
    )

    assert [each.entry for each in references_of(machine)] == ["Secret/tls"]


def test_a_missing_key_is_named_with_its_use() -> None:
    template = spec(
        env=[variable("secretKeyRef", name="keys"), variable("configMapKeyRef", name="settings")],
        volumes=[{"name": "tls", "secret": {"secretName": "tls", "optional": True}}],
    )

    assert describe_missing_keys(template, {"Secret/keys": ("k",)}) == (
        'no ConfigMap "settings" for variable V'
    )
    present = {"Secret/keys": ("other",), "ConfigMap/settings": ("k",)}
    assert describe_missing_keys(template, present) == (
        "Secret \"keys\" has no key 'k' for variable V"
    )
    assert describe_missing_keys(template, {**present, "Secret/keys": ("k",)}) == ""


_NAMES = st.sampled_from(("a", "b", "c", "d", "e", "f"))
_REFERENCES = st.lists(
    st.builds(Reference, st.sampled_from(("ConfigMap", "Secret")), _NAMES, st.booleans()),
    max_size=8,
    unique_by=lambda each: each.entry,
)
_FACTS = st.builds(
    SourceFact,
    st.one_of(st.integers(0, 400 * 1024), st.just(LARGEST_SOURCE), st.just(LARGEST_SOURCE + 1)),
    st.sampled_from(("", "", "", *ERRORS)),
    st.just("what"),
)


@st.composite
def _situations(draw: st.DrawFn) -> tuple[list[Reference], dict[str, SourceFact], list[str], bool]:
    references = draw(_REFERENCES)
    facts = {each.entry: draw(_FACTS) for each in references}
    kept = draw(st.lists(st.sampled_from(("ConfigMap/old", "Secret/a", "Secret/old")), unique=True))
    return references, facts, kept, draw(st.booleans())


@given(_situations())
def test_what_is_delivered_is_expected_small_and_complete_or_an_error_says_why(
    situation: tuple[list[Reference], dict[str, SourceFact], list[str], bool],
) -> None:
    references, facts, kept, has_old = situation
    named = {each.entry for each in references}

    delivery = decide_delivery(references, facts, kept=kept, has_old=has_old)

    assert set(delivery.copied) <= set(delivery.expected)
    assert sum(facts[entry].size for entry in delivery.copied) <= LARGEST_DELIVERY
    assert all(facts[entry].size <= LARGEST_SOURCE for entry in delivery.copied)
    assert not any(facts[entry].error for entry in delivery.copied)
    required = {each.entry for each in references if not each.optional}
    assert required <= set(delivery.expected)
    # Nothing is dropped that an Instance of an older template may need, and nothing else is kept.
    assert (set(delivery.expected) - named) == (set(kept) - named if has_old else set())
    if delivery.error is None:
        assert required <= set(delivery.copied)
    else:
        assert delivery.error.reason in ERRORS
        assert delivery.error.message
        assert set(delivery.expected) - set(delivery.copied)


@given(
    _situations(),
    st.sets(st.sampled_from([f"{k}/{n}" for k in ("ConfigMap", "Secret") for n in "abcdef"])),
)
def test_a_cell_has_the_data_only_when_every_expected_object_is_there(
    situation: tuple[list[Reference], dict[str, SourceFact], list[str], bool], present: set[str]
) -> None:
    references, facts, kept, has_old = situation
    delivery = decide_delivery(references, facts, kept=kept, has_old=has_old)
    annotations = {EXPECTED: entries_to_text(delivery.expected)}
    if delivery.error is not None:
        annotations[ERROR] = delivery.error.to_text()

    found = decide_data_condition(references, annotations, present)

    if not references:
        assert found is None
        return
    assert found is not None
    named = {each.entry for each in references}
    complete = delivery.error is None and set(delivery.expected) & named <= present
    assert (found.status == "True") == complete
    if delivery.error is not None:
        assert found.reason == delivery.error.reason
    elif not complete:
        assert found.reason == compute.REASON_AWAITING_PROPAGATION


NAMED = (Reference("ConfigMap", "a"), Reference("Secret", "b", optional=True))


@pytest.mark.parametrize(
    ("annotations", "present", "reason"),
    [
        ({}, {"ConfigMap/a"}, "Resolving"),
        ({EXPECTED: "not JSON"}, {"ConfigMap/a"}, "Resolving"),
        ({EXPECTED: "[]"}, {"ConfigMap/a"}, "Resolving"),
        ({EXPECTED: '["ConfigMap/of-an-older-template"]'}, set(), "Resolving"),
        ({EXPECTED: '["ConfigMap/a"]'}, set(), "AwaitingPropagation"),
        ({EXPECTED: '["ConfigMap/a","Secret/b"]'}, {"ConfigMap/a"}, "AwaitingPropagation"),
        ({EXPECTED: '["ConfigMap/a"]'}, {"ConfigMap/a"}, "Ready"),
        ({EXPECTED: '["ConfigMap/a","Secret/old"]'}, {"ConfigMap/a"}, "Ready"),
        (
            {EXPECTED: '["ConfigMap/a"]', ERROR: json.dumps({"reason": "SourceTooLarge"})},
            {"ConfigMap/a"},
            "SourceTooLarge",
        ),
        ({EXPECTED: '["ConfigMap/a"]', ERROR: '{"reason":"Other"}'}, {"ConfigMap/a"}, "Ready"),
    ],
)
def test_a_cell_waits_until_the_list_of_this_very_template_has_arrived(
    annotations: dict[str, str], present: set[str], reason: str
) -> None:
    found = decide_data_condition(NAMED, annotations, present)

    assert found is not None
    assert found.reason == reason


@given(st.sets(st.text(min_size=1), max_size=5))
def test_a_list_of_entries_is_read_as_it_was_written(entries: set[str]) -> None:
    assert parse_entries(entries_to_text(entries)) == tuple(sorted(entries))


def test_the_size_of_data_counts_keys_and_decoded_values() -> None:
    assert size_of({"key": "ä"}, {"b": "aGVsbG8="}) == 3 + 2 + 1 + 5
