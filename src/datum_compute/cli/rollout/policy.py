"""What flags change in the rollout policy of a workload, which is an annotation with JSON.

The server validates it. Loaded with the parser, so that it imports little.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from datum_compute.api.compute.constants import ANNOTATION_ROLLOUT
from datum_compute.cli.arguments import parse_duration
from datum_compute.cli.errors import usage
from datum_compute.cli.explain.suggestions import AddFlag

Json = dict[str, Any]

NONE = "none"
EACH = "each"
REST = "*"
"""Every other city, as the last wave."""
ON_FAILURE = ("pause", "undo", "continue")


def change_waves(workload: Json, text: str) -> None:
    """``DFW,IAD+LHR``: a comma between waves and a plus within one; ``each`` and ``none``."""
    if text == NONE:
        _set_policy(workload, {})
        return
    waves = [[city.strip().upper() for city in wave.split("+")] for wave in text.split(",")]
    cities = [city for wave in waves for city in wave]
    twice = [city for city in cities if cities.count(city) > 1]
    if not all(cities):
        raise usage(
            f'--waves "{text}": expected cities, with a comma between waves and a plus within one',
            AddFlag("--waves", "DFW,IAD+LHR"),
        )
    if twice:
        raise usage(f'--waves "{text}": {twice[0]} is in two waves', AddFlag("--waves", "each"))
    # The server only warns: in a manifest the city may be one that is added later.
    served = {str(city).upper() for p in workload["spec"]["placements"] for city in p["cityCodes"]}
    absent = [city for city in cities if city not in served and city != REST]
    if absent and text != EACH:
        raise usage(
            f'--waves "{text}": {", ".join(absent)} {"is" if len(absent) == 1 else "are"} in no'
            f" placement of this workload; choose from {', '.join(sorted(served))}"
        )
    _change_policy(workload, "waves", EACH if text == EACH else waves)


def change_soak(workload: Json, text: str) -> None:
    _change_policy(workload, "soak", text)


def check_soak(text: str) -> None:
    try:
        parse_duration(text)
    except argparse.ArgumentTypeError as error:
        raise usage(f"--soak: {error}", AddFlag("--soak", "60s")) from None


def change_gate(workload: Json, type: str) -> None:
    _change_policy(workload, "gate", None if type == NONE else type)


def change_on_failure(workload: Json, word: str) -> None:
    _change_policy(workload, "onFailure", word.capitalize())


def _change_policy(workload: Json, key: str, value: Any) -> None:
    """Change one field of the rollout policy; None removes it."""
    notes = workload["metadata"].get("annotations") or {}
    try:
        policy = json.loads(notes.get(ANNOTATION_ROLLOUT) or "{}")
    except ValueError:
        policy = {}  # one that cannot be read is replaced
    policy = {**policy, key: value} if isinstance(policy, dict) else {key: value}
    _set_policy(workload, {name: each for name, each in policy.items() if each is not None})


def _set_policy(workload: Json, policy: Json) -> None:
    notes = {**(workload["metadata"].get("annotations") or {})}
    notes.pop(ANNOTATION_ROLLOUT, None)
    if policy:
        notes[ANNOTATION_ROLLOUT] = json.dumps(policy)
    if notes or workload["metadata"].get("annotations"):
        workload["metadata"]["annotations"] = notes
