"""When an Instance sleeps: annotations of its template, read strictly, and what follows from them.

An Instance without an open connection is paused after a time, which keeps its memory, and stopped
after ten times that. The annotations of Unikraft Cloud are read where ours is not there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import NamedTuple

from datum_compute.api.compute import constants
from datum_compute.api.fields import FieldPath
from datum_compute.decisions.findings import FieldValue, Findings
from datum_compute.decisions.rollout.policy import read_duration

NEVER = "never"
STOP_FACTOR = 10
"""A paused Instance is stopped after this many times the time until it is paused."""
SHORTEST_SECONDS = 1.0
"""Until an Instance sleeps: each sleep and each waking is a report to the API."""
WAKE_SECONDS = 30.0
MOST_WAKE_SECONDS = 600.0
"""Connections are held for as long. A guess."""
UNIKRAFT_COOLDOWN_SECONDS = 1.0
"""Unikraft's own default."""

_MILLISECONDS = re.compile(r"\d{1,12}")


@dataclass(frozen=True, slots=True)
class SleepPolicy:
    after_seconds: float
    stop_after_seconds: float = math.inf
    """Infinite where its memory is kept for as long as it sleeps."""
    wake_seconds: float = WAKE_SECONDS
    awake_until: datetime | None = None


class Rest(IntEnum):
    """How deep an Instance sleeps."""

    AWAKE = 0
    PAUSED = 1
    STOPPED = 2


class RestDecision(NamedTuple):
    rest: Rest
    seconds: float | None
    """Until the decision is another one, if nothing happens; None for never."""


def decide_rest(policy: SleepPolicy, *, idle_seconds: float | None, now: datetime) -> RestDecision:
    """``idle_seconds`` is how long no connection has been open; None while one is."""
    if idle_seconds is None:
        return RestDecision(Rest.AWAKE, None)
    wait = max(policy.after_seconds - idle_seconds, held_seconds(policy, now))
    if wait > 0:
        return RestDecision(Rest.AWAKE, wait)
    if idle_seconds >= policy.stop_after_seconds:
        return RestDecision(Rest.STOPPED, None)
    left = policy.stop_after_seconds - idle_seconds
    return RestDecision(Rest.PAUSED, left if left < math.inf else None)


def held_seconds(policy: SleepPolicy, now: datetime) -> float:
    """For how long its annotation holds an Instance awake, whether or not it is idle."""
    until = policy.awake_until
    return max(0.0, (until - now).total_seconds()) if until is not None else 0.0


def find_policy(annotations: Mapping[str, str]) -> SleepPolicy | None:
    """Of an Instance; None where it does not sleep. What cannot be read was refused or stored
    before it was validated, and lets no Instance sleep: that is safe."""
    findings = Findings()
    path = FieldPath.of("metadata", "annotations")
    policy = read_policy(findings, FieldValue(dict(annotations), path))
    return None if findings.found else policy


def read_policy(findings: Findings, annotations: FieldValue) -> SleepPolicy | None:
    """The policy in a template's annotations; None where they ask for none."""
    known = len(findings.found)
    deadline = annotations.entry(constants.ANNOTATION_WAKE_DEADLINE)
    wake = _seconds(findings, deadline, WAKE_SECONDS, most=MOST_WAKE_SECONDS)
    until = _read_time(findings, annotations.entry(constants.ANNOTATION_AWAKE_UNTIL))
    after = annotations.entry(constants.ANNOTATION_SLEEP_AFTER)
    found = _read_unikraft(findings, annotations)
    if after.given:
        keeps_memory = found is not None and found.stop_after_seconds == math.inf
        found = None
        if after.value != NEVER:
            seconds = _seconds(findings, after, SHORTEST_SECONDS, others=f" or {NEVER}")
            found = _policy(seconds, keeps_memory=keeps_memory)
    if found is None or len(findings.found) > known:
        return None
    return SleepPolicy(found.after_seconds, found.stop_after_seconds, wake, until)


def validate_sleep(findings: Findings, annotations: FieldValue, spec: FieldValue) -> None:
    """What cannot be read, and sleep from which nothing would wake an Instance."""
    if read_policy(findings, annotations) is None:
        return
    after = annotations.entry(constants.ANNOTATION_SLEEP_AFTER)
    place = after if after.given else annotations.entry(constants.ANNOTATION_UNIKRAFT_POLICY)
    runtime = spec.child("runtime")
    if runtime.child("virtualMachine").given:
        findings.forbidden(place, "a virtual machine does not sleep: use runtime.sandbox")
        return
    reader = Findings()  # the rules of containers report these errors
    ports = [
        port.child("protocol")
        for container in reader.items(runtime.child("sandbox").child("containers"))
        for port in reader.items(container.child("ports"))
    ]
    if not ports:
        findings.forbidden(place, "a container needs a port: a connection to it wakes an instance")
    for protocol in ports:
        if protocol.value not in (None, "TCP"):
            findings.forbidden(
                protocol, "a workload that sleeps has TCP ports only: nothing else wakes it"
            )


def _policy(seconds: float, *, keeps_memory: bool) -> SleepPolicy:
    return SleepPolicy(seconds, math.inf if keeps_memory else STOP_FACTOR * seconds)


def _read_unikraft(findings: Findings, annotations: FieldValue) -> SleepPolicy | None:
    policy = annotations.entry(constants.ANNOTATION_UNIKRAFT_POLICY)
    findings.choice(policy, ("on", "off"))
    stateful = annotations.entry(constants.ANNOTATION_UNIKRAFT_STATEFUL)
    findings.choice(stateful, ("true", "false"))
    cooldown = annotations.entry(constants.ANNOTATION_UNIKRAFT_COOLDOWN)
    seconds = UNIKRAFT_COOLDOWN_SECONDS
    if cooldown.given:
        text = findings.text(cooldown)
        if _MILLISECONDS.fullmatch(text):
            seconds = max(SHORTEST_SECONDS, int(text) / 1000)
        elif isinstance(cooldown.value, str):
            findings.invalid(cooldown, "must be a number of milliseconds, such as 5000")
    if policy.value != "on":
        return None
    return _policy(seconds, keeps_memory=stateful.value == "true")


def _seconds(
    findings: Findings,
    place: FieldValue,
    default: float,
    *,
    most: float = math.inf,
    others: str = "",
) -> float:
    before = len(findings.found)
    seconds = read_duration(
        findings, place, timedelta(seconds=default), positive=True
    ).total_seconds()
    if len(findings.found) == before and seconds > most:
        findings.invalid(place, f"must be at most {most:g}s")
    elif len(findings.found) > before and others:
        findings.found[before:] = []
        findings.invalid(place, f"must be a duration of 1s or more, such as 5m or 1h30m,{others}")
    return seconds


def _read_time(findings: Findings, place: FieldValue) -> datetime | None:
    if not place.given:
        return None
    try:
        found = datetime.fromisoformat(findings.text(place))
    except ValueError:
        found = None
    if (found is None or found.tzinfo is None) and isinstance(place.value, str):
        findings.invalid(place, "must be a time with its zone, such as 2026-12-01T09:00:00Z")
        return None
    return found
