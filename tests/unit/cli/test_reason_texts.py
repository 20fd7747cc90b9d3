"""The CLI has a label, advice and a next step for every reason, its own or the default."""

from __future__ import annotations

import pytest

from datum_compute.api.compute.reasons import REASONS, Actor, Reason
from datum_compute.cli.explain.reasons import TEXTS, explain
from datum_compute.cli.explain.states import instance_state
from datum_compute.cli.explain.suggestions import command


def test_every_text_has_a_reason() -> None:
    assert set(TEXTS) <= set(REASONS)


def test_a_reason_without_a_text_is_described_by_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added = Reason("DiskFull", "The disk of the Instance is full.", Actor.USER)
    monkeypatch.setitem(REASONS, added.name, added)

    found = explain("DiskFull")

    assert found.summary == "disk full"
    assert found.advice_after(0) == "The disk of the Instance is full."
    assert found.next_command("web") == command("why", "web")


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_a_text_fits_its_reason(reason: str) -> None:
    text = explain(reason).text

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
    found = explain("FromLaterVersion")

    assert found.summary == "from later version"
    assert found.actor_after(1e9) is Actor.WAIT
    assert not found.reason.needs_action
    assert found.next_command("web") == command("why", "web")


def test_an_instance_with_a_reason_without_a_text_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added = Reason("DiskFull", "The disk is full.", Actor.USER, fails_after_grace=True)
    monkeypatch.setitem(REASONS, added.name, added)
    conditions = [{"type": "QuotaGranted", "status": "False", "reason": "DiskFull"}]

    state = instance_state({"status": {"conditions": conditions}})

    assert str(state) == "Pending (disk full)"


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_why_never_suggests_a_command_that_leads_back_to_it(reason: str) -> None:
    found = explain(reason).next_command_after_why("web")

    if found is not None:
        assert found.words[0] not in ("why", "status")
        assert "describe" not in found.words


@pytest.mark.parametrize("reason", ["ConfigurationError", "ImageUnavailable", "QuotaExceeded"])
def test_why_suggests_the_same_as_every_other_command(reason: str) -> None:
    found = explain(reason)

    assert found.next_command("web") is not None
    assert found.next_command_after_why("web") == found.next_command("web")
