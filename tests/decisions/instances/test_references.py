"""Which data a template names, what of it is delivered, and when a cell has it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition
from datum_compute.decisions.references import (
    CONFIG_MAP,
    ERRORS,
    LARGEST_DELIVERY,
    LARGEST_SOURCE,
    SECRET,
    DataRoll,
    Reference,
    SourceFact,
    decide_data_condition,
    decide_data_roll,
    decide_delivery,
    describe_missing_keys,
    entries_to_text,
    hash_content,
    hashes_to_text,
    parse_entries,
    parse_hashes,
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
    attachments: list[dict[str, Any]] | None = None,
    **sandbox: Any,
) -> compute.InstanceSpec:
    container = {"name": "app", "image": "a:1", "env": env or [], "envFrom": env_from or []}
    container["volumeAttachments"] = attachments or []
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


def test_a_missing_item_and_a_missing_sub_path_are_named() -> None:
    items = [{"key": "a", "path": "deep/a"}]
    template = spec(
        volumes=[{"name": "files", "configMap": {"name": "settings", "items": items}}],
        attachments=[
            {"name": "files", "mountPath": "/a", "subPath": "deep"},
            {"name": "files", "mountPath": "/b", "subPath": "a"},
        ],
    )

    assert describe_missing_keys(template, {"ConfigMap/settings": ("b",)}) == (
        "ConfigMap \"settings\" has no key 'a' for volume files;"
        " volume files of ConfigMap \"settings\" has no file 'a' for subPath"
    )


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


def roll(
    delivered: dict[str, str] | None, *, current: str = "", status: str = "True", age: float = 3600
) -> DataRoll:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    reachable = Condition(
        type=compute.CONDITION_CELL_REACHABLE,
        status=status,
        last_transition_time=now - timedelta(seconds=age),
    )
    references = (Reference(SECRET, "keys"), Reference(CONFIG_MAP, "extra", optional=True))
    return decide_data_roll(references, delivered, current=current, reachable=reachable, now=now)


def test_a_template_has_no_hash_before_all_it_needs_was_delivered() -> None:
    assert roll(None) == roll({}) == roll({"ConfigMap/extra": "a"}) == DataRoll("")
    assert roll({"Secret/keys": "a"}).hash


def test_the_hash_of_a_template_changes_with_what_it_names_and_with_nothing_else() -> None:
    first = roll({"Secret/keys": "a"})
    assert roll({"Secret/keys": "a", "Secret/of-an-older-template": "b"}) == first
    assert roll({"Secret/keys": "b"}) != first
    assert roll({"Secret/keys": "a", "ConfigMap/extra": "c"}) != first


def test_a_new_hash_waits_until_the_cell_has_answered_for_a_while() -> None:
    new = {"Secret/keys": "b"}
    assert roll(new, current="old", status="False") == DataRoll("old")
    assert roll(new, current="old", age=20) == DataRoll("old", 40.0)
    assert roll(new, current="old") == roll(new)
    assert roll(new, age=20) == roll(new), "the first one does not wait"


def test_the_content_hash_depends_on_the_source_and_its_content() -> None:
    content = {"data": {"a": "1"}}
    assert hash_content("uid", content) == hash_content("uid", dict(content))
    assert hash_content("uid", content) != hash_content("other", content)
    assert hash_content("uid", content) != hash_content("uid", {"data": {"a": "2"}})


def test_what_cannot_be_delivered_counts_as_it_was_delivered_last() -> None:
    reference = Reference(SECRET, "keys")
    gone = SourceFact(0, compute.REASON_SOURCE_NOT_FOUND, "not found")
    facts = {"Secret/keys": gone}
    found = decide_delivery([reference], facts, delivered={"Secret/keys": "a", "Secret/x": "b"})
    assert found.hashes == {"Secret/keys": "a"}
    assert parse_hashes(hashes_to_text(found.hashes)) == found.hashes
    assert parse_hashes("[") is parse_hashes("[]") is parse_hashes(None) is None


def test_a_template_that_rolls_on_changes_waits_for_its_hash() -> None:
    reference = (Reference(SECRET, "keys"),)
    annotations = {EXPECTED: '["Secret/keys"]'}
    opted = {compute.ANNOTATION_ROLL_ON_CONFIG_CHANGE: "true"}
    for template, reason in (
        ({}, compute.REASON_DATA_READY),
        (opted, compute.REASON_RESOLVING),
        ({**opted, compute.ANNOTATION_DATA_HASH: "a"}, compute.REASON_DATA_READY),
    ):
        found = decide_data_condition(reference, annotations, {"Secret/keys"}, template)
        assert found is not None
        assert found.reason == reason
