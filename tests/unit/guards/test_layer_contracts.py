"""The layer contracts hold, and breaking each of them fails the check."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    return subprocess.run(
        [*command, "--no-cache"],
        cwd=tree,
        env={"PYTHONPATH": str(tree), "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns("*.pyc", "__pycache__")
    shutil.copytree(ROOT / "src" / "datum_compute", tmp_path / "datum_compute", ignore=ignore)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_the_contracts_hold(tree: Path) -> None:
    result = lint(tree)

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("contract", "module", "statement"),
    [
        (
            "Each layer imports only what stands below it",
            "runtime/planted.py",
            "import datum_compute.controllers",
        ),
        (
            "Each layer imports only what stands below it",
            "api/planted.py",
            "import datum_compute.env",
        ),
        (
            "The product never imports the testing kit",
            "runtime/planted.py",
            "import datum_compute.testing",
        ),
        (
            "Decisions know only the API and the standard library",
            "decisions/planted.py",
            "import asyncio",
        ),
        (
            "Controllers are blind to the platform, the fleets and the choice of provider",
            "controllers/planted.py",
            "import datum_compute.fleets",
        ),
        (
            "Only the registry imports a provider, and providers do not know each other",
            "assembly/planted.py",
            "import datum_compute.providers.simulated",
        ),
        (
            "Management and cells meet only in the API",
            "controllers/cell/planted.py",
            "import datum_compute.controllers.management",
        ),
        (
            "Stand-ins do not know each other",
            "standins/milo_quota/planted.py",
            "import datum_compute.standins.network_services",
        ),
        ("HTTP enters the client by one door", "client/in_process.py", "import httptools"),
        (
            "Starlette serves the manager's own endpoints, never the API server's requests",
            "apiserver/planted.py",
            "import starlette",
        ),
        (
            "SQLite enters by the API server's storage alone",
            "apiserver/handler.py",
            "import apsw",
        ),
        (
            "A folder of the API server imports only what lies below it",
            "apiserver/request/planted.py",
            "import datum_compute.apiserver.verbs.writes",
        ),
        (
            "Prometheus' client enters by the exposition alone",
            "runtime/metrics/registry.py",
            "import prometheus_client",
        ),
        (
            "The API server uses its storage by the protocol",
            "apiserver/verbs/planted.py",
            "import datum_compute.apiserver.storage.sqlite.store",
        ),
        (
            "Start-up tricks stay in cli.quick",
            "cli/render/planted.py",
            "import datum_compute.cli.quick.http1",
        ),
        (
            "Verbs of the CLI do not know each other",
            "cli/commands/rollout/planted.py",
            "import datum_compute.cli.commands.deploy.plan",
        ),
        ("cli.quick imports nothing heavy", "cli/quick/planted.py", "import http.client"),
    ],
)
def test_breaking_each_contract_fails_the_check(
    tree: Path, contract: str, module: str, statement: str
) -> None:
    planted = tree / "datum_compute" / module
    source = planted.read_text() if planted.exists() else ""
    planted.write_text(source + f"\n{statement}\n")

    result = lint(tree)

    assert result.returncode != 0
    assert f"{contract} BROKEN" in result.stdout
