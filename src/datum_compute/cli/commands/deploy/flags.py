"""The flags of ``deploy`` that describe a workload, in one table.

A row has the flag as the parser takes it, what is wrong with a value, and what a value changes
in a manifest. A new flag is a row of :data:`FLAGS` and its field of :class:`Flags`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from datum_compute.api.compute.constants import ANNOTATION_HTTP_PORT
from datum_compute.api.compute.instance_types import full_name
from datum_compute.api.name_patterns import PORT_NAME, PORT_NAME_LIMIT
from datum_compute.cli.arguments import OneOf, parse_integer
from datum_compute.cli.commands.deploy import data
from datum_compute.cli.errors import usage
from datum_compute.cli.explain.suggestions import AddFlag, command
from datum_compute.cli.names import NAME_RULE, is_name
from datum_compute.cli.rollout import policy

Json = dict[str, Any]


class Flag(NamedTuple):
    """One flag: how the command line takes it, and what it changes in a manifest."""

    name: str
    field: str
    """Its field of :class:`Flags`."""
    change: Callable[[Json, Any], None]
    """Puts a value into a manifest."""
    help: str
    metavar: str | None = None
    repeatable: bool = False
    type: Callable[[str], Any] = str
    dest: str | None = None
    """Where the parser keeps it; by default under its name."""
    read: Callable[[Any], Any] | None = None
    """Makes the value from what the parser has."""
    check: Callable[[Any], None] = lambda _: None
    """Refuses empty values, which a script passes when one of its variables is not set."""
    of_container: bool = True
    """Whether it changes the container, which a virtual machine does not have."""
    order: int = 0
    """When it changes a manifest: new keys of the container are added in this order."""
    switch: bool = False
    """Whether it has no value: ``--no-`` before its name is the opposite, unless that is how the
    name begins."""

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        if self.switch and self.name.startswith("--no-"):
            parser.add_argument(self.name, action="store_true", default=None, help=self.help)
            return
        if self.switch:
            action = argparse.BooleanOptionalAction
            parser.add_argument(self.name, action=action, default=None, help=self.help)
            return
        parser.add_argument(
            self.name,
            action="append" if self.repeatable else "store",
            dest=self._dest,
            metavar=self.metavar,
            type=self.type,
            help=self.help,
        )

    def value(self, args: argparse.Namespace) -> Any:
        found = getattr(args, self._dest)
        if self.read is not None:
            return self.read(found)
        return tuple(found or ()) if self.repeatable else found

    @property
    def _dest(self) -> str:
        return self.dest or self.name.removeprefix("--").replace("-", "_")


class Flags(NamedTuple):
    """The values of the flags; None or empty where one was not given."""

    image: str | None = None
    cities: tuple[str, ...] | None = None
    added_cities: tuple[str, ...] | None = None
    removed_cities: tuple[str, ...] | None = None
    minimum: int | None = None
    instance_type: str | None = None
    ports: tuple[str, ...] = ()
    http_port: str | None = None
    no_http: bool | None = None
    env: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    network: str | None = None
    labels: tuple[str, ...] = ()
    env_from: tuple[str, ...] = ()
    env_secrets: tuple[str, ...] = ()
    env_config: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    roll_on_config_change: bool | None = None
    sleep_after: str | None = None
    waves: str | None = None
    soak: str | None = None
    gate: str | None = None
    on_failure: str | None = None

    @property
    def given(self) -> dict[Flag, Any]:
        """The flags that were given, with their values."""
        values = {flag: getattr(self, flag.field) for flag in FLAGS}
        return {flag: value for flag, value in values.items() if value not in (None, ())}


def flags_of(args: argparse.Namespace) -> Flags:
    return Flags(**{flag.field: flag.value(args) for flag in FLAGS})


def change(workload: Json, flags: Flags) -> None:
    """Change what the flags mention, and nothing else."""
    for flag in FLAGS:
        if (value := getattr(flags, flag.field)) is not None:
            flag.check(value)
    if flags.waves == policy.NONE:
        for flag in flags.given:
            if flag.field in ("soak", "gate", "on_failure"):
                raise usage(f"{flag.name} cannot be combined with --waves none, which removes it")
    if flags.http_port is not None and flags.no_http:
        raise usage("--http-port and --no-http cannot be combined")
    for name, cities in (("--city", flags.cities), ("--add-city", flags.added_cities)):
        both = [city for city in cities or () if city in (flags.removed_cities or ())]
        if both:
            raise usage(f"{name} and --remove-city both name {', '.join(both)}")
    if not data.containers_of(workload):
        refused = sorted(flag.name for flag in flags.given if flag.of_container)
        if refused:
            raise usage(
                f"{', '.join(refused)}: this workload runs virtual machines, not containers",
                AddFlag("-f", "FILE"),
            )
    for flag in sorted(flags.given, key=lambda each: each.order):
        flag.change(workload, flags.given[flag])


def _change_image(workload: Json, image: str) -> None:
    data.container_of(workload)["image"] = image


def _check_image(image: str) -> None:
    if not image or not image.isprintable():
        raise usage(
            "--image: expected an image name",
            AddFlag("--image", "registry.example/acme/app:1"),
        )
    if " " in image:
        raise usage(f'--image "{image}": an image name cannot contain spaces')
    if not _IMAGE.fullmatch(image):
        raise usage(
            f'--image "{image}": expected [REGISTRY/]NAME[:TAG][@DIGEST] with NAME in lower case',
            AddFlag("--image", "registry.example/acme/app:1"),
        )


_NAME = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?{_NAME}(?:/{_NAME})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9.+_-]*:[0-9a-fA-F]{32,})?"
)
"""The references that engines and kubelets can parse."""


def _read_cities(entries: Sequence[str] | None) -> tuple[str, ...] | None:
    if entries is None:
        return None
    cities = [city.strip().upper() for entry in entries for city in entry.split(",")]
    return tuple(dict.fromkeys(city for city in cities if city))


_SIGNS = {"+": "--add-city", "-": "--remove-city"}


def _check_cities(flag: str) -> Callable[[Sequence[str]], None]:
    def check(cities: Sequence[str]) -> None:
        if not cities:
            raise usage(f"{flag}: expected at least one city", AddFlag(flag, "DFW,LHR"))
        for city in cities:
            if change := _SIGNS.get(city[0]):
                raise usage(
                    f'{flag} "{city}": expected a city code; {flag} replaces the cities of the'
                    f" workload, {change} changes them",
                    AddFlag(change, city[1:]),
                )

    return check


def _placement(workload: Json, flag: str) -> Json:
    """The only placement."""
    placements: list[Json] = workload["spec"]["placements"]
    if len(placements) > 1:
        names = ", ".join(p["name"] for p in placements)
        raise usage(
            f"{flag} is ambiguous: the workload has several placements ({names})",
            AddFlag("-f", "FILE"),
        )
    return placements[0]


def _change_cities(workload: Json, cities: Sequence[str]) -> None:
    placement = _placement(workload, "--city")
    stored = {city.upper(): city for city in placement["cityCodes"]}
    placement["cityCodes"] = [stored.get(city, city) for city in cities]


def _add_cities(workload: Json, cities: Sequence[str]) -> None:
    placement = _placement(workload, "--add-city")
    stored = {city.upper() for city in placement["cityCodes"]}
    placement["cityCodes"] += [city for city in cities if city not in stored]


def _remove_cities(workload: Json, cities: Sequence[str]) -> None:
    placement = _placement(workload, "--remove-city")
    stored = placement["cityCodes"]
    name = workload["metadata"]["name"]
    for city in cities:
        if city not in {each.upper() for each in stored}:
            known = ", ".join(stored)
            raise usage(f'--remove-city "{city}": workload "{name}" runs only in {known}')
    placement["cityCodes"] = [city for city in stored if city.upper() not in cities]
    if not placement["cityCodes"]:
        raise usage(f'--remove-city would leave "{name}" without a city', command("destroy", name))


def _read_minimum(minimum: int | None) -> int | None:
    if minimum is not None and not 1 <= minimum <= 1000:
        raise usage(f"--min {minimum}: expected a number from 1 to 1000", AddFlag("--min", "1"))
    return minimum


def _change_minimum(workload: Json, minimum: int) -> None:
    for placement in workload["spec"]["placements"]:
        placement["scaleSettings"]["minReplicas"] = minimum


def _check_instance_type(name: str) -> None:
    if not name.strip():
        raise usage(
            "--instance-type: expected an instance type",
            AddFlag("--instance-type", "d1-standard-2"),
        )


def _change_instance_type(workload: Json, name: str) -> None:
    data.template_of(workload)["runtime"].setdefault("resources", {})["instanceType"] = full_name(
        name
    )


def _check_network(network: str) -> None:
    if not is_name(network):
        raise usage(f'--network "{network}": expected a network name: {NAME_RULE}')


def _change_network(workload: Json, network: str) -> None:
    data.template_of(workload)["networkInterfaces"] = [{"network": {"name": network}}]


def _check_command(words: Sequence[str]) -> None:
    if words and not words[0]:
        raise usage("--command: expected the name of a program", AddFlag("--command", "WORD"))


def _change_words(key: str) -> Callable[[Json, Sequence[str]], None]:
    """Sets a list of words of the container; ``-`` alone removes it."""

    def change_words(workload: Json, words: Sequence[str]) -> None:
        container = data.container_of(workload)
        if tuple(words) == ("-",):
            container.pop(key, None)
        else:
            container[key] = list(words)

    return change_words


def _change_env(workload: Json, entries: Sequence[str]) -> None:
    for entry in entries:
        _change_variable(data.container_of(workload), entry)


def _change_variable(container: Json, entry: str) -> None:
    name, assigned, value = entry.partition("=")
    if not assigned and not name.endswith("-"):
        raise usage(
            f'--env "{entry}": expected NAME=VALUE, or NAME- to remove',
            AddFlag("--env", "NAME=VALUE"),
        )
    name = name if assigned else name[:-1]
    if not data.VARIABLE.fullmatch(name):
        raise usage(
            f'--env "{entry}": "{name}" is not a valid variable name: {data.VARIABLE_RULE}',
            AddFlag("--env", "NAME=VALUE"),
        )
    data.set_variable(container, name, {"value": value} if assigned else None)


def _change_labels(workload: Json, entries: Sequence[str]) -> None:
    for entry in entries:
        _change_label(workload["metadata"], entry)


def _change_label(metadata: Json, entry: str) -> None:
    name, assigned, value = entry.partition("=")
    if not assigned and not name.endswith("-"):
        raise usage(
            f'--label "{entry}": expected K=V, or K- to remove', AddFlag("--label", "team=web")
        )
    labels = dict(metadata.get("labels") or {})
    if assigned:
        labels[name] = value
    else:
        labels.pop(name[:-1], None)
    metadata["labels"] = labels


def _change_ports(workload: Json, texts: Sequence[str]) -> None:
    """``NAME=N`` and ``N`` set a port, ``NAME-`` and ``N-`` remove one; others stay."""
    container = data.container_of(workload)
    asked = _ports([text for text in texts if not text.endswith("-")])
    removed = {text[:-1] for text in texts if text.endswith("-")}
    there = container.get("ports") or []
    known = {str(each) for port in there for each in (port["name"], port["port"])}
    for name in sorted(removed - known):
        has = ", ".join(f"{port['name']} ({port['port']})" for port in there) or "none"
        raise usage(f'--port "{name}-": no such port; the workload has {has}')
    ports = [p for p in there if not removed & {p["name"], str(p["port"])}]
    for port in asked:
        same = next((i for i, p in enumerate(ports) if p["name"] == port["name"]), None)
        taken = next((p for p in ports if p["port"] == port["port"]), None)
        if same is not None:
            ports[same] = {**ports[same], **port}
        elif taken is None:
            ports.append(port)
        elif port["name"] != f"port-{port['port']}":  # a bare number keeps the existing name
            raise usage(
                f'--port "{port["name"]}={port["port"]}": port {port["port"]} is already'
                f' named "{taken["name"]}"',
                AddFlag("--port", f"{taken['name']}-"),
            )
    container["ports"] = ports


def _check_http_port(text: str) -> None:
    if not _is_port(text):
        raise usage(
            f'--http-port "{text}": expected a number from 1 to 65535',
            AddFlag("--http-port", "8080"),
        )


def _change_http_port(workload: Json, text: str) -> None:
    """The port is declared too, since others are not opened."""
    notes = workload["metadata"].get("annotations") or {}
    workload["metadata"]["annotations"] = {**notes, ANNOTATION_HTTP_PORT: str(int(text))}
    if not data.containers_of(workload):
        return
    container = data.container_of(workload)
    ports = container.get("ports") or []
    if all(port["port"] != int(text) for port in ports):
        taken = any(port["name"] == "http" for port in ports)
        name = f"port-{int(text)}" if taken else "http"
        container["ports"] = [*ports, {"name": name, "port": int(text)}]


def _remove_http(workload: Json, _: bool) -> None:
    notes = {**(workload["metadata"].get("annotations") or {})}
    if notes.pop(ANNOTATION_HTTP_PORT, None) is not None:
        workload["metadata"]["annotations"] = notes


def _ports(texts: Sequence[str]) -> list[Json]:
    ports = [_port(text) for text in texts]
    for key in ("name", "port"):
        values = [port[key] for port in ports]
        for value in dict.fromkeys(values):
            if values.count(value) > 1:
                raise usage(
                    f'--port: "{value}" is given more than once', AddFlag("--port", "http=8080")
                )
    return ports


def _port(text: str) -> Json:
    name, named, number = text.rpartition("=")
    if not _is_port(number):
        raise usage(
            f'--port "{text}": expected a number from 1 to 65535', AddFlag("--port", "http=8080")
        )
    valid = len(name) <= PORT_NAME_LIMIT and re.fullmatch(PORT_NAME, name)
    if named and not valid:
        raise usage(
            f'--port "{text}": "{name}" is not a valid port name: use at most {PORT_NAME_LIMIT}'
            ' lower-case letters and digits, with a letter among them and single "-" between them',
            AddFlag("--port", "http=8080"),
        )
    return {"name": name if named else f"port-{int(number)}", "port": int(number)}


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= 65535


FLAGS = (
    Flag("--image", "image", _change_image, "container image", check=_check_image),
    Flag(
        "--city",
        "cities",
        _change_cities,
        "city to run in, instead of the current ones; repeatable or comma-separated",
        metavar="CITY",
        repeatable=True,
        read=_read_cities,
        check=_check_cities("--city"),
        of_container=False,
    ),
    Flag(
        "--add-city",
        "added_cities",
        _add_cities,
        "city to add to those of the workload; repeatable or comma-separated",
        metavar="CITY",
        repeatable=True,
        read=_read_cities,
        check=_check_cities("--add-city"),
        of_container=False,
    ),
    Flag(
        "--remove-city",
        "removed_cities",
        _remove_cities,
        "city to remove, with its instances; repeatable or comma-separated",
        metavar="CITY",
        repeatable=True,
        read=_read_cities,
        check=_check_cities("--remove-city"),
        of_container=False,
    ),
    Flag(
        "--min",
        "minimum",
        _change_minimum,
        "instances per city",
        metavar="N",
        type=parse_integer,
        dest="minimum",
        read=_read_minimum,
        of_container=False,
    ),
    Flag(
        "--instance-type",
        "instance_type",
        _change_instance_type,
        "size of each instance (default: d1-standard-2)",
        metavar="TYPE",
        check=_check_instance_type,
        of_container=False,
    ),
    Flag(
        "--port",
        "ports",
        _change_ports,
        "port of the container; NAME- removes it; repeatable",
        metavar="[NAME=]N|NAME-",
        repeatable=True,
        order=2,
    ),
    Flag(
        "--http-port",
        "http_port",
        _change_http_port,
        "port that serves HTTP: the workload gets a URL",
        metavar="N",
        check=_check_http_port,
        of_container=False,
        order=4,
    ),
    Flag(
        "--no-http",
        "no_http",
        _remove_http,
        "serve no HTTP: the URL is removed",
        of_container=False,
        switch=True,
    ),
    Flag(
        "--env",
        "env",
        _change_env,
        "environment variable; K- removes it; repeatable",
        metavar="K=V|K-",
        repeatable=True,
        order=1,
    ),
    Flag(
        "--env-from",
        "env_from",
        data.change_env_from,
        "every key of a ConfigMap or Secret as a variable; a trailing - removes it; repeatable",
        metavar="config/NAME|secret/NAME",
        repeatable=True,
        order=1,
    ),
    Flag(
        "--env-secret",
        "env_secrets",
        data.change_key_variables("--env-secret", "secret"),
        "variable from a key of a Secret; repeatable",
        metavar="K=NAME:KEY",
        repeatable=True,
        order=1,
    ),
    Flag(
        "--env-config",
        "env_config",
        data.change_key_variables("--env-config", "config"),
        "variable from a key of a ConfigMap; repeatable",
        metavar="K=NAME:KEY",
        repeatable=True,
        order=1,
    ),
    Flag(
        "--mount",
        "mounts",
        data.change_mounts,
        "every key of a ConfigMap or Secret as a file in this directory; config/NAME- or"
        " secret/NAME- removes it; repeatable",
        metavar="config/NAME:/PATH|secret/NAME:/PATH",
        repeatable=True,
        order=3,
    ),
    Flag(
        "--pull-secret",
        "pull_secrets",
        data.change_pull_secrets,
        "Secret with the credential of the image's registry; NAME- removes it; repeatable",
        metavar="NAME|NAME-",
        repeatable=True,
    ),
    Flag(
        "--roll-on-config-change",
        "roll_on_config_change",
        data.change_roll,
        "replace every instance when a ConfigMap or Secret that the workload names changes",
        of_container=False,
        switch=True,
    ),
    Flag(
        "--sleep-after",
        "sleep_after",
        data.change_sleep_after,
        "let an instance sleep after this long without a connection; the next connection wakes"
        " it; never turns this off",
        metavar="DURATION|never",
        check=data.check_sleep_after,
        order=5,
    ),
    Flag(
        "--command",
        "command",
        _change_words("command"),
        "entrypoint instead of the image's; repeat for each word; - restores the image's",
        metavar="WORD",
        repeatable=True,
        dest="container_command",
        check=_check_command,
    ),
    Flag(
        "--arg",
        "args",
        _change_words("args"),
        "argument of the command; repeatable; - restores the image's",
        metavar="WORD",
        repeatable=True,
        dest="container_args",
    ),
    Flag(
        "--network",
        "network",
        _change_network,
        "network to attach to (default: default)",
        check=_check_network,
        of_container=False,
    ),
    Flag(
        "--waves",
        "waves",
        policy.change_waves,
        "update the cities in waves, with a comma between waves and a plus between the cities of"
        " one; each: one city after the other; none: all at once",
        metavar="DFW,IAD+LHR|each|none",
        of_container=False,
    ),
    Flag(
        "--soak",
        "soak",
        policy.change_soak,
        "how long a wave must stay ready before the next one opens",
        metavar="DURATION",
        check=policy.check_soak,
        of_container=False,
        order=1,
    ),
    Flag(
        "--gate",
        "gate",
        policy.change_gate,
        "condition of the workload that must be True before the next wave; none removes it",
        metavar="TYPE",
        of_container=False,
        order=1,
    ),
    Flag(
        "--on-failure",
        "on_failure",
        policy.change_on_failure,
        "what the rollout does when a wave fails (default: pause)",
        metavar="|".join(policy.ON_FAILURE),
        type=OneOf("--on-failure", policy.ON_FAILURE),
        of_container=False,
        order=1,
    ),
    Flag(
        "--label",
        "labels",
        _change_labels,
        "label of the workload; K- removes it; repeatable",
        metavar="K=V|K-",
        repeatable=True,
        of_container=False,
    ),
)
"""In the order of the help."""
