"""The product has no name that only tests use, apart from those listed with a reason."""

from __future__ import annotations

from pathlib import Path

import datum_compute
from tests.support.guards.unused import unused_names
from tests.support.paths import ROOT

PACKAGE = Path(datum_compute.__file__).parent

CALLBACKS = {
    "connection_made",
    "connection_lost",
    "data_received",
    "eof_received",
    "pause_writing",
    "resume_writing",
    "on_message_begin",
    "on_status",
    "on_url",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    "capture_signals",
    "main_loop",
}
"""Called by asyncio, httptools and uvicorn."""

ALLOWED = {
    "abandon": "the platform loses its power; simulations do that",
    "enqueue": "a request from outside the watches, part of the documented runtime",
    "held_back": "both lists of a plan together, as its properties are stated",
    "settled": "that a plan has nothing to do, as its simulations end",
    "kept_aside": "the size of what waits for a cluster, which must stay bounded",
}


def test_no_name_is_used_by_tests_alone() -> None:
    found = [
        each
        for each in unused_names(ROOT, PACKAGE)
        # The testing kit and the conformance kit of providers are there for tests.
        if not each.startswith(("testing/", "providers/conformance/"))
        and each.rpartition(" ")[2] not in CALLBACKS | ALLOWED.keys()
    ]

    assert found == []


def test_a_planted_name_is_found(tmp_path: Path) -> None:
    package = tmp_path / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "one.py").write_text(
        "USED = 1\nUNUSED = 2\ndef used(): return USED\ndef unused(): return used()\n"
        "class Unused:\n    def method(self): ...\n    def __repr__(self): ...\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("from pkg.one import UNUSED, Unused, unused\n")

    assert unused_names(tmp_path, package) == [
        "one.py: UNUSED",
        "one.py: unused",
        "one.py: Unused",
        "one.py: method",
    ]
