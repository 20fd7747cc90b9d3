"""Workloads in files: loaded, validated and saved.

A file is read as text, parsed into documents, and checked to be workloads. The server validates
them; what cannot be sent to it is reported here, all errors at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from datum_compute.api.compute.constants import (
    ANNOTATION_LAST_CHANGE,
    ANNOTATION_ROLLOUT_ABORTED,
    ANNOTATION_ROLLOUT_PAUSED,
    ANNOTATION_ROLLOUT_PROMOTED,
    ANNOTATION_ROLLOUT_SKIPPED,
    ANNOTATION_SUSPENDED,
    ANNOTATION_SUSPENDED_BY,
    ANNOTATION_URL,
)
from datum_compute.cli.commands.deploy.documents import describe_value, documents_of
from datum_compute.cli.commands.deploy.manifest import API_VERSION, Workload
from datum_compute.cli.errors import CommandError, usage
from datum_compute.cli.explain.suggestions import AddFlag
from datum_compute.cli.names import NAME_RULE, is_name
from datum_compute.cli.tables import NAMESPACE
from datum_compute.cli.workload import with_restart
from datum_compute.decisions.admission.placements import LARGEST_COUNT

MAX_SIZE = 3 * 2**20
"""Characters of a file; the server takes no larger request."""

SERVER_ANNOTATIONS = frozenset(
    {
        ANNOTATION_LAST_CHANGE,
        ANNOTATION_ROLLOUT_ABORTED,
        ANNOTATION_ROLLOUT_PAUSED,
        ANNOTATION_ROLLOUT_PROMOTED,
        ANNOTATION_ROLLOUT_SKIPPED,
        ANNOTATION_SUSPENDED,
        ANNOTATION_SUSPENDED_BY,
        ANNOTATION_URL,
        "kubectl.kubernetes.io/last-applied-configuration",
    }
)
"""Annotations that programs set, among them those of the present rollout; saved manifests leave
them out."""


def save(path: str, workloads: Sequence[Workload]) -> None:
    """Write the workloads to a file, without what a server or a restart adds to them."""
    import yaml

    text = yaml.safe_dump_all(map(clean, workloads), sort_keys=False, allow_unicode=True)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unsaved(path, error) from error


def check_saving(path: str) -> None:
    """Raise if it cannot be written, while nothing is changed yet. A file there is left alone."""
    if path == "-":  # which is stdin for -f, and stdout has the result
        raise usage("--save -: expected the name of a file", AddFlag("--save", "FILE"))
    is_new = not os.path.lexists(path)
    try:
        with Path(path).open("ab"):
            pass
        if is_new:
            Path(path).unlink()
    except OSError as error:
        raise _unsaved(path, error) from error


def _unsaved(path: str, error: OSError) -> CommandError:
    return usage(f"--save {path}: {error.strerror}")


def clean(workload: Workload) -> Workload:
    metadata = {"name": workload["metadata"]["name"]}
    for kind in ("labels", "annotations"):
        found = workload["metadata"].get(kind) or {}
        kept = {key: value for key, value in found.items() if key not in SERVER_ANNOTATIONS}
        if kept:
            metadata[kind] = kept
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": metadata,
        "spec": with_restart(workload["spec"], None),
    }


def load(paths: Sequence[str], stdin: TextIO) -> list[Workload]:
    """The workloads in files of one or more YAML or JSON documents, in order; ``-`` is stdin.

    Each file is validated whole."""
    workloads = [workload for path in paths for workload in _load_file(path, stdin)]
    names = [w["metadata"]["name"] for w in workloads]
    for name in sorted(set(names)):
        if names.count(name) > 1:
            where = ", ".join(f"-f {path}" for path in paths)
            raise usage(f'{where}: workload "{name}" is defined more than once')
    return workloads


def _load_file(path: str, stdin: TextIO) -> list[Workload]:
    where = f"-f {path}"
    documents = documents_of(_text(path, stdin), where)
    if not documents:
        raise usage(f"{where}: contains no document")
    found = [f"document {i}: {each}" for i, d in enumerate(documents, 1) for each in faults(d)]
    if len(found) == 1:
        raise usage(f"{where}: {found[0]}")
    if found:
        raise usage("\n  ".join([f"{where} has {len(found)} errors:", *found]))
    return documents


def _text(path: str, stdin: TextIO) -> str:
    try:
        if path == "-":
            text = stdin.read(MAX_SIZE + 1)
        else:
            with Path(path).open(encoding="utf-8") as file:
                text = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise usage(f"-f {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise usage(f"-f {path}: not a UTF-8 text file") from error
    if len(text) > MAX_SIZE:
        raise usage(f"-f {path}: larger than {MAX_SIZE // 2**20} MiB, the most a server accepts")
    return text


def faults(document: Any) -> list[str]:
    """Why a document is not a workload that can be sent to a server.

    Unknown fields are left to the server, which may be newer than this program;
    if something else is wrong they are listed first, since a misspelled field is the likely
    cause."""
    if not isinstance(document, dict):
        return [f"expected an object, found {describe_value(document)}"]
    found = " ".join(str(document.get(key) or f"no {key}") for key in ("apiVersion", "kind"))
    if found != f"{API_VERSION} Workload":
        return [f'expected {API_VERSION} Workload, found "{found}"']
    missed = [*_metadata_faults(document.get("metadata")), *_spec_faults(document.get("spec"))]
    if not missed:
        return []
    from datum_compute.cli.explain.unknown_fields import unknown_fields

    return [*unknown_fields(document), *missed]


def _metadata_faults(metadata: Any) -> Iterator[str]:
    if not isinstance(metadata, dict) or not metadata.get("name"):
        yield "metadata.name: Required value"
        return
    name = metadata["name"]
    if not isinstance(name, str):
        yield f"metadata.name: {_no_string(name)}"
    elif not is_name(name):
        yield f"metadata.name: {json.dumps(name)} is not a valid name: {NAME_RULE}"
    for kind in ("labels", "annotations"):
        found = metadata.get(kind) or {}
        if not isinstance(found, dict):
            yield f"metadata.{kind}: expected an object"
            continue
        for key, value in found.items():
            if value is not None and not isinstance(value, str):
                yield f"metadata.{kind}[{key}]: {_no_string(value)}"
    namespace = metadata.get("namespace", NAMESPACE)
    if namespace != NAMESPACE:
        yield (f"metadata.namespace: expected {NAMESPACE}, found {json.dumps(namespace)}")


def _spec_faults(spec: Any) -> Iterator[str]:
    """Checks the parts that a command reads before the server validates the whole."""
    if not isinstance(spec, dict):
        yield "spec: Required value"
        return
    yield from _placement_faults(spec)
    template = spec.get("template")
    inner = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(template, dict):
        yield "spec.template: expected an object"
    elif not isinstance(inner, dict):
        yield "spec.template.spec: expected an object"
    else:
        yield from _network_faults(inner)


def _placement_faults(spec: dict[str, Any]) -> Iterator[str]:
    placements = spec.get("placements")
    if not isinstance(placements, list):
        yield "spec.placements: expected a list"
        return
    for i, placement in enumerate(placements):
        path = f"spec.placements[{i}]"
        if not isinstance(placement, dict):
            yield f"{path}: expected an object"
            continue
        cities = placement.get("cityCodes")
        if not isinstance(cities, list):
            yield f"{path}.cityCodes: expected a list"
            continue
        for j, city in enumerate(cities):
            if not isinstance(city, str):
                yield f"{path}.cityCodes[{j}]: {_no_string(city)}"
        scale = placement.get("scaleSettings")
        least = scale.get("minReplicas") if isinstance(scale, dict) else None
        # The server judges 0, which an old workload may have, and names one bound of the others.
        if isinstance(least, int) and not 0 <= least <= LARGEST_COUNT:
            yield (
                f"{path}.scaleSettings.minReplicas: expected a number from 1 to {LARGEST_COUNT},"
                f" found {least}"
            )


def _no_string(value: Any) -> str:
    """YAML takes NO for false and 1 for a number, which quotes prevent."""
    quote = "; quote it" if isinstance(value, bool | int | float) else ""
    return f"expected a string, found {describe_value(value)}{quote}"


def _network_faults(template: dict[str, Any]) -> Iterator[str]:
    interfaces = template.get("networkInterfaces")
    if not isinstance(interfaces, list):
        yield "spec.template.spec.networkInterfaces: expected a list"
        return
    for i, interface in enumerate(interfaces):
        path = f"spec.template.spec.networkInterfaces[{i}]"
        if not isinstance(interface, dict):
            yield f"{path}: expected an object"
            continue
        network = interface.get("network")
        name = network.get("name") if isinstance(network, dict) else None
        if not isinstance(network, dict):
            yield f"{path}.network: expected an object"
        elif not isinstance(name, str) or not is_name(name):
            yield f"{path}.network.name: expected a network name: {NAME_RULE}"
