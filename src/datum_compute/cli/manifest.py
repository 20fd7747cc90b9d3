"""A workload as flags or a file describe it.

Flags build a new workload, or change the parts of an existing one they mention and no
others; a trailing ``-`` removes. The container is ``app`` and the placement ``default``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from datum_compute.cli.errors import usage

API_VERSION = "compute.datumapis.com/v1alpha"
DEFAULT_TYPE = "datumcloud/d1-standard-2"
CONTAINER = "app"
PLACEMENT = "default"

Workload = dict[str, Any]

_PORT_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")


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

    @property
    def given(self) -> list[str]:
        names = {"minimum": "min", "cities": "city", "ports": "port"}
        return [
            "--" + names.get(name, name).replace("_", "-")
            for name, value in vars(self).items()
            if value not in (None, ())
        ]


def new_workload(name: str, flags: Flags) -> Workload:
    if not flags.image:
        raise usage(f'workload "{name}" does not exist yet, so it needs an image', "--image IMAGE")
    if not flags.cities:
        raise usage(f'workload "{name}" does not exist yet, so it needs a city', "--city DFW,LHR")
    workload: Workload = {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": DEFAULT_TYPE},
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
    changed = copy.deepcopy(workload)
    template = changed["spec"]["template"]["spec"]
    _change_container(_first_container(template, flags), flags)
    if flags.instance_type is not None:
        resources = template["runtime"].setdefault("resources", {})
        resources["instanceType"] = _full_type(flags.instance_type)
    if flags.network is not None:
        template["networkInterfaces"] = [{"network": {"name": flags.network}}]
    placements = changed["spec"]["placements"]
    if flags.cities is not None:
        if len(placements) > 1:
            names = ", ".join(p["name"] for p in placements)
            raise usage(f"--city is ambiguous: there are several placements ({names})", "-f FILE")
        placements[0]["cityCodes"] = list(flags.cities)
    if flags.minimum is not None:
        for placement in placements:
            placement["scaleSettings"]["minReplicas"] = flags.minimum
    return changed


def _first_container(template: dict[str, Any], flags: Flags) -> dict[str, Any]:
    containers = (template["runtime"].get("sandbox") or {}).get("containers")
    if containers:
        found: dict[str, Any] = containers[0]
        return found
    about_containers = {"--image", "--env", "--port", "--command", "--args"} & set(flags.given)
    if about_containers:
        flag = ", ".join(sorted(about_containers))
        raise usage(f"{flag}: this workload runs virtual machines, not containers", "-f FILE")
    return {}


def _change_container(container: dict[str, Any], flags: Flags) -> None:
    if flags.image is not None:
        container["image"] = flags.image
    if flags.command:
        container["command"] = list(flags.command)
    if flags.args:
        container["args"] = list(flags.args)
    for entry in flags.env:
        _change_variable(container, entry)
    if flags.ports:
        container["ports"] = [_port(text) for text in flags.ports]


def _change_variable(container: dict[str, Any], entry: str) -> None:
    name, assigned, value = entry.partition("=")
    if not assigned and not name.endswith("-"):
        raise usage(f'--env "{entry}": expected NAME=VALUE, or NAME- to remove', "--env NAME=VALUE")
    name = name if assigned else name[:-1]
    variables = [v for v in container.get("env") or [] if v["name"] != name]
    if assigned:
        position = _position(container.get("env") or [], name)
        variables.insert(position, {"name": name, "value": value})
    container["env"] = variables


def _position(variables: Sequence[dict[str, Any]], name: str) -> int:
    """Where a variable stands, so that a changed one keeps its place."""
    return next((i for i, v in enumerate(variables) if v["name"] == name), len(variables))


def _port(text: str) -> dict[str, Any]:
    name, named, number = text.rpartition("=")
    if not number.isdecimal() or not 1 <= int(number) <= 65535:
        raise usage(f'--port "{text}": expected a number from 1 to 65535', "--port http=8080")
    if named and not _PORT_NAME.match(name):
        raise usage(f'--port "{text}": "{name}" is not a valid port name', "--port http=8080")
    return {"name": name if named else f"port-{number}", "port": int(number)}


def _full_type(name: str) -> str:
    return name if "/" in name else f"datumcloud/{name}"


def load(path: str, stdin: TextIO) -> list[Workload]:
    """The workloads in a file of one or more YAML or JSON documents; ``-`` is stdin."""
    import yaml

    try:
        text = stdin.read() if path == "-" else Path(path).read_text()
        documents = [d for d in yaml.safe_load_all(text) if d is not None]
    except OSError as error:
        raise usage(f"-f {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise usage(f"-f {path}: not valid YAML or JSON: {error}") from error
    if not documents:
        raise usage(f"-f {path}: holds no document")
    return [_checked(document, f"-f {path}: document {i}") for i, document in enumerate(documents)]


def _checked(document: Any, where: str) -> Workload:
    if not isinstance(document, dict):
        raise usage(f"{where}: expected an object, found {type(document).__name__}")
    found = f"{document.get('apiVersion')} {document.get('kind')}"
    if found != f"{API_VERSION} Workload":
        raise usage(f'{where}: expected {API_VERSION} Workload, found "{found}"')
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise usage(f"{where}: metadata.name: Required value")
    if not isinstance(document.get("spec"), dict):
        raise usage(f"{where}: spec: Required value")
    return document
