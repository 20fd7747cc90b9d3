"""``deploy/crds`` says what the types say."""

from __future__ import annotations

from scripts.generate import CRDS, rendered


def test_every_generated_definition_is_current() -> None:
    wanted = rendered()

    found = {path.name: path.read_text(encoding="utf-8") for path in CRDS.glob("*.yaml")}

    assert sorted(found) == sorted(wanted), "run scripts/generate.py"
    assert [name for name in sorted(wanted) if found[name] != wanted[name]] == [], (
        "run scripts/generate.py"
    )
