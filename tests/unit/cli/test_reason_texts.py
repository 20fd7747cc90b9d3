"""The CLI has a label, advice and a next step for every reason."""

from __future__ import annotations

import pytest

from datum_compute.api.compute.reasons import REASONS, Actor
from datum_compute.cli.explain.reasons import TEXTS, explain
from datum_compute.cli.explain.suggestions import command


def test_every_reason_has_a_text_and_every_text_a_reason() -> None:
    assert list(TEXTS) == list(REASONS)


@pytest.mark.parametrize("reason", sorted(TEXTS))
def test_a_text_fits_its_reason(reason: str) -> None:
    text = TEXTS[reason]

    assert text.summary
    assert text.summary == text.summary.strip().rstrip(".")
    if REASONS[reason].healthy:
        assert (text.advice, text.next_step) == ("", None)
    else:
        assert text.advice.endswith(".")
        assert text.next_step is not None


def test_work_that_takes_longer_than_usual_is_up_to_the_platform() -> None:
    provisioning = explain("ProvisioningNetwork")

    assert provisioning.advice_after(119) == TEXTS["ProvisioningNetwork"].advice
    assert "platform team" in provisioning.advice_after(121)


def test_an_unknown_reason_is_described_by_its_own_name() -> None:
    found = explain("SourceTooLarge")

    assert found.summary == "source too large"
    assert found.actor_after(1e9) is Actor.WAIT
    assert not found.reason.needs_action
    assert found.next_command("web") == command("why", "web")
