"""The policy is read strictly: an error names the field, what was found and what is allowed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.admission import Offer, decide_admission
from datum_compute.decisions.rollout.policy import (
    InvalidPolicy,
    OnFailure,
    RolloutPolicy,
    find_policy,
)
from tests.support.decisions.workloads import CONTAINER, with_changes

OFFER = Offer(("DFW", "IAD", "LHR"), frozenset({"default"}))
PLACE = f"metadata.annotations[{compute.ANNOTATION_ROLLOUT}]"


def with_policy(text: str, **changes: Any) -> Any:
    annotations = {"metadata.annotations": {compute.ANNOTATION_ROLLOUT: text}}
    return with_changes(CONTAINER, {**annotations, **changes})


def test_every_field_is_read() -> None:
    text = (
        '{"waves": [["DFW"], ["IAD","LHR"]], "soak": "60s", "timeout": "1h30m",'
        ' "onFailure": "Undo", "gate": "SmokeTestsPassed"}'
    )
    assert find_policy({compute.ANNOTATION_ROLLOUT: text}) == RolloutPolicy(
        (("dfw",), ("iad", "lhr")),
        soak=timedelta(seconds=60),
        timeout=timedelta(minutes=90),
        on_failure=OnFailure.UNDO,
        gate="SmokeTestsPassed",
    )


def test_what_is_not_given_has_a_default() -> None:
    assert find_policy({compute.ANNOTATION_ROLLOUT: '{"waves": "each"}'}) == RolloutPolicy(
        each=True, timeout=timedelta(minutes=10)
    )
    assert find_policy({}) is None
    assert find_policy({compute.ANNOTATION_ROLLOUT: "{}"}) is None


OBJECT = 'must be a JSON object such as {"waves": [["DFW"], ["*"]], "soak": "60s"}'
DURATION = "must be a duration such as 45s, 10m or 1h30m"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", f': Invalid value: "": {OBJECT}'),
        ("[]", f': Invalid value: "[]": {OBJECT}'),
        ("{", f': Invalid value: "{{": {OBJECT}'),
        ('{"soak": "1s", "soak": "2s"}', ": Invalid value: "),
        (
            '{"wave": 1}',
            ': Unsupported value: "wave": supported values:'
            ' "waves", "soak", "timeout", "onFailure", "gate"',
        ),
        (
            '{"waves": "all"}',
            '.waves: Invalid value: "all": must be a list of lists of cities, or "each"',
        ),
        ('{"waves": []}', ".waves: Required value: at least one wave"),
        ('{"waves": [[]]}', ".waves[0]: Required value: at least one city"),
        ('{"waves": ["DFW"]}', '.waves[0]: Invalid value: "DFW": must be a list of cities'),
        ('{"waves": [["DFW"], ["dfw"]]}', '.waves[1][0]: Duplicate value: "dfw"'),
        (
            '{"waves": [["*"], ["DFW"]]}',
            '.waves[0][0]: Invalid value: "*": must be the only entry of the last wave',
        ),
        ('{"waves": [["DFW", 1]]}', '.waves[0][1]: Invalid value: "integer": must be a string'),
        ('{"soak": "a while"}', f'.soak: Invalid value: "a while": {DURATION}'),
        ('{"soak": ""}', f'.soak: Invalid value: "": {DURATION}'),
        ('{"timeout": "0s"}', '.timeout: Invalid value: "0s": must be longer than 0s'),
        (
            '{"onFailure": "undo"}',
            '.onFailure: Unsupported value: "undo": supported values: "Pause", "Undo", "Continue"',
        ),
        (
            '{"gate": "smoke tests"}',
            '.gate: Invalid value: "smoke tests": must be the type of a condition,'
            " such as SmokeTestsPassed",
        ),
        (
            '{"gate": "Available"}',
            '.gate: Invalid value: "Available": must not be a condition that the platform writes',
        ),
    ],
)
def test_a_bad_policy_is_refused_and_named(text: str, error: str) -> None:
    (found,) = decide_admission(with_policy(text), offer=OFFER).errors
    assert str(found).startswith(PLACE + error)
    with pytest.raises(InvalidPolicy, match=r"compute\.datumapis\.com/rollout"):
        find_policy({compute.ANNOTATION_ROLLOUT: text})


def test_a_bad_policy_that_is_stored_blocks_no_other_change() -> None:
    old = with_policy("{")
    new = with_policy("{", **{"SCALE.minReplicas": 3})
    assert decide_admission(new, offer=OFFER, old=old).errors == ()


def test_a_city_that_no_placement_names_is_a_warning() -> None:
    text = '{"waves": [["JFK"], ["*"]]}'
    warning = 'city "JFK" of the rollout\'s waves is in no placement'
    old = with_changes(CONTAINER, {})
    for stored in (None, old):
        found = decide_admission(with_policy(text), offer=OFFER, old=stored)
        assert (found.errors, found.warnings) == ((), (warning,))
    same = decide_admission(with_policy(text), offer=OFFER, old=with_policy(text))
    assert same.warnings == ()


def test_several_cities_that_no_placement_names_are_one_warning() -> None:
    found = decide_admission(with_policy('{"waves": [["JFK"], ["SFO"], ["*"]]}'), offer=OFFER)
    assert found.warnings == ('cities "JFK", "SFO" of the rollout\'s waves are in no placement',)


def test_undo_is_refused_where_the_template_is_too_large_to_be_kept() -> None:
    large = {"spec.template.metadata.annotations": {"note": "x" * 230_000}}
    assert decide_admission(with_policy('{"soak": "1s"}', **large), offer=OFFER).errors == ()
    undo = json.dumps({"onFailure": "Undo"})
    (found,) = decide_admission(with_policy(undo, **large), offer=OFFER).errors
    assert str(found).startswith(f'{PLACE}.onFailure: Invalid value: "Undo": the template has 23')
    assert str(found).endswith("bytes as JSON, and at most 229376 can be kept to go back to")
