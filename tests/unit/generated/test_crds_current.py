"""``deploy/crds`` says what the types say, and the check that says so really bites."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import generate


def test_every_generated_definition_is_current() -> None:
    assert generate.differing() == [], "run make generate"


def test_the_check_sees_what_is_missing_superfluous_or_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "CRDS", tmp_path)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    generate.write()
    assert generate.differing() == []
    missing, changed, *_ = sorted(path.name for path in tmp_path.glob("*.yaml"))

    (tmp_path / missing).unlink()
    (tmp_path / changed).write_text("kind: Nothing\n")
    (tmp_path / "superfluous.yaml").write_text("")

    assert generate.differing() == sorted([missing, changed, "superfluous.yaml"])
