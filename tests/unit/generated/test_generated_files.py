"""Generated files match the types, and the check finds every difference."""

from __future__ import annotations

from pathlib import Path

from scripts import generate


def test_every_generated_file_is_current() -> None:
    assert generate.differing(generate.ROOT) == [], "run make generate"


def test_the_check_finds_missing_surplus_and_changed_files(tmp_path: Path) -> None:
    generate.write(tmp_path)
    assert generate.differing(tmp_path) == []
    missing, changed, *_ = sorted((tmp_path / generate.CRDS).glob("*.yaml"))
    superfluous = tmp_path / generate.CRDS / "superfluous.yaml"
    page = tmp_path / generate.API_REFERENCE

    missing.unlink()
    changed.write_text("kind: Nothing\n")
    superfluous.write_text("")
    page.write_text(page.read_text() + "\n")

    wrong = {missing, changed, superfluous, page}
    assert generate.differing(tmp_path) == sorted(path.relative_to(tmp_path) for path in wrong)


def test_generating_again_fixes_every_difference(tmp_path: Path) -> None:
    (tmp_path / generate.CRDS).mkdir(parents=True)
    (tmp_path / generate.CRDS / "superfluous.yaml").write_text("")

    generate.write(tmp_path)

    assert generate.differing(tmp_path) == []
