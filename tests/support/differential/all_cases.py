"""All requests whose answers are recorded, in the order they are sent."""

from __future__ import annotations

from tests.support.differential.client_cases import client_cases
from tests.support.differential.further_cases import further_cases
from tests.support.differential.raw_cases import RawCase, cases
from tests.support.differential.rule_cases import rule_cases


def all_cases() -> list[RawCase]:
    return [*cases(), *further_cases(), *rule_cases(), *client_cases()]
