"""Commands of other programs, and the command of this one that does the same or comes near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from datum_compute.cli.errors import CommandError, usage
from datum_compute.cli.explain.suggestions import Command, command

ALIASES = {
    "ps": ("instances",),
    "regions": ("cities",),
    "releases": ("rollout", "history"),
    "rollback": ("rollout", "undo"),
    "delete": ("destroy",),
}
"""Words that mean exactly what a command of ours does; they take its arguments."""


class Neighbour(NamedTuple):
    """What comes nearest to a word that is no command here."""

    near: Command
    remark: str = ""
    """Why it is not the same, as a clause."""


_NO_SHELL = "instances have no shell"

NEIGHBOURS = {
    "apply": Neighbour(command("deploy", "-f", "FILE")),
    "apps": Neighbour(command("workloads")),
    "config": Neighbour(command("deploy", "NAME", "--env", "KEY=VALUE")),
    "console": Neighbour(command("logs", "NAME"), _NO_SHELL),
    "create": Neighbour(command("deploy", "NAME", "--image", "IMAGE", "--city", "CITY")),
    "describe": Neighbour(command("workloads", "describe", "NAME")),
    "down": Neighbour(command("local", "down")),
    "events": Neighbour(command("why", "NAME")),
    "exec": Neighbour(command("logs", "NAME"), _NO_SHELL),
    "get": Neighbour(command("workloads")),
    "history": Neighbour(command("rollout", "history", "NAME")),
    "info": Neighbour(command("status", "NAME")),
    "launch": Neighbour(command("deploy", "NAME", "--image", "IMAGE", "--city", "CITY")),
    "list": Neighbour(command("workloads")),
    "login": Neighbour(command("access"), "datumctl signs in"),
    "ls": Neighbour(command("workloads")),
    "machines": Neighbour(command("instances")),
    "open": Neighbour(command("instances"), "it shows their addresses"),
    "pods": Neighbour(command("instances")),
    "remove": Neighbour(command("destroy", "NAME")),
    "rm": Neighbour(command("destroy", "NAME")),
    "run": Neighbour(command("deploy", "NAME", "--image", "IMAGE", "--city", "CITY")),
    "secrets": Neighbour(command("deploy", "NAME", "--env", "KEY=VALUE")),
    "services": Neighbour(command("workloads")),
    "sizes": Neighbour(command("instance-types")),
    "ssh": Neighbour(command("logs", "NAME"), _NO_SHELL),
    "top": Neighbour(command("quota")),
    "undo": Neighbour(command("rollout", "undo", "NAME")),
    "up": Neighbour(command("local", "up", "--detach")),
}
"""Words of Fly, Heroku and kubectl users that have no exact counterpart."""


def expand_alias(words: Sequence[str], position: int) -> list[str]:
    """``words`` with the alias at ``position`` replaced by the command it stands for."""
    own = ALIASES.get(words[position], (words[position],))
    return [*words[:position], *own, *words[position + 1 :]]


def unknown_word(word: str) -> CommandError | None:
    """An error that names what comes near; none for a word that is in no table."""
    found = NEIGHBOURS.get(word)
    if found is None:
        return None
    verb = " ".join(each for each in found.near.words if each.islower() and each[0] != "-")
    remark = f" ({found.remark})" if found.remark else ""
    return usage(f'unknown command "{word}"; you may look for "{verb}"{remark}', found.near)
