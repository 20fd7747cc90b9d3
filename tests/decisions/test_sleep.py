"""When an Instance sleeps, and how its template says so."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import constants
from datum_compute.api.fields import FieldPath
from datum_compute.decisions.findings import FieldValue, Findings
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.sleep import (
    Rest,
    SleepPolicy,
    decide_rest,
    find_policy,
    read_policy,
    validate_sleep,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
AFTER = constants.ANNOTATION_SLEEP_AFTER
DEADLINE = constants.ANNOTATION_WAKE_DEADLINE
UNTIL = constants.ANNOTATION_AWAKE_UNTIL
UNIKRAFT = constants.ANNOTATION_UNIKRAFT_POLICY
COOLDOWN = constants.ANNOTATION_UNIKRAFT_COOLDOWN
STATEFUL = constants.ANNOTATION_UNIKRAFT_STATEFUL

seconds = st.floats(min_value=0, max_value=1e7)
policies = st.builds(
    lambda after, stops, held: SleepPolicy(
        after,
        10 * after if stops else math.inf,
        awake_until=NOW + timedelta(seconds=held) if held is not None else None,
    ),
    st.floats(min_value=1, max_value=1e6),
    st.booleans(),
    st.none() | st.floats(min_value=-1e6, max_value=1e6),
)


@given(policies)
def test_an_open_connection_keeps_an_instance_awake(policy: SleepPolicy) -> None:
    assert decide_rest(policy, idle_seconds=None, now=NOW) == (Rest.AWAKE, None)


@given(policies, seconds)
def test_no_instance_sleeps_before_its_time(policy: SleepPolicy, idle: float) -> None:
    held = policy.awake_until is not None and policy.awake_until > NOW
    rest = decide_rest(policy, idle_seconds=idle, now=NOW).rest

    assert (rest is Rest.AWAKE) == (idle < policy.after_seconds or held)
    assert rest is not Rest.STOPPED or idle >= policy.stop_after_seconds


@given(policies, seconds, seconds)
def test_an_instance_sleeps_deeper_the_longer_it_is_idle(
    policy: SleepPolicy, idle: float, more: float
) -> None:
    first = decide_rest(policy, idle_seconds=idle, now=NOW).rest
    later = NOW + timedelta(seconds=more)

    assert decide_rest(policy, idle_seconds=idle + more, now=later).rest >= first


@given(policies, seconds)
def test_a_decision_holds_exactly_as_long_as_it_says(policy: SleepPolicy, idle: float) -> None:
    rest, left = decide_rest(policy, idle_seconds=idle, now=NOW)
    if left is None:
        forever = decide_rest(policy, idle_seconds=idle + 1e9, now=NOW + timedelta(days=10000))
        assert forever.rest is rest
        return

    def at(moment: float) -> Rest:
        now = NOW + timedelta(seconds=moment)
        return decide_rest(policy, idle_seconds=idle + moment, now=now).rest

    assert at(left + 0.01) > rest
    assert at(max(0.0, left - 0.01)) is rest


@pytest.mark.parametrize(
    ("annotations", "policy"),
    [
        ({}, None),
        ({AFTER: "5m"}, SleepPolicy(300, 3000)),
        ({AFTER: "1h30m", DEADLINE: "2m"}, SleepPolicy(5400, 54000, 120)),
        ({AFTER: "never"}, None),
        ({AFTER: "5m", UNTIL: "2026-06-01T12:00:00Z"}, SleepPolicy(300, 3000, 30, NOW)),
        ({UNIKRAFT: "on"}, SleepPolicy(1, 10)),
        ({UNIKRAFT: "on", COOLDOWN: "5000"}, SleepPolicy(5, 50)),
        ({UNIKRAFT: "on", COOLDOWN: "200"}, SleepPolicy(1, 10)),
        ({UNIKRAFT: "on", COOLDOWN: "5000", STATEFUL: "true"}, SleepPolicy(5, math.inf)),
        ({UNIKRAFT: "off", COOLDOWN: "5000"}, None),
        ({COOLDOWN: "5000"}, None),
        ({AFTER: "5m", UNIKRAFT: "on", COOLDOWN: "5000"}, SleepPolicy(300, 3000)),
        ({AFTER: "never", UNIKRAFT: "on"}, None),
        ({DEADLINE: "10s"}, None),
    ],
)
def test_a_policy_is_read_from_annotations(
    annotations: dict[str, str], policy: SleepPolicy | None
) -> None:
    assert find_policy(annotations) == policy


@pytest.mark.parametrize(
    ("key", "value", "detail"),
    [
        (AFTER, "soon", "must be a duration of 1s or more, such as 5m or 1h30m, or never"),
        (AFTER, "0s", "must be a duration of 1s or more, such as 5m or 1h30m, or never"),
        (AFTER, "", "must be a duration of 1s or more, such as 5m or 1h30m, or never"),
        (DEADLINE, "1h", "must be at most 600s"),
        (DEADLINE, "0s", "must be longer than 0s"),
        (DEADLINE, "-5s", "must be a duration such as 45s, 10m or 1h30m"),
        (UNTIL, "tomorrow", "must be a time with its zone, such as 2026-12-01T09:00:00Z"),
        (UNTIL, "2026-06-01", "must be a time with its zone, such as 2026-12-01T09:00:00Z"),
        (UNIKRAFT, "idle", 'supported values: "on", "off"'),
        (STATEFUL, "yes", 'supported values: "true", "false"'),
        (COOLDOWN, "5s", "must be a number of milliseconds, such as 5000"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_field(key: str, value: str, detail: str) -> None:
    path = FieldPath.of("metadata", "annotations")
    findings = Findings()
    annotations = {AFTER: "5m", key: value}
    assert read_policy(findings, FieldValue(annotations, path)) is None

    [found] = findings.found
    assert found.error.path == f"metadata.annotations[{key}]"
    assert detail in str(found.error)
    assert find_policy(annotations) is None


def spec(*protocols: str | None) -> dict[str, Any]:
    ports = [{"port": 80 + i, **({"protocol": p} if p else {})} for i, p in enumerate(protocols)]
    return {"runtime": {"sandbox": {"containers": [{"name": "app", "ports": ports}]}}}


@pytest.mark.parametrize(
    ("annotations", "body", "errors"),
    [
        ({AFTER: "5m"}, spec(None, "TCP"), []),
        ({AFTER: "5m"}, spec(), [f"annotations[{AFTER}]: Forbidden: a container needs a port"]),
        ({UNIKRAFT: "on"}, spec(), [f"annotations[{UNIKRAFT}]: Forbidden: a container needs"]),
        (
            {AFTER: "5m"},
            spec("TCP", "UDP"),
            ["containers[0].ports[1].protocol: Forbidden: a workload that sleeps has TCP ports"],
        ),
        (
            {AFTER: "5m"},
            {"runtime": {"virtualMachine": {}}},
            [f"annotations[{AFTER}]: Forbidden: a virtual machine does not sleep"],
        ),
        ({AFTER: "never"}, spec("UDP"), []),
        ({}, spec("UDP"), []),
    ],
)
def test_what_nothing_could_wake_is_refused(
    annotations: dict[str, str], body: dict[str, Any], errors: list[str]
) -> None:
    findings = Findings()
    place = FieldValue(annotations, FieldPath.of("annotations"))
    validate_sleep(findings, place, FieldValue(body, FieldPath()))

    found = [str(each.error) for each in findings.found]
    assert len(found) == len(errors)
    assert all(wanted in text for wanted, text in zip(errors, found, strict=True)), found


def test_holding_instances_awake_does_not_replace_them() -> None:
    def hashed(annotations: dict[str, str] | None) -> str:
        metadata = {"metadata": {"annotations": annotations}} if annotations is not None else {}
        return template_hash({**metadata, "spec": {"volumes": [{"name": "data"}]}})

    until = {UNTIL: "2026-06-01T12:00:00Z"}
    assert hashed(until) == hashed(None) == hashed({})
    assert hashed({AFTER: "5m", **until}) == hashed({AFTER: "5m"}) != hashed({})
