"""What Go's regexp says of many patterns and texts. ``main.go`` produced ``corpus.json``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

_HERE = Path(__file__).parent

Verdicts = dict[str, str | None]
"""By pattern: None where it is refused, otherwise a 1 for each text in which it is found."""


def recorded() -> tuple[list[str], Verdicts]:
    """The texts, and the verdicts of Go."""
    corpus = json.loads((_HERE / "corpus.json").read_text())
    return corpus["texts"], corpus["verdicts"]


def judged_by_go() -> Verdicts:
    """The verdicts of the Go that is installed, on the recorded patterns and texts."""
    texts, verdicts = recorded()
    corpus = json.dumps({"patterns": list(verdicts), "texts": texts})
    command = ["go", "run", "main.go"]
    done = subprocess.run(command, cwd=_HERE, input=corpus, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: Verdicts = json.loads(done.stdout)
    return found
