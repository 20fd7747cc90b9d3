"""Data of ConfigMaps and Secrets that Instances need, and how it reaches their cell.

A template names objects of its project. Management reads them (:class:`SourceFact`), and
:func:`decide_delivery` says which are copied to the hub, which the cell is to expect, and what is
wrong. In the cell :func:`decide_data_condition` says whether what was expected is there. Objects
are named by *entries*, ``ConfigMap/settings``.
"""

from __future__ import annotations

import base64
import binascii
import json
import posixpath
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import FALSE, TRUE, Condition, ConditionState

CONFIG_MAP, SECRET = "ConfigMap", "Secret"
KINDS = (CONFIG_MAP, SECRET)

LARGEST_SOURCE = 256 * 1024
"""Bytes of keys and values of one object that are delivered."""
LARGEST_DELIVERY = 1024 * 1024
"""Bytes of all objects that one deployment names."""

CONTACT_SECONDS = 60.0
"""How long a cell answers before what it missed has arrived. A guess: Karmada tries again within
seconds."""

ERRORS = (
    compute.REASON_SOURCE_UNAUTHORIZED,
    compute.REASON_SOURCE_TOO_LARGE,
    compute.REASON_SOURCE_NOT_FOUND,
)
"""What can be wrong with an object; of several the first is the reason."""


class Reference(NamedTuple):
    kind: str
    name: str
    optional: bool = False
    """Whether Instances start without the object."""

    @property
    def entry(self) -> str:
        return f"{self.kind}/{self.name}"

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"'


class KeyReference(NamedTuple):
    """One key of an object, or with an empty key the object as a whole."""

    reference: Reference
    key: str
    use: str
    """Where the data goes: a variable, a volume, the pull of images."""


IMAGE_PULLS = "image pulls"
"""The use of a Secret with the credential of a registry."""
PULL_KEY = ".dockerconfigjson"
"""The key of a Secret of type ``kubernetes.io/dockerconfigjson``."""


def volume_reference(
    volume: compute.Volume,
) -> tuple[Reference, compute.ConfigMapVolume | compute.SecretVolume] | None:
    """The object whose keys are the files of a volume; None for a disk."""
    if volume.config_map is not None:
        files = volume.config_map
        return Reference(CONFIG_MAP, files.name, files.optional), files
    if volume.secret is not None:
        name, optional = volume.secret.secret_name, volume.secret.optional
        return Reference(SECRET, name, optional), volume.secret
    return None


def variable_reference(source: compute.EnvVarSource) -> tuple[Reference, str] | None:
    """The object and key that a variable is taken from; None for another source."""
    for kind, key in ((CONFIG_MAP, source.config_map_key_ref), (SECRET, source.secret_key_ref)):
        if key is not None:
            return Reference(kind, key.name, key.optional), key.key
    return None


def variables_reference(source: compute.EnvFromSource) -> Reference | None:
    """The object of which every key is a variable."""
    for kind, ref in ((CONFIG_MAP, source.config_map_ref), (SECRET, source.secret_ref)):
        if ref is not None:
            return Reference(kind, ref.name, ref.optional)
    return None


def key_references(spec: compute.InstanceSpec) -> Iterator[KeyReference]:
    """Every mention of a ConfigMap or Secret, in the order of the spec."""
    for volume in spec.volumes:
        if found := volume_reference(volume):
            reference, files = found
            for key in [item.key for item in files.items] or [""]:
                yield KeyReference(reference, key, f"volume {volume.name}")
    sandbox = spec.runtime.sandbox
    if sandbox is None:
        return
    for container in sandbox.containers:
        yield from _of_container(container)
    for pull_secret in sandbox.image_pull_secrets:
        yield KeyReference(Reference(SECRET, pull_secret.name), PULL_KEY, IMAGE_PULLS)


def _of_container(container: compute.Container) -> Iterator[KeyReference]:
    for each in container.env_from:
        if reference := variables_reference(each):
            yield KeyReference(reference, "", f"variables of container {container.name}")
    for variable in container.env:
        if variable.value_from and (found := variable_reference(variable.value_from)):
            yield KeyReference(*found, f"variable {variable.name}")


def references_of(spec: compute.InstanceSpec) -> tuple[Reference, ...]:
    """The objects a spec names, by entry. One is optional where every mention of it is."""
    optional: dict[tuple[str, str], bool] = {}
    for each in key_references(spec):
        kind, name, may_be_missing = each.reference
        if name:
            optional[kind, name] = optional.get((kind, name), True) and may_be_missing
    return tuple(Reference(*key, optional[key]) for key in sorted(optional))


