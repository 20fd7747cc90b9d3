"""A workload as flags describe it.

Flags build a new workload, or change the parts of an existing one they mention and no
others; a trailing ``-`` removes. The container is ``app`` and the placement ``default``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute.instance_types import INSTANCE_TYPE_D1_STANDARD_2, full_name
from datum_compute.api.name_patterns import PORT_NAME, PORT_NAME_LIMIT
from datum_compute.cli.errors import usage
from datum_compute.cli.explain.suggestions import AddFlag
from datum_compute.cli.names import is_name
from datum_compute.cli.tables import WORKLOADS

API_VERSION = WORKLOADS.api_version
CONTAINER = "app"
PLACEMENT = "default"

Workload = dict[str, Any]

_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


@dataclass(frozen=True)
class Flags:
    """The flags that describe a workload; None where one was not given."""

    image: str | None = None
    cities: tuple[str, ...] | None = None
    minimum: int | None = None
    instance_type: str | None = None
    ports: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    network: str | None = None
    labels: tuple[str, ...] = ()

    @property
    def given(self) -> list[str]:
        names = {
            "minimum": "min",
            "cities": "city",
            "ports": "port",
            "args": "arg",
            "labels": "label",
        }
        return [
            "--" + names.get(name, name).replace("_", "-")
            for name, value in vars(self).items()
            if value not in (None, ())
        ]


def new_workload(name: str, flags: Flags) -> Workload:
    if not flags.image:
        raise usage(
            f'workload "{name}" does not exist yet, so it needs an image',
            AddFlag("--image", "IMAGE"),
        )
    if not flags.cities:
        raise usage(
            f'workload "{name}" does not exist yet, so it needs a city',
            AddFlag("--city", "DFW,LHR"),
        )
    workload: Workload = {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": INSTANCE_TYPE_D1_STANDARD_2},
                        "sandbox": {"containers": [{"name": CONTAINER, "image": flags.image}]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                }
            },
            "placements": [
                {
                    "name": PLACEMENT,
                    "cityCodes": [],
                    "scaleSettings": {"minReplicas": 1},
                }
            ],
        },
    }
    return changed_workload(workload, flags)


def changed_workload(workload: Workload, flags: Flags) -> Workload:
    """A copy of ``workload`` with what the flags mention changed, and nothing else."""
    _check(flags)
    changed = copy.deepcopy(workload)
    template = changed["spec"]["template"]["spec"]
    _change_container(_first_container(template, flags), flags)
    if flags.instance_type is not None:
        resources = template["runtime"].setdefault("resources", {})
        resources["instanceType"] = _full_type(flags.instance_type)
    if flags.network is not None:
        template["networkInterfaces"] = [{"network": {"name": flags.network}}]
    for entry in flags.labels:
        _change_label(changed["metadata"], entry)
    placements = changed["spec"]["placements"]
    if flags.cities is not None:
        if len(placements) > 1:
            names = ", ".join(p["name"] for p in placements)
            raise usage(
                f"--city is ambiguous: the workload has several placements ({names})",
                AddFlag("-f", "FILE"),
            )
        placements[0]["cityCodes"] = list(flags.cities)
    if flags.minimum is not None:
        for placement in placements:
            placement["scaleSettings"]["minReplicas"] = flags.minimum
    return changed


def _check(flags: Flags) -> None:
    """Refuse empty values, which a script passes when one of its variables is not set."""
    if flags.image is not None and (not flags.image or not flags.image.isprintable()):
        raise usage(
            "--image: expected an image name",
            AddFlag("--image", "registry.example/acme/app:1"),
        )
    if flags.image is not None and " " in flags.image:
        raise usage(f'--image "{flags.image}": an image name cannot contain spaces')
    if flags.cities == ():
        raise usage("--city: expected at least one city", AddFlag("--city", "DFW,LHR"))
    if flags.instance_type is not None and not flags.instance_type.strip():
        raise usage(
            "--instance-type: expected an instance type",
            AddFlag("--instance-type", "d1-standard-2"),
        )
    if flags.network is not None and not is_name(flags.network):
        raise usage(f'--network "{flags.network}": expected a network name')


def _first_container(template: dict[str, Any], flags: Flags) -> dict[str, Any]:
    containers = (template["runtime"].get("sandbox") or {}).get("containers")
    if containers:
        found: dict[str, Any] = containers[0]
        return found
    about_containers = {"--image", "--env", "--port", "--command", "--arg"} & set(flags.given)
    if about_containers:
        flag = ", ".join(sorted(about_containers))
        raise usage(
            f"{flag}: this workload runs virtual machines, not containers", AddFlag("-f", "FILE")
        )
    return {}


def _change_container(container: dict[str, Any], flags: Flags) -> None:
    if flags.image is not None:
        container["image"] = flags.image
    for key, tokens in (("command", flags.command), ("args", flags.args)):
        if tokens == ("-",):
            container.pop(key, None)
        elif tokens:
            container[key] = list(tokens)
    for entry in flags.env:
        _change_variable(container, entry)
    _change_ports(container, flags.ports)


def _change_variable(container: dict[str, Any], entry: str) -> None:
    name, assigned, value = entry.partition("=")
    if not assigned and not name.endswith("-"):
        raise usage(
            f'--env "{entry}": expected NAME=VALUE, or NAME- to remove',
            AddFlag("--env", "NAME=VALUE"),
        )
    name = name if assigned else name[:-1]
    if not _VARIABLE.fullmatch(name):
        raise usage(
            f'--env "{entry}": "{name}" is not a valid variable name',
            AddFlag("--env", "NAME=VALUE"),
        )
    variables = [v for v in container.get("env") or [] if v["name"] != name]
    if assigned:
        position = _position(container.get("env") or [], name)
        variables.insert(position, {"name": name, "value": value})
    container["env"] = variables


def _position(variables: Sequence[dict[str, Any]], name: str) -> int:
    """The position of a variable, so that a changed one keeps its place."""
    return next((i for i, v in enumerate(variables) if v["name"] == name), len(variables))


def _change_label(metadata: dict[str, Any], entry: str) -> None:
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


def _change_ports(container: dict[str, Any], texts: Sequence[str]) -> None:
    """``NAME=N`` and ``N`` set a port, ``NAME-`` and ``N-`` remove one; others stay."""
    if not texts:
        return
    asked = _ports([text for text in texts if not text.endswith("-")])
    removed = {text[:-1] for text in texts if text.endswith("-")}
    there = container.get("ports") or []
    known = {str(each) for port in there for each in (port["name"], port["port"])}
    for name in sorted(removed - known):
        raise usage(f'--port "{name}-": no such port')
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
                f'--port "{port["name"]}={port["port"]}": the number belongs to port'
                f' "{taken["name"]}"',
                AddFlag("--port", f"{taken['name']}-"),
            )
    container["ports"] = ports


def _ports(texts: Sequence[str]) -> list[dict[str, Any]]:
    ports = [_port(text) for text in texts]
    for key in ("name", "port"):
        values = [port[key] for port in ports]
        for value in dict.fromkeys(values):
            if values.count(value) > 1:
                raise usage(
                    f'--port: "{value}" is given more than once', AddFlag("--port", "http=8080")
                )
    return ports


def _port(text: str) -> dict[str, Any]:
    name, named, number = text.rpartition("=")
    if not _is_port(number):
        raise usage(
            f'--port "{text}": expected a number from 1 to 65535', AddFlag("--port", "http=8080")
        )
    valid = len(name) <= PORT_NAME_LIMIT and re.fullmatch(PORT_NAME, name)
    if named and not valid:
        raise usage(
            f'--port "{text}": "{name}" is not a valid port name', AddFlag("--port", "http=8080")
        )
    return {"name": name if named else f"port-{int(number)}", "port": int(number)}


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= 65535


def _full_type(name: str) -> str:
    return full_name(name)
