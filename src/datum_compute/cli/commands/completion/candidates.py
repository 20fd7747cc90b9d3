"""The completion candidates for ``__complete WORDS…``.

The last word is the one being completed, maybe empty. Commands, actions and flags come from
the parser itself; names come from the platform, if it answers quickly.
Errors are never printed: a shell would show them in the middle of a line.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from datum_compute.api.compute.instance_types import INSTANCE_TYPES
from datum_compute.cli.arguments import (
    DEFAULT_ACTIONS,
    LEADING_FLAGS,
    OneOf,
    Parser,
    move_leading_flags,
)
from datum_compute.cli.errors import CommandError
from datum_compute.cli.explain import states as state_words
from datum_compute.cli.explain.suggestions import REPEATED_FLAGS
from datum_compute.cli.render.printable import printable
from datum_compute.cli.tables import (
    CONFIG_MAPS,
    INSTANCES,
    LOCATION_BINDINGS,
    NAMESPACE,
    SECRETS,
    WORKLOADS,
)
from datum_compute.env import Environment

if TYPE_CHECKING:
    from datum_compute.cli.context import Context, Reach, Streams

NO_FILES = 4
"""The bit that keeps a shell from offering file names."""
FILES = 0

Candidates = list[tuple[str, str]]
"""Each with a short description."""

_SEPARATORS = {"city": ",", "add_city": ",", "remove_city": ",", "waves": ",+"}
"""By flag, what separates the entries of its value."""

WAVES = (("each", "one city after the other"), ("none", "all cities at once"))

_FILE_FLAGS = frozenset(
    {
        "-f",
        "--file",
        "--kubeconfig",
        "--token-file",
        "--certificate-authority",
        "--data-dir",
        "--save",
        "--build",
        "--dockerfile",
        "--from-file",
    }
)


def complete(words: Sequence[str], env: Environment, streams: Streams, reach: Reach) -> int:
    found, bits = candidates(list(words) or [""], env, streams, reach)
    for text, description in found:
        print(printable(f"{text}\t{description}" if description else text), file=streams.stdout)
    print(f":{bits}", file=streams.stdout)
    return 0


def candidates(
    words: list[str], env: Environment, streams: Streams, reach: Reach
) -> tuple[Candidates, int]:
    from datum_compute.cli.main import COMMANDS, build_parser

    *before, current = words
    before = _translated(move_leading_flags(before))
    command = next((word for word in before if word in COMMANDS), None)
    if command is None:
        flag, equals, _ = current.partition("=")
        awaited = before[-1:] if _awaits_value(before) else []
        if awaited or (equals and flag in LEADING_FLAGS):
            parser = build_parser("cities").subparsers["cities"]  # any with these flags will do
            source = _Source("", [], [], env, streams, reach)
            found, bits = _below(parser, awaited, current, source)
            return _matching(found, current), bits
        listed = (
            list(COMMANDS.items()) if not current.startswith("-") else _flags(build_parser(None))
        )
        return _matching(listed, current), NO_FILES
    parser = build_parser(command).subparsers[command]
    after = before[before.index(command) + 1 :]
    nested = parser.subparsers
    actions: Candidates = []
    while nested:
        actions = [(name, each.description or "") for name, each in nested.items()]
        if after and after[0] in nested:
            parser, after = nested[after[0]], after[1:]
            nested, actions = parser.subparsers, []
        elif command in DEFAULT_ACTIONS:
            # What follows may be an action, or already belong to the default one.
            parser = nested[DEFAULT_ACTIONS[command][0]]
            nested = {}
        else:
            return _matching(actions, current), NO_FILES
    if after:
        actions = []
    name = parser.prog.partition(" ")[2]
    source = _Source(name, _target_words(before), _names_given(parser, after), env, streams, reach)
    found, bits = _below(parser, after, current, source)
    return _matching([*actions, *found], current), bits


def _translated(words: list[str]) -> list[str]:
    """The words with our command for a word of other programs."""
    from datum_compute.cli.main import translate

    try:
        return translate(words)
    except CommandError:
        return words


def _awaits_value(before: Sequence[str]) -> bool:
    """Whether the last of these words, all before the command, is a flag without its value."""
    words = iter(before)
    return any(word in LEADING_FLAGS and next(words, None) is None for word in words)


def _target_words(words: Sequence[str]) -> list[str]:
    """The flags in ``words`` that select the target, with their values."""
    found: list[str] = []
    for position, word in enumerate(words):
        flag, equals, _ = word.partition("=")
        if flag in REPEATED_FLAGS:
            found += [word] if equals else words[position : position + 2]
    return found


def _matching(found: Iterable[tuple[str, str]], current: str) -> Candidates:
    return [(text, summary.rstrip(".")) for text, summary in found if text.startswith(current)]


def _flags(parser: Parser) -> Candidates:
    return [
        (option, action.help or "")
        for action in parser.arguments
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
        if option.startswith("--")
    ]


def _below(
    parser: Parser, after: list[str], current: str, source: _Source
) -> tuple[Candidates, int]:
    """Candidates for the next word of a command: a flag, a flag's value, or a name."""
    flag, equals, _ = current.partition("=")
    if current.startswith("-") and not equals:
        return _flags(parser), NO_FILES
    valued = _valued(parser)
    if equals and flag in valued:
        found = _values(valued[flag], source, current.removeprefix(f"{flag}="))
        bits = FILES if flag in _FILE_FLAGS else NO_FILES
        return [(f"{flag}={text}", summary) for text, summary in found], bits
    if after and after[-1] in valued:
        action = valued[after[-1]]
        bits = FILES if after[-1] in _FILE_FLAGS else NO_FILES
        return _values(action, source, current), bits
    given = len(_names_given(parser, after))
    expected = [action for action in parser.arguments if not action.option_strings]
    if given < len(expected):
        bits = FILES if expected[given].dest == "file" else NO_FILES
        return _values(expected[given], source, current), bits
    return [], NO_FILES