def describe_missing_keys(spec: compute.InstanceSpec, keys: Mapping[str, Collection[str]]) -> str:
    """What an Instance cannot start without, of the objects with these keys, by entry; empty when
    nothing is missing."""
    missing = []
    for reference, key, use in key_references(spec):
        present = keys.get(reference.entry)
        if reference.optional or (present is not None and (not key or key in present)):
            continue
        what = f"{reference} has no key {key!r}" if present is not None else f"no {reference}"
        missing.append(f"{what} for {use}")
    missing += _missing_sub_paths(spec, keys)
    return "; ".join(dict.fromkeys(missing))


def _missing_sub_paths(
    spec: compute.InstanceSpec, keys: Mapping[str, Collection[str]]
) -> Iterator[str]:
    volumes = {volume.name: volume_reference(volume) for volume in spec.volumes}
    for container in spec.runtime.sandbox.containers if spec.runtime.sandbox else ():
        for attachment in container.volume_attachments:
            wanted = posixpath.normpath(attachment.sub_path)
            found = volumes.get(attachment.name)
            if not attachment.sub_path or found is None or found[0].optional:
                continue
            reference, files = found
            paths = [posixpath.normpath(item.path) for item in files.items]
            paths = paths or [*keys.get(reference.entry, [wanted])]
            if not any(f"{path}/".startswith(f"{wanted}/") for path in paths):
                yield f"volume {attachment.name} of {reference} has no file {wanted!r} for subPath"


@dataclass(frozen=True, slots=True)
class SourceFact:
    """What management has found of an object in the project."""

    size: int = 0
    error: str = ""
    """A reason of :data:`ERRORS`; empty where it was read."""
    message: str = ""
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class DataError:
    reason: str
    message: str

    def to_text(self) -> str:
        return json.dumps({"reason": self.reason, "message": self.message})


@dataclass(frozen=True, slots=True)
class Delivery:
    copied: tuple[str, ...]
    """Entries whose companion gets the present content of its source."""
    expected: tuple[str, ...]
    """Entries that the cell is to have. The companion of any other is not kept for this
    deployment."""
    error: DataError | None
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Of the content that the companion of each expected entry has."""


def decide_delivery(
    references: Iterable[Reference],
    facts: Mapping[str, SourceFact],
    *,
    kept: Iterable[str] = (),
    has_old: bool = False,
    delivered: Mapping[str, str] = MappingProxyType({}),
) -> Delivery:
    """What a deployment's cell gets. ``kept`` are the entries whose companions it uses now: they
    stay while ``has_old``, since an Instance of an older template that restarts needs them. The
    companion of a source that is deleted, too large or not readable stays too, as it was.
    ``delivered`` are the hashes of the last delivery."""
    copied, expected, errors = [], [], []
    total = 0
    for reference in references:
        fact = facts[reference.entry]
        if fact.error == compute.REASON_SOURCE_NOT_FOUND and reference.optional:
            continue
        expected.append(reference.entry)
        error = (
            DataError(fact.error, fact.message)
            if fact.error
            else _size_error(reference, fact.size, total)
        )
        if error is not None:
            errors.append(error)
            continue
        total += fact.size
        copied.append(reference.entry)
    if has_old:
        expected += [entry for entry in kept if entry not in expected]
    reason = next((each for each in ERRORS if each in {error.reason for error in errors}), "")
    message = "; ".join(error.message for error in errors)
    return Delivery(
        tuple(copied),
        tuple(sorted(expected)),
        DataError(reason, message) if errors else None,
        {
            entry: found
            for entry in sorted(expected)
            if (found := facts[entry].content_hash if entry in copied else delivered.get(entry))
        },
    )


def hash_content(uid: str, content: Mapping[str, object]) -> str:
    """A hash of the content of the source with this uid, which only those know who may read it:
    others cannot try values until one fits."""
    return _hash([uid, content])


def decide_data_hash(references: Iterable[Reference], delivered: Mapping[str, str] | None) -> str:
    """The hash of what was delivered for a template; empty before all of it was. What its source
    lacks now counts as it was delivered last, so that nothing rolls into a wait."""
    references = tuple(references)
    if delivered is None or any(
        each.entry not in delivered for each in references if not each.optional
    ):
        return ""
    return _hash(
        {each.entry: delivered[each.entry] for each in references if each.entry in delivered}
    )


class DataRoll(NamedTuple):
    hash: str
    """What the template carries."""
    delay: float | None = None
    """Seconds until another hash may be due."""


def decide_data_roll(
    references: Iterable[Reference],
    delivered: Mapping[str, str] | None,
    *,
    current: str,
    reachable: Condition | None,
    now: datetime,
) -> DataRoll:
    """The hash of a template, whose present one is ``current``. Another one waits until the cell
    has answered for :data:`CONTACT_SECONDS`: after a disconnection the deployment may arrive there
    before the data, and what it starts would have the old one."""
    wanted = decide_data_hash(references, delivered)
    if not current or not wanted or wanted == current or reachable is None:
        return DataRoll(wanted)
    if reachable.status != TRUE:
        return DataRoll(current)
    left = CONTACT_SECONDS - (now - reachable.last_transition_time).total_seconds()
    return DataRoll(current, left) if left > 0 else DataRoll(wanted)


def with_data_hash(template: Mapping[str, Any], hash: str) -> Mapping[str, Any]:
    """The template of a deployment that carries the hash of its data; empty for none."""
    if not hash:
        return template
    metadata = template.get("metadata") or {}
    notes = {**(metadata.get("annotations") or {}), compute.ANNOTATION_DATA_HASH: hash}
    return {**template, "metadata": {**metadata, "annotations": notes}}


def without_data_hash(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template as its Workload has it."""
    metadata = template.get("metadata") or {}
    notes = metadata.get("annotations")
    if not isinstance(notes, dict) or compute.ANNOTATION_DATA_HASH not in notes:
        return template
    left = {key: text for key, text in notes.items() if key != compute.ANNOTATION_DATA_HASH}
    return {**template, "metadata": {**metadata, "annotations": left}}


