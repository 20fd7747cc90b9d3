"""What the flags of ``deploy`` about ConfigMaps and Secrets, and about sleep, change in a manifest.

``config/NAME`` and ``secret/NAME`` name one; a trailing ``-`` removes what names it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from datum_compute.api.compute.constants import (
    ANNOTATION_ROLL_ON_CONFIG_CHANGE,
    ANNOTATION_SLEEP_AFTER,
    ANNOTATION_UNIKRAFT_POLICY,
)
from datum_compute.api.name_patterns import LABEL_LIMIT
from datum_compute.cli.arguments import parse_duration
from datum_compute.cli.errors import usage
from datum_compute.cli.explain.suggestions import AddFlag
from datum_compute.cli.names import is_name

Json = dict[str, Any]

NEVER = "never"
VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
VARIABLE_RULE = 'use letters, digits, "_", "-" and ".", not beginning with a digit'


class SourceFields(NamedTuple):
    """How the API names a kind of data in each place."""

    all_keys: str
    one_key: str
    volume: str
    volume_name: str


SOURCES = {
    "config": SourceFields("configMapRef", "configMapKeyRef", "configMap", "name"),
    "secret": SourceFields("secretRef", "secretKeyRef", "secret", "secretName"),
}


def template_of(workload: Json) -> Json:
    found: Json = workload["spec"]["template"]["spec"]
    return found


def containers_of(workload: Json) -> list[Json]:
    return (template_of(workload)["runtime"].get("sandbox") or {}).get("containers") or []


def container_of(workload: Json) -> Json:
    """The container that flags change: the first."""
    return containers_of(workload)[0]


def set_variable(container: Json, name: str, content: Json | None) -> None:
    """Give a variable a value or a source, or remove it. A changed one keeps its place."""
    present = container.get("env") or []
    variables = [each for each in present if each["name"] != name]
    if content is not None:
        named = (i for i, each in enumerate(present) if each["name"] == name)
        variables.insert(next(named, len(variables)), {"name": name, **content})
    container["env"] = variables


def change_env_from(workload: Json, entries: Sequence[str]) -> None:
    container = container_of(workload)
    for entry in entries:
        source = _source(entry)
        if source is None:
            raise usage(
                f'--env-from "{entry}": expected config/NAME or secret/NAME',
                AddFlag("--env-from", "config/NAME"),
            )
        kind, name, removed = source
        reference = {SOURCES[kind].all_keys: {"name": name}}
        there = container.get("envFrom") or []
        same = [each for each in there if _names(each, reference)]
        if removed:
            _require("--env-from", entry, same)
            container["envFrom"] = [each for each in there if each not in same]
        elif not same:
            container["envFrom"] = [*there, reference]


def _names(each: Json, reference: Json) -> bool:
    """Whether an item names the same object, with or without options of its own."""
    return all((each.get(key) or {}).get("name") == one["name"] for key, one in reference.items())


def change_key_variables(flag: str, kind: str) -> Callable[[Json, Sequence[str]], None]:
    """``VARIABLE=NAME:KEY``: one key of an object as a variable."""

    def change(workload: Json, entries: Sequence[str]) -> None:
        for entry in entries:
            variable, assigned, rest = entry.partition("=")
            name, has_key, key = rest.partition(":")
            if not (assigned and has_key and key and is_name(name)):
                raise usage(
                    f'{flag} "{entry}": expected VARIABLE=NAME:KEY', AddFlag(flag, "K=NAME:KEY")
                )
            if not VARIABLE.fullmatch(variable):
                raise usage(
                    f'{flag} "{entry}": "{variable}" is not a valid variable name: {VARIABLE_RULE}'
                )
            source = {SOURCES[kind].one_key: {"name": name, "key": key}}
            set_variable(container_of(workload), variable, {"valueFrom": source})

    return change


def change_mounts(workload: Json, entries: Sequence[str]) -> None:
    """``config/NAME:/path``: every key of an object as a file in a directory."""
    for entry in entries:
        text, separated, path = entry.partition(":")
        source = _source(text)
        if (
            source is None
            or bool(separated) == source.removed
            or (separated and not path.startswith("/"))
        ):
            raise usage(
                f'--mount "{entry}": expected config/NAME:/PATH or secret/NAME:/PATH,'
                " or config/NAME- to remove",
                AddFlag("--mount", "config/NAME:/PATH"),
            )
        kind, name, removed = source
        if removed:
            _unmount(workload, kind, name, entry)
        else:
            _mount(workload, kind, name, path)


def _mount(workload: Json, kind: str, name: str, path: str) -> None:
    template, container = template_of(workload), container_of(workload)
    volumes = template.get("volumes") or []
    attachments = container.get("volumeAttachments") or []
    attached = {each["name"] for each in attachments}
    same = [each["name"] for each in volumes if _is_of(each, kind, name)]
    volume = next((each for each in same if each in attached), next(iter(same), ""))
    if not volume:
        volume = _volume_name(kind, name, {each["name"] for each in volumes})
        source = SOURCES[kind]
        template["volumes"] = [
            *volumes,
            {"name": volume, source.volume: {source.volume_name: name}},
        ]
    if volume in attached:
        attachments = [
            {**each, "mountPath": path} if each["name"] == volume else each for each in attachments
        ]
    else:
        attachments = [*attachments, {"name": volume, "mountPath": path}]
    container["volumeAttachments"] = attachments


def _unmount(workload: Json, kind: str, name: str, entry: str) -> None:
    template, container = template_of(workload), container_of(workload)
    volumes = template.get("volumes") or []
    same = {each["name"] for each in volumes if _is_of(each, kind, name)}
    attachments = container.get("volumeAttachments") or []
    _require("--mount", entry, [each for each in attachments if each["name"] in same])
    container["volumeAttachments"] = [each for each in attachments if each["name"] not in same]
    used = {
        each["name"]
        for one in containers_of(workload)
        for each in one.get("volumeAttachments") or []
    }
    template["volumes"] = [
        each for each in volumes if each["name"] not in same or each["name"] in used
    ]


def _is_of(volume: Json, kind: str, name: str) -> bool:
    source = SOURCES[kind]
    return (volume.get(source.volume) or {}).get(source.volume_name) == name


def _volume_name(kind: str, name: str, taken: set[str]) -> str:
    """A name that no volume has: the object's, as a label."""
    base = f"{kind}-{name}".replace(".", "-")[: LABEL_LIMIT - 3].rstrip("-")
    names = [base, *(f"{base}-{number}" for number in range(2, len(taken) + 3))]
    return next(each for each in names if each not in taken)


