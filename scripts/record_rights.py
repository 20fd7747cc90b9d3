"""Write ``assembly/rights.toml``: the calls every process makes in the recorded scenarios.

Run it after a change to what a process calls (``make record-rights``, a few minutes), then
``make generate`` for the roles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from datum_compute.testing.calls import RecordedCall  # noqa: E402
from tests.support.rights.recorder import lines, record  # noqa: E402

RIGHTS = ROOT / "src/datum_compute/assembly/rights.toml"
HEAD = """\
# Every call of every process in the recorded scenarios; the roles in deploy/base follow it.
# Written by `make record-rights`. A table is a process on a plane type ("single", "host" and
# "pods" are folders of deploy/base); a key is a group and a resource, its value the verbs.
"""


def rendered(calls: Iterable[RecordedCall]) -> str:
    text, table = HEAD, ""
    for line in lines(calls):
        process, plane, resource, verbs = line.split()
        if table != (table := f"[{process}.{plane}]"):
            text += f"\n{table}\n"
        quoted = ", ".join(f'"{verb}"' for verb in verbs.split(","))
        text += f'"{resource}" = [{quoted}]\n'
    return text


if __name__ == "__main__":
    recorded = record()
    RIGHTS.write_text(rendered(recorded), encoding="utf-8")
    print(f"{len(recorded)} calls in {RIGHTS.relative_to(ROOT)}")