def _hash(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def hashes_to_text(hashes: Mapping[str, str]) -> str:
    return json.dumps(hashes, sort_keys=True, separators=(",", ":"))


def parse_hashes(text: str | None) -> dict[str, str] | None:
    """The hashes of the last delivery; None where the text is not such an object."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return {entry: each for entry, each in found.items() if isinstance(each, str)}


def _size_error(reference: Reference, size: int, total: int) -> DataError | None:
    if size > LARGEST_SOURCE:
        text = f"{reference} holds {_kib(size)}, and at most {_kib(LARGEST_SOURCE)} are delivered"
    elif total + size > LARGEST_DELIVERY:
        text = (
            f"with {reference} the deployment names {_kib(total + size)} of data, and at most"
            f" {_kib(LARGEST_DELIVERY)} are delivered"
        )
    else:
        return None
    return DataError(compute.REASON_SOURCE_TOO_LARGE, text)


def _kib(size: int) -> str:
    return f"{-(-size // 1024)} KiB"


def size_of(data: Mapping[str, object], encoded: Mapping[str, object]) -> int:
    """Bytes of keys and values; values of ``encoded`` are in base64."""
    plain = sum(len(key.encode()) + len(str(value).encode()) for key, value in data.items())
    return plain + sum(len(key.encode()) + _decoded_size(value) for key, value in encoded.items())


def _decoded_size(value: object) -> int:
    try:
        return len(base64.b64decode(str(value)))
    except (binascii.Error, ValueError):
        return len(str(value))


def entries_to_text(entries: Iterable[str]) -> str:
    return json.dumps(sorted(entries), separators=(",", ":"))


def parse_entries(text: str | None) -> tuple[str, ...] | None:
    """The texts of a JSON list; None where there is no such list."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(found, list):
        return None
    return tuple(each for each in found if isinstance(each, str))


def decide_data_condition(
    references: Iterable[Reference],
    annotations: Mapping[str, str],
    present: Container[str],
    template: Mapping[str, str] = MappingProxyType({}),
) -> ConditionState | None:
    """Whether the cell has what a template names; None where it names nothing. ``annotations``
    are those of its deployment, ``template`` its own, and ``present`` the entries that the cell
    has. A template that rolls on changes is not complete without its hash: what started would be
    replaced when it has one."""
    references = tuple(references)
    if not references:
        return None
    if error := _parse_error(annotations.get(compute.ANNOTATION_REFERENCED_DATA_ERROR)):
        return _not_ready(error.reason, error.message)
    expected = parse_entries(annotations.get(compute.ANNOTATION_EXPECTED_REFERENCED_DATA))
    hash_is_due = (
        template.get(compute.ANNOTATION_ROLL_ON_CONFIG_CHANGE) == "true"
        and compute.ANNOTATION_DATA_HASH not in template
    )
    if (
        expected is None
        or hash_is_due
        or any(each.entry not in expected for each in references if not each.optional)
    ):
        # Also where the list is of an older template.
        listed = ", ".join(map(str, references))
        return _not_ready(compute.REASON_RESOLVING, f"{listed} are being read in the project")
    missing = [each for each in references if each.entry in expected and each.entry not in present]
    if missing:
        listed = ", ".join(map(str, missing))
        return _not_ready(compute.REASON_AWAITING_PROPAGATION, f"{listed} not in the cell yet")
    return _READY


_READY = ConditionState(TRUE, compute.REASON_DATA_READY, "The data that the template names is here")


def _not_ready(reason: str, message: str) -> ConditionState:
    return ConditionState(FALSE, reason, message)


def not_found(missing: Iterable[Reference]) -> str:
    return f"{', '.join(map(str, missing))} not found in the project"


def _parse_error(text: str | None) -> DataError | None:
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("reason") not in ERRORS:
        return None
    return DataError(found["reason"], str(found.get("message") or ""))
