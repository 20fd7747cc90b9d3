"""Where the repository is, for tests that read its files."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "cli" / "golden"
