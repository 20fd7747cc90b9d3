"""The rollout policy of a Workload: one annotation with a JSON object, read strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.fields import FieldPath
from datum_compute.api.name_patterns import DNS_SUBDOMAIN, QUALIFIED_NAME
from datum_compute.decisions.findings import FieldValue, Findings

REST = "*"
"""As the only entry of the last wave: every city that no other wave names."""
EACH = "each"
"""In place of a list of waves: one city after the other."""

FIELDS = ("waves", "soak", "timeout", "onFailure", "gate")
DEFAULT_TIMEOUT = timedelta(minutes=10)
_EXAMPLE = '{"waves": [["DFW"], ["*"]], "soak": "60s"}'
_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
_CONDITION_TYPE = re.compile(f"({DNS_SUBDOMAIN}/)?({QUALIFIED_NAME})")
_OWN_CONDITIONS = (
    compute.CONDITION_AVAILABLE,
    compute.CONDITION_PROGRESSING,
    compute.CONDITION_RECONCILING,
    compute.CONDITION_STALLED,
)


class OnFailure(StrEnum):
    """What follows from a wave that fails."""

    PAUSE = "Pause"
    """Later waves stay closed."""
    UNDO = "Undo"
    """Every deployment gets its last good template back."""
    CONTINUE = "Continue"
    """The next wave opens."""


@dataclass(frozen=True, slots=True)
class RolloutPolicy:
    waves: tuple[tuple[str, ...], ...] = ()
    """The cities of each wave, in lower case."""
    each: bool = False
    """One city after the other, in the order of the placements."""
    soak: timedelta = timedelta()
    timeout: timedelta = DEFAULT_TIMEOUT
    on_failure: OnFailure = OnFailure.PAUSE
    gate: str = ""
    """The type of a condition of the Workload that must be True before the next wave."""

    def order(self, cities: Sequence[str]) -> list[list[str]]:
        """The cities, given in lower case in the order of the placements, wave by wave. Cities
        that no wave names are the last wave; a wave without any of them is left out."""
        if self.each:
            return [[city] for city in dict.fromkeys(cities)]
        named = {city for wave in self.waves for city in wave}
        rest = [city for city in dict.fromkeys(cities) if city not in named]
        waves = [[city for city in wave if city in cities] for wave in self.waves]
        return [wave for wave in (*waves, rest) if wave]


class InvalidPolicy(ValueError):
    """The annotation cannot be read; the message names the field, what was found and what is
    allowed."""


def find_policy(annotations: Mapping[str, str]) -> RolloutPolicy | None:
    """The policy of a Workload; None where it has none. Raises :class:`InvalidPolicy`."""
    findings = Findings()
    path = FieldPath.of("metadata", "annotations").key(compute.ANNOTATION_ROLLOUT)
    place = FieldValue(annotations.get(compute.ANNOTATION_ROLLOUT), path)
    policy = read_policy(findings, place)
    if findings.found:
        raise InvalidPolicy("; ".join(str(each.error) for each in findings.found))
    return policy


def read_policy(findings: Findings, place: FieldValue) -> RolloutPolicy | None:
    """The policy in an annotation's text; None where it asks for nothing, and where it cannot be
    read, which is then in the findings."""
    if not place.given:
        return None
    values = _read_object(findings, place)
    if not values:
        return None
    known = len(findings.found)
    root = FieldValue(values, place.path, place.identity)
    for key in values:
        if key not in FIELDS:
            findings.not_supported(FieldValue(key, place.path, (*place.identity, key)), FIELDS)
    waves = root.child("waves")
    each = waves.value == EACH
    policy = RolloutPolicy(
        () if each or not waves.given else _waves(findings, waves),
        each,
        read_duration(findings, root.child("soak"), timedelta()),
        read_duration(findings, root.child("timeout"), DEFAULT_TIMEOUT, positive=True),
        _on_failure(findings, root.child("onFailure")),
        _gate(findings, root.child("gate")),
    )
    return policy if len(findings.found) == known else None


def _read_object(findings: Findings, place: FieldValue) -> dict[str, Any] | None:
    try:
        values = json.loads(findings.text(place) or "null", object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        values = None
    if isinstance(values, dict):
        return values
    if isinstance(place.value, str):
        findings.invalid(place, f"must be a JSON object such as {_EXAMPLE}")
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a field is given twice")
    return values


def _waves(findings: Findings, place: FieldValue) -> tuple[tuple[str, ...], ...]:
    if not isinstance(place.value, list):
        findings.invalid(place, f'must be a list of lists of cities, or "{EACH}"')
        return ()
    if not place.value:
        findings.required(place, "at least one wave")
    seen: set[str] = set()
    waves = []
    for number, wave in enumerate(findings.items(place)):
        if wave.value == []:
            findings.required(wave, "at least one city")
        elif not isinstance(wave.value, list):
            findings.invalid(wave, "must be a list of cities")
        if wave.value == [REST] and number == len(place.value) - 1:
            continue
        cities = []
        for item in findings.items(wave) if isinstance(wave.value, list) else ():
            city = findings.text(item, needed=True).lower()
            if city == REST:
                findings.invalid(item, "must be the only entry of the last wave")
            elif city and city in seen:
                findings.duplicate(item)
            seen.add(city)
            cities.append(city)
        waves.append(tuple(cities))
    return tuple(waves)


def read_duration(
    findings: Findings, place: FieldValue, default: timedelta, *, positive: bool = False
) -> timedelta:
    if not place.given:
        return default
    text = findings.text(place)
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        if isinstance(place.value, str):
            findings.invalid(place, "must be a duration such as 45s, 10m or 1h30m")
        return default
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    duration = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if positive and not duration:
        findings.invalid(place, "must be longer than 0s")
    return duration


def _on_failure(findings: Findings, place: FieldValue) -> OnFailure:
    findings.choice(place, list(OnFailure))
    return OnFailure(place.value) if place.value in list(OnFailure) else OnFailure.PAUSE


def _gate(findings: Findings, place: FieldValue) -> str:
    gate = findings.text(place)
    if isinstance(place.value, str) and not _CONDITION_TYPE.fullmatch(gate):
        findings.invalid(place, "must be the type of a condition, such as SmokeTestsPassed")
    elif gate in _OWN_CONDITIONS:
        findings.invalid(place, "must not be a condition that the platform writes")
    return gate
