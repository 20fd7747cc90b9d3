"""Commands of other programs, and the command of this one that does the same or comes near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from datum_compute.cli.errors import CommandError, usage
from datum_compute.cli.explain.suggestions import Command, command
from datum_compute.cli.names import is_name

ALIASES = {
    "ps": ("instances",),
    "regions": ("cities",),
    "releases": ("rollout", "history"),
    "rollback": ("rollout", "undo"),
    "delete": ("destroy",),
    "suspend": ("stop",),
    "resume": ("start",),
}
"""Words that mean exactly what a command of ours does; they take its arguments."""


class Neighbour(NamedTuple):
    """What comes nearest to a word that is no command here."""

    near: Command
    remark: str = ""
    """Why it is not the same, as a clause."""


EXAMPLE = "hello"
"""The workload in a suggestion, where none was typed."""

NEIGHBOURS = {
    "apply": Neighbour(command("deploy", "-f", "FILE")),
    "apps": Neighbour(command("workloads")),
    "configmaps": Neighbour(command("config", "list")),
    "create": Neighbour(command("deploy", EXAMPLE, "--image", "IMAGE", "--city", "CITY")),
    "describe": Neighbour(command("workloads", "describe", EXAMPLE)),
    "down": Neighbour(command("local", "down")),
    "events": Neighbour(command("why", EXAMPLE)),
    "get": Neighbour(command("workloads")),
    "history": Neighbour(command("rollout", "history", EXAMPLE)),
    "info": Neighbour(command("status", EXAMPLE)),
    "launch": Neighbour(command("deploy", EXAMPLE, "--image", "IMAGE", "--city", "CITY")),
    "list": Neighbour(command("workloads")),
    "login": Neighbour(command("access"), "to sign in, use datumctl"),
    "ls": Neighbour(command("workloads")),
    "machines": Neighbour(command("instances")),
    "pods": Neighbour(command("instances")),
    "remove": Neighbour(command("destroy", EXAMPLE)),
    "rm": Neighbour(command("destroy", EXAMPLE)),
    "run": Neighbour(command("deploy", EXAMPLE, "--image", "IMAGE", "--city", "CITY")),
    "secret": Neighbour(command("secrets", "list")),
    "services": Neighbour(command("workloads")),
    "sizes": Neighbour(command("instance-types")),
    "shell": Neighbour(command("ssh", EXAMPLE)),
    "top": Neighbour(command("quota")),
    "undo": Neighbour(command("rollout", "undo", EXAMPLE)),
    "whoami": Neighbour(command("context", "show")),
    "up": Neighbour(command("local", "up", "--detach")),
}
"""Words of Fly, Heroku and kubectl users that have no exact counterpart."""


def expand_alias(words: Sequence[str], position: int) -> list[str]:
    """``words`` with the alias at ``position`` replaced by the command it stands for."""
    own = ALIASES.get(words[position], (words[position],))
    return [*words[:position], *own, *words[position + 1 :]]


def unknown_word(word: str, following: Sequence[str]) -> CommandError | None:
    """An error that names what comes near, for the name in ``following``, which are the words
    typed after it; none for a word that is in no table."""
    found = NEIGHBOURS.get(word)
    if found is None:
        return None
    words = found.near.words
    verb = " ".join(each for each in words if each.islower() and each[0] != "-" and each != EXAMPLE)
    remark = f" ({found.remark})" if found.remark else ""
    name = following[0] if following and is_name(following[0]) else EXAMPLE
    near = Command(tuple(name if each == EXAMPLE else each for each in words))
    return usage(f'unknown command "{word}"; did you mean "{verb}"?{remark}', near)
