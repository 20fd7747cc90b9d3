"""What a place that keeps revision histories can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from datum_compute.cli.history.entries import Entry, Revisions

Json = Mapping[str, Any]


class History(Protocol):
    async def read(self, workload: Json) -> Revisions:
        """The entries of this workload, and not of an earlier one of its name."""

    async def record(
        self, workload: Json, entry: Entry | None, *, before: Json | None
    ) -> Revisions:
        """Append the entry of a change that made ``workload`` of ``before``, None where there
        was none; ahead of it what happened to ``before`` that no entry tells of. Without an
        entry only the latter, if nothing has changed the workload since. An entry that is there
        already is not added again."""
