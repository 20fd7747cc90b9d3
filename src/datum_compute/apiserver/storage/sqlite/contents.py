"""What an inspected log has of each plane and object, and what follows from it."""

from __future__ import annotations

from datum_compute.apiserver.storage.protocol import ObjectKey
from datum_compute.apiserver.storage.sqlite.log_file import DELETE, LogRow, PlaneRow, Tally


class Versions:
    """What the log has of one object."""

    __slots__ = ("bad", "good")

    def __init__(self) -> None:
        self.good: LogRow | None = None
        """The last version that is proved, without its bytes."""
        self.bad: list[LogRow] = []
        """Those that are not, in order."""

    @property
    def last_bad(self) -> LogRow | None:
        """The current version, where that is not proved. A row that follows ``good`` by only one
        of its two numbers is not taken for it: one of the numbers is wrong."""
        later = [each for each in self.bad if self.good is None or _follows(each, self.good)]
        return later[-1] if later else None

    @property
    def is_deleted(self) -> bool:
        last = self.last_bad or self.good
        return last is None or last.type == DELETE


class Contents:
    """What the log has of one plane."""

    def __init__(self, row: PlaneRow, stored: Tally | None) -> None:
        self.row = row
        self.stored = stored
        """What its record says; None where that is lost."""
        self.versions: dict[ObjectKey, Versions] = {}
        self.revisions: set[int] = set()
        """Those since the last compaction."""
        self.rows = 0
        self.highest = row.revision
        self.uncertain = 0
        """Rows that are not proved and whose value does not confirm their name."""

    def add(self, row: LogRow, *, is_good: bool) -> None:
        self.rows += 1
        versions = self.versions.setdefault((row.resource, row.namespace, row.name), Versions())
        if is_good:
            if versions.good is None or versions.good.seq < row.seq:
                versions.good = row
            self.highest = max(self.highest, row.revision)
        else:
            versions.bad.append(row)
            versions.bad.sort(key=lambda each: each.seq)
        if type(row.revision) is int and row.revision > self.row.compacted:
            self.revisions.add(row.revision)


def _follows(row: LogRow, good: LogRow) -> bool:
    return row.seq > good.seq and type(row.revision) is int and row.revision > good.revision


def verdict(versions: Versions) -> tuple[str, str]:
    """What is wrong with an object some of whose versions are not proved, and the remedy."""
    good, last = versions.good, versions.last_bad
    problem = (
        f"revision {show_value((last or versions.bad[-1]).revision)} does not match its checksum"
    )
    if last is not None and last.type == DELETE:
        return f"{problem}; it is a deletion", "stays deleted"
    if good is None or (last is not None and good.type == DELETE):
        return problem, "is dropped"
    if last is not None:
        return problem, f"goes back to revision {good.revision}"
    if all(_follows(good, each) for each in versions.bad if type(each.revision) is int):
        return f"{problem}; it is an earlier version", "the history is dropped"
    return f"{problem}; its place in the order is not certain", (
        "stays deleted" if good.type == DELETE else f"stays at revision {good.revision}"
    )


def show_value(value: object) -> str:
    """A stored value as it can be shown, whatever it is."""
    text = value if isinstance(value, str) else repr(value)
    return "".join(each if each.isprintable() else "?" for each in text)[:100]
