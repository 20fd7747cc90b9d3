"""``logs``: lines of many instances as one stream, in the order of their times.

The project plane serves each instance's lines under ``…/instances/NAME/log``, with a time
before each line when asked. All instances are read at once, and each line is printed behind the
name of its instance; :mod:`.past` merges them. Where some cannot be read, because their city is
disconnected, a warning is printed and the others are shown. :mod:`.follow` does the same with lines
to come.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from datum_compute.api.compute.constants import LABEL_CITY_CODE
from datum_compute.cli import queries
from datum_compute.cli.arguments import parse_duration, set_examples
from datum_compute.cli.commands.logs.past import NamedLine, PastLines, merge
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, not_found
from datum_compute.cli.explain import states
from datum_compute.cli.explain.client_errors import not_offered
from datum_compute.cli.explain.suggestions import Command, command
from datum_compute.cli.names import workload_name
from datum_compute.cli.tables import INSTANCES, NAMESPACE, WORKLOADS
from datum_compute.client import errors

if TYPE_CHECKING:
    from datum_compute.api.meta import Object
    from datum_compute.cli.commands.logs.follow import Follower
    from datum_compute.client.client import ApiClient

SHOWN_AT_ONCE = 500
"""Lines that are written together: a write for each takes longer than reading them. A guess."""


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
        raise _unavailable(context, error, ()) from error
    return 0


def _unavailable(
    context: Context, error: errors.Unavailable, instances: Sequence[dict[str, Any]]
) -> CommandError:
    return CommandError(
        f"logs are unavailable: {error.detail}",
        *(_reconnect_commands(context, instances) or [command("local", "status")]),
        code="Unreachable",
        retryable=True,
    )


def _show(context: Context) -> None:
    if context.args.follow:
        context.open_session()
    instances = chosen_instances(context)
    if context.args.follow:
        _follow(context, instances)
        return
    found, unread = _open_all(context, instances)
    width = max((len(name) for name, _ in found), default=0)
    lines = merge(found)
    while batch := list(islice(lines, SHOWN_AT_ONCE)):
        _show_lines(context, batch, width)
    if not found and not unread:
        context.say(_nothing(context, len(instances)))


def build_follower(
    context: Context,
    client: ApiClient,
    instances: list[dict[str, Any]],
    show: Callable[[list[NamedLine]], None],
    say: Callable[[str], None],
) -> Follower:
    """Follows what the arguments of the command choose; ``instances`` are there already."""
    from datum_compute.cli.commands.logs.follow import Follower
    from datum_compute.cli.session import to_dict

    known = {each["metadata"]["uid"] for each in instances}

    def matches(instance: Object) -> bool:
        return instance.metadata.uid in known or _is_wanted(context, to_dict(instance))

    def path(name: str, uid: str, since: float | None) -> str:
        """The flags are for what is there at the start; all lines of what is new are shown."""
        at_start = since is None and uid in known
        return _path(
            name,
            context.args.since if at_start else since,
            context.args.tail if at_start else None,
            follow=True,
        )

    return Follower(
        client, matches=matches, path=path, parse=_timed, show=show, say=say, now=context.env.now
    )


def _follow(context: Context, instances: list[dict[str, Any]]) -> None:
    async def follow(client: ApiClient) -> None:
        def show(lines: list[NamedLine]) -> None:
            _print(context, lines)

        await build_follower(context, client, instances, show, context.say).run()

    try:
        context.open_session().run(follow)
    except (errors.NotServed, errors.Unsupported) as error:
        first = instances[0] if instances else {"metadata": {"name": "INSTANCE"}}
        raise not_offered(error, "instance logs", first, ("logs",)) from error


def chosen_instances(context: Context) -> list[dict[str, Any]]:
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


def _is_wanted(context: Context, instance: dict[str, Any]) -> bool:
    """Whether a new instance belongs to what is followed."""
    name, city = context.args.name, context.args.city
    # Without a deployment to ask, the labels or else the name say what it belongs to.
    who = states.instance_identities([instance], list)[instance["metadata"]["name"]]
    return (not name or name in (who.workload, instance["metadata"]["name"])) and (
        not city or who.city.lower() == city.lower()
    )


def _require(context: Context, name: str) -> None:
    """Raise unless there is a workload of this name, which may have no instances yet."""
    try:
        context.reader.get(WORKLOADS, name, NAMESPACE)
    except errors.NotFound:
        project = context.target.project
        raise not_found("workload or instance", name, project, command("instances")) from None


def _print(context: Context, lines: list[NamedLine]) -> None:
    width = max((len(name) for _, name, _ in lines), default=0)
    _show_lines(context, sorted(lines, key=lambda each: each[0]), width)


def _show_lines(context: Context, lines: Sequence[NamedLine], width: int) -> None:
    shown = []
    for when, name, text in lines:
        time = f"{_stamp(when)} " if context.args.timestamps else ""
        shown.append(f"{name.ljust(width)} | {time}{text}")
    if shown:
        context.show("\n".join(shown), raw=context.args.raw)


_Lines = Iterator[tuple[datetime, tuple[datetime, str]]]


def _open_all(
    context: Context, instances: Sequence[dict[str, Any]]
) -> tuple[list[tuple[str, _Lines]], bool]:
    """The instances that have lines, with these, and whether some cannot be read. Raises if none
    can be."""
    found: list[tuple[str, _Lines]] = []
    unread: dict[str, list[dict[str, Any]]] = {}
    failure: errors.Unavailable | None = None
    for instance in instances:
        try:
            lines = _read(context, instance)
            first = next(lines, None)
        except errors.Unavailable as error:
            failure = error
            unread.setdefault(error.detail, []).append(instance)
        else:
            if first is not None:
                found.append((instance["metadata"]["name"], chain([first], lines)))
    if failure is not None and sum(map(len, unread.values())) == len(instances):
        raise _unavailable(context, failure, instances) from failure
    if unread:
        _say_unread(context, unread)
    return found, bool(unread)


def _say_unread(context: Context, unread: dict[str, list[dict[str, Any]]]) -> None:
    """Each reason once: a city has many instances."""
    stale = queries.stale_deployments(context)
    for detail, instances in unread.items():
        first, more = instances[0]["metadata"]["name"], len(instances) - 1
        age = queries.report_age(stale.get(states.deployment_name(instances[0])), context.env.now())
        context.say(
            f"{first}{f' and {more} more' if more else ''}: {detail}{f'; {age}' if age else ''}"
        )
    reconnect = _reconnect_commands(context, [each for found in unread.values() for each in found])
    steps = [context.invocation.render(each) for each in reconnect or [command("cities")]]
    context.say("\nTry:  " + "\n      ".join(steps))


def _reconnect_commands(context: Context, instances: Sequence[dict[str, Any]]) -> list[Command]:
    cities = dict.fromkeys(states.label(each, LABEL_CITY_CODE) for each in instances)
    found = [queries.reconnect_command(context, city) for city in cities]
    return [each for each in found if each is not None]


def _nothing(context: Context, instances: int) -> str:
    args = context.args
    if not instances:
        filtered = bool(args.name or args.city)
        return queries.nothing_found("instances", context.target.project, filtered)
    asked = args.since is not None or args.tail is not None
    return "No matching lines." if asked else "No lines yet."


def _path(name: str, since: float | None, tail: int | None, *, follow: bool = False) -> str:
    from urllib.parse import urlencode

    query = {"timestamps": "true"}
    if follow:
        query["follow"] = "true"
    if since is not None:
        query["sinceSeconds"] = str(math.ceil(since))
    if tail is not None:
        query["tailLines"] = str(tail)
    return f"{INSTANCES.path(NAMESPACE, name)}/log?{urlencode(query)}"


def _read(context: Context, instance: dict[str, Any]) -> _Lines:
    name = instance["metadata"]["name"]

    def open_parts(since: float | None, tail: int | None) -> Iterator[bytes]:
        return context.reader.stream(_path(name, since, tail))

    args = context.args
    try:
        yield from PastLines(open_parts, _timed, context.env.now, since=args.since, tail=args.tail)
    except (errors.NotFound, errors.NotServed, errors.Unsupported) as error:
        if not _is_gone(context, name):
            raise not_offered(error, "instance logs", instance, ("logs",)) from error


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
