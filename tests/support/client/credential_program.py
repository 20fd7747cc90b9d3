"""A credential program that a test writes, and that notes each of its runs."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

from datum_compute.client.auth.exec_plugin import VERSIONS

V1, V1BETA1 = VERSIONS


class Program:
    """A credential program that records each run and prints what a test gave it."""

    def __init__(self, directory: Path, api_version: str = V1) -> None:
        self.path = directory / "give-credential"
        self._answer = directory / "answer"
        self._runs = directory / "runs"
        self._api_version = api_version
        self.path.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys\n"
            f"with open({str(self._runs)!r}, 'a') as runs:\n"
            "    runs.write(json.dumps([sys.argv[1:], dict(os.environ), sys.stdin.read()])"
            " + '\\n')\n"
            f"exec(open({str(self._answer)!r}).read())\n"
        )
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def gives(self, **status: Any) -> None:
        answer = {"apiVersion": self._api_version, "kind": "ExecCredential", "status": status}
        self.prints(json.dumps(answer))

    def prints(self, text: str) -> None:
        self.does(f"print({text!r})")

    def does(self, code: str) -> None:
        self._answer.write_text(code)

    @property
    def runs(self) -> list[Any]:
        if not self._runs.exists():
            return []
        return [json.loads(line) for line in self._runs.read_text().splitlines()]
