"""The ConfigMaps and Secrets that an Instance names, as its cell has them.

:func:`read_data` reads them when an Instance starts. What of it becomes variables and files is the
same for every provider, and as the kubelet does it. No message, log line or ``repr`` has a value.

An Instance gets only what its deployment lists. A cell may have more: companions of other
deployments, which the author of this one was perhaps not allowed to read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import EMPTY, Object
from datum_compute.client.protocol import Client
from datum_compute.decisions import references
from datum_compute.decisions.references import Reference
from datum_compute.providers.errors import NotReady, Rejected
from datum_compute.providers.protocol import InstanceTarget
from datum_compute.providers.sandbox import field_value, sandbox_of, unserved_source
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.writes.patch import values

DATA_SECONDS = 10.0
"""How often an Instance whose data lacks something is tried again. A guess."""
DEFAULT_MODE = 0o644

_RESOURCES = {each.kind: each for each in (core.CONFIG_MAPS, core.SECRETS)}


@dataclass(frozen=True, slots=True)
class DataObject:
    version: str
    """Another one after each change; nothing of the content can be learned from it."""
    texts: Mapping[str, bytes] = field(repr=False)
    """What variables can be."""
    binaries: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """What only files can be: ``binaryData`` of a ConfigMap."""

    @property
    def files(self) -> Mapping[str, bytes]:
        return {**self.texts, **self.binaries}


@dataclass(frozen=True, slots=True)
class VolumeFile:
    path: str
    """Below the volume."""
    content: bytes = field(repr=False)
    mode: int


@dataclass(frozen=True, slots=True)
class InstanceData:
    """What the cell has of the objects that an Instance names, by entry."""

    objects: Mapping[str, DataObject]

    @property
    def version(self) -> str:
        """Another one when any of the objects has changed; empty without objects."""
        if not self.objects:
            return ""
        found = sorted((entry, each.version) for entry, each in self.objects.items())
        return hashlib.sha256(repr(found).encode()).hexdigest()[:32]

    def variables(self, target: InstanceTarget, container: compute.Container) -> dict[str, str]:
        """The environment: of two with one name ``env`` wins, then the later one. Raises
        ``Rejected`` for what cannot be a variable."""
        found: dict[str, str] = {}
        for each in container.env_from:
            reference = references.variables_reference(each)
            if reference is None or reference.entry not in self.objects:
                continue
            for key in sorted(self.objects[reference.entry].texts):
                found[each.prefix + key] = self._text(reference, key) or ""
        for variable in container.env:
            source = variable.value_from
            if source is None:
                found[variable.name] = variable.value
            elif source.field_ref is not None:
                found[variable.name] = field_value(target.instance, source.field_ref.field_path)
            elif named := references.variable_reference(source):
                text = self._text(*named)
                if text is not None:
                    found[variable.name] = text
            else:
                raise unserved_source(container, variable)
        return found

    def _text(self, reference: Reference, key: str) -> str | None:
        """None where it is missing, which only an optional one can be."""
        obj = self.objects.get(reference.entry)
        if obj is None or key not in obj.files:
            return None
        try:
            text = obj.texts[key].decode()
        except (KeyError, UnicodeDecodeError):
            text = "\0"
        if "\0" in text:
            raise data_rejected(
                f"{reference} key {key!r} is not text, so it cannot be a variable: mount it as a"
                " file"
            )
        return text

    def volume_files(self, volume: compute.Volume) -> list[VolumeFile]:
        """Empty for one whose optional object is missing, and for a disk."""
        named = references.volume_reference(volume)
        obj = self.objects.get(named[0].entry) if named else None
        if named is None or obj is None:
            return []
        _, source = named
        default = DEFAULT_MODE if source.default_mode is None else source.default_mode
        if not source.items:
            return [VolumeFile(key, obj.files[key], default) for key in sorted(obj.files)]
        return [
            VolumeFile(
                posixpath.normpath(item.path),
                obj.files[item.key],
                default if item.mode is None else item.mode,
            )
            for item in source.items
            if item.key in obj.files  # a missing one is optional
        ]

    def pull_secrets(self, target: InstanceTarget) -> Iterator[tuple[str, bytes]]:
        """The configurations of docker that its Secrets for pulls hold, by their names."""
        for secret in sandbox_of(target).image_pull_secrets:
            reference = Reference(references.SECRET, secret.name)
            yield str(reference), self.objects[reference.entry].texts[references.PULL_KEY]


NO_DATA = InstanceData({})


async def delivered_references(client: Client, target: InstanceTarget) -> tuple[Reference, ...]:
    """The objects that the Instance names and may have. An optional one may be left out.

    Raises ``Rejected`` for a required one that was not delivered for its deployment, and
    ``NotReady`` where the deployment is missing.
    """
    named = references.references_of(target.instance.spec)
    metadata = target.instance.metadata
    deployment = metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME)
    if not named or not deployment:
        return named
    found = await find_live(client, compute.WORKLOAD_DEPLOYMENTS, deployment, metadata.namespace)
    if found is None:
        raise NotReady(f"its deployment {deployment} is not there", delay=DATA_SECONDS)
    annotations = found.metadata.annotations
    listed = annotations.get(compute.ANNOTATION_EXPECTED_REFERENCED_DATA)
    if listed is None and compute.ANNOTATION_SOURCE_GENERATION not in annotations:
        return named  # a single cluster: nothing is delivered, the objects are the namespace's own
    expected = references.parse_entries(listed) or ()
    for each in named:
        if not each.optional and each.entry not in expected:
            raise data_rejected(f"{each} was not delivered for deployment {deployment}")
    return tuple(each for each in named if each.entry in expected)


async def read_data(client: Client, target: InstanceTarget) -> InstanceData:
    """Raises ``Rejected`` where the Instance cannot start without something that is missing."""
    namespace = target.instance.metadata.namespace
    objects: dict[str, DataObject] = {}
    for each in await delivered_references(client, target):
        found = await find_live(client, _RESOURCES[each.kind], each.name, namespace)
        if found is not None:
            objects[each.entry] = _decode(each, found)
    keys = {entry: tuple(each.files) for entry, each in objects.items()}
    if missing := references.describe_missing_keys(target.instance.spec, keys):
        raise data_rejected(missing)
    return InstanceData(objects)


def _decode(reference: Reference, found: Object) -> DataObject:
    version = f"{found.metadata.uid}/{found.metadata.resource_version}"
    data = values(found.data)
    if reference.kind == references.SECRET:
        return DataObject(version, _decoded(reference, data))
    texts = {key: str(value).encode() for key, value in data.items()}
    binary = values(found.extra.get("binaryData", EMPTY))
    return DataObject(version, texts, _decoded(reference, binary))


def _decoded(reference: Reference, data: Mapping[str, object]) -> dict[str, bytes]:
    found = {}
    for key, value in data.items():
        try:
            found[key] = base64.b64decode(str(value), validate=True)
        except binascii.Error:
            raise data_rejected(f"{reference} key {key!r} is not base64") from None
    return found


def data_rejected(message: str) -> Rejected:
    """The Instance cannot start with its data as it is, which may change."""
    return Rejected(compute.REASON_CONFIGURATION_ERROR, message, delay=DATA_SECONDS)
