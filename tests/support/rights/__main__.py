"""Record the rights of every process anew: ``python -m tests.rights``, then ``make generate``."""

from __future__ import annotations

from pathlib import Path

from datum_compute.assembly import recorded_rights
from tests.support.rights.recorder import lines, record, sections

if __name__ == "__main__":
    path = Path(recorded_rights.__file__)
    text = path.read_text(encoding="utf-8")
    head, _, _ = text.partition('RECORDED = """\n')
    calls = record()
    table = sections(lines(calls))
    path.write_text(f'{head}RECORDED = """\n{table}\n"""\n', encoding="utf-8")
    print(f"{len(calls)} calls in {path.name}")
