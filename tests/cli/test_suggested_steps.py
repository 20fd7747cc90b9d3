"""Commands that meet the same problem suggest the same next step."""

from __future__ import annotations

import json

import pytest

from tests.support.cli.read_screens import manifest
from tests.support.cli.session import CliSession, cli_session


def first_hint(text: str, title: str) -> str:
    return text.partition(title)[2].splitlines()[0].strip()


def fail_with(here: CliSession, reason: str) -> str:
    """The error of a deploy whose instances fail for ``reason``."""
    return here.run("deploy -f -", stdin=json.dumps(manifest("api", fail=reason))).err


@pytest.mark.parametrize("reason", ["ImageUnavailable", "InstanceCrashing", "ConfigurationError"])
def test_a_failed_deploy_and_why_suggest_the_same_command(reason: str) -> None:
    with cli_session() as here:
        error = fail_with(here, reason)

        explained = here.run("why api").out

        assert first_hint(error, "Try:") == first_hint(explained, "Next")