def _valued(parser: Parser) -> dict[str, argparse.Action]:
    """The flags that take a value."""
    return {
        option: action
        for action in parser.arguments
        for option in action.option_strings
        if action.nargs != 0
    }


def _names_given(parser: Parser, after: Sequence[str]) -> list[str]:
    """The words that are neither flags nor their values."""
    valued, found, skip = _valued(parser), [], False
    for word in after:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in valued
        else:
            found.append(word)
    return found


def _values(action: argparse.Action, source: _Source, typed: str) -> Candidates:
    """``typed`` is the beginning of the value; of a list, only its last entry is completed."""
    if isinstance(action.type, OneOf):
        return [(choice, "") for choice in action.type.choices]
    offer = source.offers().get(action.dest)
    found = offer() if offer is not None else []
    separators = _SEPARATORS.get(action.dest, "") if source.takes_lists else ""
    end = 1 + max((typed.rfind(each) for each in separators), default=-1)
    if not end:
        return found
    taken = re.split(f"[{separators}]", typed[: end - 1])
    whole = dict(WAVES)
    left = [each for each in found if each[0] not in taken and each[0] not in whole]
    return [(typed[:end] + text, summary) for text, summary in left]


class _Source:
    """Names the platform knows; none when it cannot be read, for any reason."""

    def __init__(
        self,
        command: str,
        target: Sequence[str],
        given: Sequence[str],
        env: Environment,
        streams: Streams,
        reach: Reach,
    ) -> None:
        """``command`` with its action, the flags on the line that select the platform and the
        project, and the words ``given`` that are no flags."""
        self._command = command
        self._given = given
        self._target = target
        self._env = env
        self._streams = streams
        self._reach = reach

    @property
    def takes_lists(self) -> bool:
        """Whether values of its flags are separated in one word."""
        return self._command in ("deploy", "rollout undo")

    def offers(self) -> dict[str, Callable[[], Candidates]]:
        named = {
            "instances": self.instances,
            "exec": self.instances,
            "why": lambda: self.workloads() + self.instances(),
            "logs": lambda: self.workloads() + self.instances(),
            "config": lambda: self.data(CONFIG_MAPS),
            "secrets": lambda: self.data(SECRETS),
            "context use": self.contexts,
            "context remove": self.contexts,
            "context": list,  # the names of others are of no use
            "projects": list,
            "local": list,
        }
        whole, (verb, *_) = self._command, self._command.split() or [""]
        return {
            "name": named.get(whole) or named.get(verb) or self.workloads,
            "workload": self.workloads,
            "context": self.contexts,
            "city": self.cities,
            "add_city": self.cities,
            "remove_city": self.cities,
            "waves": lambda: [*WAVES, *self.cities()],
            "instance_type": self.types,
            "health": lambda: [(each.lower(), "") for each in state_words.WorkloadHealth],
            "to_revision": self.revisions,
            "revision": self.revisions,
            "env_from": self.sources,
            "mount": self.sources,
            "pull_secret": lambda: self.data(SECRETS),
        }

    def workloads(self) -> Candidates:
        return [
            (_name(item), state_words.health(item)) for item in self._list(WORKLOADS, NAMESPACE)
        ]

    def instances(self) -> Candidates:
        found = self._list(INSTANCES, NAMESPACE)
        return [(_name(item), state_words.instance_status(item)) for item in found]

    def cities(self) -> Candidates:
        from datum_compute.cli.queries import city_of

        found = self._list(LOCATION_BINDINGS, "")
        usable = [item for item in found if state_words.is_true(item, "Available")]
        return [(city_of(item), _name(item)) for item in usable if city_of(item)]

    def types(self) -> Candidates:
        return [(each.short_name, each.name) for each in INSTANCE_TYPES.values()]

    def revisions(self) -> Candidates:
        """Of the workload that the line names, or else of all."""
        from datum_compute.cli.history.entries import NAME_PREFIX

        found: Candidates = []
        for item in self._list(CONFIG_MAPS, NAMESPACE):
            workload = _name(item).removeprefix(NAME_PREFIX)
            if workload != _name(item) and workload == (*self._given, workload)[0]:
                found += [(number, workload) for number in item.get("data") or {}]
        return sorted(found, key=lambda each: each[0].zfill(9), reverse=True)

    def contexts(self) -> Candidates:
        from datum_compute.cli.targets import stored_contexts

        try:
            stored = stored_contexts.read(self._env).contexts
        except CommandError:
            return []
        return [(name, each.place) for name, each in sorted(stored.items())]

    def data(self, resource: Any, prefix: str = "") -> Candidates:
        from datum_compute.cli.queries import keys_of, owner_of

        return [
            (f"{prefix}{_name(item)}", ", ".join(keys_of(item)))
            for item in self._list(resource, NAMESPACE)
            if not owner_of(item)
        ]

    def sources(self) -> Candidates:
        return self.data(CONFIG_MAPS, "config/") + self.data(SECRETS, "secret/")

    def _list(self, resource: Any, namespace: str) -> list[dict[str, Any]]:
        try:
            return self._context().reader.list(resource, namespace)
        except Exception:  # noqa: BLE001  # completion prints no errors
            return []

    def _context(self) -> Context:
        from datum_compute.cli.context import Context
        from datum_compute.cli.main import build_parser

        args = build_parser("cities").parse_args(["cities", *self._target])
        return Context(self._env, self._streams, args, reach=self._reach)


def _name(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"])
