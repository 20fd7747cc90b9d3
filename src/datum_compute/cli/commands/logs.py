"""``logs``: lines of many instances as one stream, in the order of their times.

The project plane serves each instance's lines under ``…/instances/NAME/log``, with a time
before each line when asked. All instances are read, the lines sorted, and each is printed
behind the name of its instance. Where some cannot be read, because their city is disconnected, a
warning is printed and the others are shown. Following polls for newer lines, so that no line is
lost or shown twice when instances come and go or a connection breaks.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from datum_compute.cli import queries
from datum_compute.cli.arguments import parse_duration, set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, not_found
from datum_compute.cli.explain import states
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.names import workload_name
from datum_compute.cli.platform_offers import not_offered
from datum_compute.cli.render.watch import MAX_FAILURES, TRANSIENT_ERRORS
from datum_compute.cli.tables import INSTANCES, NAMESPACE, WORKLOADS
from datum_compute.client import errors

POLL_SECONDS = 1.0
OVERLAP_SECONDS = 5.0
"""How far the next read overlaps the last one: lines may be stored late. A guess."""


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(
        parser, "logs hello", "logs hello-default-dfw-0 --tail 20", "logs --since 10m --city DFW"
    )
    parser.add_argument(
        "name",
        metavar="WORKLOAD|INSTANCE",
        nargs="?",
        type=workload_name,
        help="workload or instance (default: every instance)",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="follow new lines")
    parser.add_argument(
        "--tail", type=_lines, metavar="N", help="only the last N lines of each instance"
    )
    parser.add_argument(
        "--since",
        type=parse_duration,
        metavar="T",
        help="only lines newer than this, e.g. 45s, 10m, 1h30m",
    )
    parser.add_argument("--city", help="only instances in this city")
    parser.add_argument("--timestamps", action="store_true", help="show the time of each line")
    parser.add_argument(
        "--raw", action="store_true", help="keep colours and control characters of the lines"
    )


def _lines(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of lines')
    return int(text)


def run(context: Context) -> int:
    try:
        _show(context)
    except errors.Unavailable as error:
        raise CommandError(
            f"logs are unavailable: {error.detail}",
            command("local", "status"),
            code="Unreachable",
            retryable=True,
        ) from error
    return 0


def _show(context: Context) -> None:
    tail = _Tail(context)
    tail.show(_chosen(context))
    failures = 0
    while context.args.follow:
        context.reach.sleep(POLL_SECONDS)
        try:
            tail.show(_chosen(context))
            failures = 0
        except TRANSIENT_ERRORS:
            failures += 1
            if failures >= MAX_FAILURES:
                raise


def _chosen(context: Context) -> list[dict[str, Any]]:
    """The instances of a workload, one instance, or all."""
    name, city = context.args.name, context.args.city
    found = context.reader.list(INSTANCES, NAMESPACE)
    known = states.instance_identities(found, lambda: queries.deployments(context))
    found.sort(key=lambda each: queries.instance_sort_key(each, known))
    if name:
        mine = [each for each in found if known[each["metadata"]["name"]].workload == name]
        mine = mine or [each for each in found if each["metadata"]["name"] == name]
        if not mine:
            _require(context, name)
        found = mine
    if city:
        wanted = city.lower()
        found = [each for each in found if known[each["metadata"]["name"]].city.lower() == wanted]
        if not found:
            queries.require_city(context, city)
    return found


def _require(context: Context, name: str) -> None:
    """Raise unless there is a workload of this name, which may have no instances yet."""
    try:
        context.reader.get(WORKLOADS, name, NAMESPACE)
    except errors.NotFound:
        project = context.target.project
        raise not_found("workload or instance", name, project, command("instances")) from None


class _Tail:
    """Prints each line once, whichever read returns it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._printed: Counter[tuple[str, str]] = Counter()
        """The lines of the last read, each with how often it occurred."""
        self._first: dict[str, datetime] = {}
        """With ``--tail``: the time of the first line that was printed."""
        self._read_at: dict[str, datetime] = {}
        """When each instance was last read."""
        self._unread: dict[str, str] = {}
        """Instances that could not be read last time, and why."""
        self._looks = 0
        self._instances: dict[str, dict[str, Any]] = {}

    def show(self, instances: Sequence[dict[str, Any]]) -> None:
        self._instances = {each["metadata"]["name"]: each for each in instances}
        merged: list[tuple[datetime, str, str]] = []
        seen: Counter[tuple[str, str]] = Counter()
        for name, lines, tail in self._read_all(list(self._instances)):
            for line in lines:
                when, text = _timed(line)
                if tail is not None:
                    self._first.setdefault(name, when)
                seen[(name, line)] += 1
                new = seen[(name, line)] > self._printed[(name, line)]
                if new and when >= self._first.get(name, _EPOCH):
                    merged.append((when, name, text))
        # What could not be read now may be read again later.
        seen.update({at: n for at, n in self._printed.items() if at[0] in self._unread})
        self._printed = seen
        width = max((len(name) for _, name, _ in merged), default=0)
        args = self._context.args
        for when, name, text in sorted(merged, key=lambda each: each[0]):
            time = f"{_stamp(when)} " if args.timestamps else ""
            self._context.show(f"{name.ljust(width)} | {time}{text}", raw=args.raw)
        if not merged and not self._unread and not self._context.args.follow:
            self._context.say(self._nothing(len(instances)))

    def _read_all(self, names: list[str]) -> list[tuple[str, list[str], int | None]]:
        """The lines of each instance that can be read, and the limit on their number. Raises
        if none can be read."""
        now = self._context.env.now()
        found: list[tuple[str, list[str], int | None]] = []
        unread: dict[str, str] = {}
        failure: errors.Unavailable | None = None
        for name in names:
            since, tail = self._wanted(name, now)
            try:
                found.append((name, self._read(name, since, tail), tail))
            except errors.Unavailable as error:
                failure, unread[name] = error, error.detail
            else:
                self._read_at[name] = now
        if failure is not None and not found:
            raise failure
        for name in sorted(unread.keys() - self._unread.keys()):
            self._context.say(f"{name}: {unread[name]}")
        self._unread = unread
        self._looks += 1
        return found

    def _wanted(self, name: str, now: datetime) -> tuple[float | None, int | None]:
        """Since when, and how many lines: for the first read from the flags, then what is new. For
        a new instance, all lines."""
        read_at = self._read_at.get(name)
        if read_at is not None:
            return (now - read_at).total_seconds() + OVERLAP_SECONDS, None
        if self._looks and name not in self._unread:
            return None, None
        return self._context.args.since, self._context.args.tail

    def _nothing(self, instances: int) -> str:
        if not instances:
            args = self._context.args
            project, filtered = self._context.target.project, bool(args.name or args.city)
            return queries.nothing_found("instances", project, filtered)
        asked = self._context.args.since is not None or self._context.args.tail is not None
        return "No matching lines." if asked else "No lines yet."

    def _read(self, name: str, since: float | None, tail: int | None) -> list[str]:
        from urllib.parse import urlencode

        query = {"timestamps": "true"}
        if since is not None:
            query["sinceSeconds"] = str(math.ceil(since))
        if tail is not None:
            query["tailLines"] = str(tail)
        path = f"{INSTANCES.path(NAMESPACE, name)}/log?{urlencode(query)}"
        try:
            body = self._context.reader.raw(path)
        except (errors.NotFound, errors.NotServed, errors.Unsupported) as error:
            if _is_gone(self._context, name):
                return []
            raise not_offered(error, "logs", self._instances[name], ("logs",)) from error
        return body.decode("utf-8", "replace").splitlines()


def _is_gone(context: Context, name: str) -> bool:
    """Whether a refusal only means that the instance was deleted meanwhile."""
    try:
        context.reader.get(INSTANCES, name, NAMESPACE)
    except errors.NotFound:
        return True
    return False


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _timed(line: str) -> tuple[datetime, str]:
    """A line's time and its text; lines without a time come first."""
    stamp, _, text = line.partition(" ")
    try:
        when = datetime.fromisoformat(_microseconds(stamp))
    except ValueError:
        return _EPOCH, line
    return (when, text) if when.tzinfo is not None else (_EPOCH, line)


def _stamp(when: datetime) -> str:
    """As RFC 3339 in UTC, each of the same width; a dash for a line without a time."""
    shown = when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return "-".ljust(len(shown)) if when == _EPOCH else shown


def _microseconds(stamp: str) -> str:
    """The time cut to microseconds, which is what Python parses."""
    head, dot, rest = stamp.partition(".")
    digits = rest.rstrip("Zz")
    return f"{head}.{digits[:6].ljust(6, '0')}+00:00" if dot and digits.isdecimal() else stamp
