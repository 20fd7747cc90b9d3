"""Write the generated files: the definitions of compute under ``deploy/crds`` and those of others
under ``deploy/local/crds``, the roles and webhooks under ``deploy/base``, what compute registers
with Milo under ``deploy/milo``, the references of the API, of the command line, of rights and of
metrics, the CLI's table of resources, and pictures of the docs.

Run it after changing a type in ``datum_compute.api``, what a command takes, or what a process
may do or measures. A test fails while the files differ from what this would write.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # the other scripts are imported from the root, as in the tests

from datum_compute.api.compute import v1alpha as compute  # noqa: E402
from datum_compute.api.crds import all_crds  # noqa: E402
from datum_compute.assembly import milo_objects  # noqa: E402
from scripts import (  # noqa: E402
    api_reference,
    cli_reference,
    cli_tables,
    metrics_reference,
    pictures,
    roles,
)

CRDS = Path("deploy/crds")
"""Our own kinds: applied to projects, hub and cells."""
LOCAL_CRDS = Path("deploy/local/crds")
"""Kinds of Karmada, Milo and network services as the local platform serves them. Apart, because
applied to a real hub or project they replace the definitions of their owners."""
MILO = Path("deploy/milo")
API_REFERENCE = Path("docs/reference/api.md")
CLI_REFERENCE = Path("docs/reference/cli.md")
RIGHTS_REFERENCE = Path("docs/reference/rights.md")
METRICS_REFERENCE = Path("docs/reference/metrics.md")
CLI_TABLES = Path("src/datum_compute/cli/tables.py")


class _Dumper(yaml.SafeDumper):
    """Lists are indented, and nothing is abbreviated by an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


@cache
def rendered() -> Mapping[Path, str]:
    """Path below the root -> content, for every generated file."""
    applied = {_definition_path(crd): [crd] for crd in all_crds()}
    milo = {MILO / name: documents for name, documents in milo_objects.files().items()}
    kustomizations = {
        folder / "kustomization.yaml": [
            roles.kustomization(sorted(path.name for path in files if path.parent == folder))
        ]
        for folder, files in ((CRDS, applied), (MILO, milo))
    }
    manifests = {
        path: _yaml(documents)
        for path, documents in (applied | milo | kustomizations | roles.manifests()).items()
    }
    references = {
        API_REFERENCE: api_reference.rendered(),
        CLI_REFERENCE: cli_reference.rendered(),
        RIGHTS_REFERENCE: roles.reference(),
        METRICS_REFERENCE: metrics_reference.rendered(),
        CLI_TABLES: cli_tables.rendered(),
    }
    return manifests | references | pictures.rendered()


def _definition_path(crd: dict[str, Any]) -> Path:
    folder = CRDS if crd["spec"]["group"] == compute.GROUP else LOCAL_CRDS
    return folder / f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"


def _yaml(documents: list[dict[str, Any]]) -> str:
    return "---\n".join(
        yaml.dump(each, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
        for each in documents
    )


def found_in(root: Path) -> dict[Path, str]:
    """The existing generated files, surplus manifests included."""
    files = [
        *(
            path
            for folder in (CRDS, LOCAL_CRDS, MILO, roles.BASE)
            for path in sorted((root / folder).rglob("*.yaml"))
            if path.parent != root / roles.MANAGER
        ),
        *(root / each for each in (API_REFERENCE, CLI_REFERENCE, RIGHTS_REFERENCE)),
        *(root / each for each in (METRICS_REFERENCE, CLI_TABLES)),
        *(root / each for each in (pictures.LIFE, pictures.BENCHMARKS)),
    ]
    return {
        path.relative_to(root): path.read_text(encoding="utf-8") for path in files if path.exists()
    }


def differing(root: Path) -> list[Path]:
    """Files that are missing, surplus or different."""
    wanted, found = rendered(), found_in(root)
    return sorted(path for path in {*wanted, *found} if wanted.get(path) != found.get(path))


def write(root: Path) -> None:
    # First: the reference of the command line imports the CLI, which imports its table.
    (root / CLI_TABLES).parent.mkdir(parents=True, exist_ok=True)
    (root / CLI_TABLES).write_text(cli_tables.rendered(), encoding="utf-8")
    files = rendered()
    for stale in sorted(set(found_in(root)) - set(files)):
        (root / stale).unlink()
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    references = f"{API_REFERENCE.parent} and {pictures.LIFE.parent}"
    folders = f"{CRDS}, {LOCAL_CRDS}, {roles.BASE}, {MILO}, {references}"
    print(f"{len(files)} files in {folders}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated files.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    if not parser.parse_args().check:
        write(ROOT)
        return 0
    stale = differing(ROOT)
    for path in stale:
        print(f"{path} is not current: run make generate")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