def change_pull_secrets(workload: Json, names: Sequence[str]) -> None:
    sandbox = template_of(workload)["runtime"]["sandbox"]
    for entry in names:
        name = entry.removesuffix("-")
        if not is_name(name):
            raise usage(f'--pull-secret "{entry}": expected the name of a Secret')
        there = sandbox.get("imagePullSecrets") or []
        same = [each for each in there if each["name"] == name]
        if entry != name:
            _require("--pull-secret", entry, same)
            sandbox["imagePullSecrets"] = [each for each in there if each not in same]
        elif not same:
            sandbox["imagePullSecrets"] = [*there, {"name": name}]


def change_roll(workload: Json, rolls: bool) -> None:
    template: Json = workload["spec"]["template"]
    metadata = template.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {})}
    annotations.pop(ANNOTATION_ROLL_ON_CONFIG_CHANGE, None)
    if rolls:
        annotations[ANNOTATION_ROLL_ON_CONFIG_CHANGE] = "true"
    template["metadata"] = {**metadata, "annotations": annotations}


def check_sleep_after(text: str) -> None:
    try:
        valid = text == NEVER or parse_duration(text) >= 1
    except argparse.ArgumentTypeError:
        valid = False
    if not valid:
        raise usage(
            f'--sleep-after "{text}": expected a duration of 1s or more, or {NEVER}',
            AddFlag("--sleep-after", "5m"),
        )


def change_sleep_after(workload: Json, text: str) -> None:
    """``never`` is written only where the annotations of Unikraft let it sleep otherwise."""
    if text != NEVER and not any(each.get("ports") for each in containers_of(workload)):
        raise usage(
            f"--sleep-after {text}: a container needs a port: a connection to it wakes an instance",
            AddFlag("--http-port", "8080"),
            AddFlag("--port", "8080"),
        )
    template: Json = workload["spec"]["template"]
    metadata = template.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {})}
    annotations.pop(ANNOTATION_SLEEP_AFTER, None)
    if text != NEVER or annotations.get(ANNOTATION_UNIKRAFT_POLICY) == "on":
        annotations[ANNOTATION_SLEEP_AFTER] = text
    template["metadata"] = {**metadata, "annotations": annotations}


class _Source(NamedTuple):
    """``config/NAME`` or ``secret/NAME``, and whether it ends with ``-``."""

    kind: str
    name: str
    removed: bool


def _source(text: str) -> _Source | None:
    kind, _, name = text.partition("/")
    removed = name.endswith("-")
    name = name.removesuffix("-")
    if kind not in SOURCES or not is_name(name):
        return None
    return _Source(kind, name, removed)


def _require(flag: str, entry: str, found: Sequence[Json]) -> None:
    if not found:
        raise usage(f'{flag} "{entry}": the workload does not use it')
