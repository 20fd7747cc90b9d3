"""Write the generated files: ``deploy/crds/<group>_<plural>.yaml``, one per kind.

Run it after changing a type in ``datum_compute.api``. A test fails while the files differ
from what this would write.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from datum_compute.api.crds import all_crds

ROOT = Path(__file__).resolve().parent.parent
CRDS = ROOT / "deploy" / "crds"


class _Dumper(yaml.SafeDumper):
    """Lists are indented, and nothing is abbreviated by an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def rendered() -> dict[str, str]:
    """File name -> content, for every generated definition."""
    return {
        f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": yaml.dump(
            crd, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True
        )
        for crd in all_crds()
    }


def differing() -> list[str]:
    """Names of files that are missing, superfluous or not what this would write."""
    wanted = rendered()
    found = {path.name: path.read_text(encoding="utf-8") for path in CRDS.glob("*.yaml")}
    return sorted(name for name in wanted | found if wanted.get(name) != found.get(name))


def write() -> None:
    files = rendered()
    CRDS.mkdir(parents=True, exist_ok=True)
    for stale in sorted(CRDS.glob("*.yaml")):
        if stale.name not in files:
            stale.unlink()
    for name, content in files.items():
        (CRDS / name).write_text(content, encoding="utf-8")
    print(f"{len(files)} definitions in {CRDS.relative_to(ROOT)}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated files.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    if not parser.parse_args().check:
        write()
        return 0
    stale = differing()
    for name in stale:
        print(f"{(CRDS / name).relative_to(ROOT)} is not current: run make generate")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
