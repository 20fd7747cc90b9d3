"""The volumes of a template: their sources, and the size and content of disks."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from datum_compute.api import quantities
from datum_compute.decisions.admission import name_rules
from datum_compute.decisions.findings import FieldValue, Findings

SOURCES = ("disk", "configMap", "secret")
DISK_TYPES = ("pd-standard",)
DISK_IMAGES: Mapping[str, str] = {"datumcloud/ubuntu-2204-lts": "25Gi"}
"""Images a disk may start from, and the size each needs."""
FILE_SYSTEMS = ("ext4",)
SMALLEST_DISK = "10Gi"
LARGEST_DISK = "100Gi"
LARGEST_MODE = 0o777

_GIBIBYTE = quantities.parse("1Gi")


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """What attachments need to know about a volume."""

    has_file_system: bool = True
    """Whether it can be mounted: a disk only when something puts a file system on it."""
    is_bootable: bool = False
    is_data: bool = False
    """Whether it is files of a ConfigMap or Secret."""


def validate_volumes(findings: Findings, volumes: FieldValue, attached: frozenset[str]) -> None:
    names: set[str] = set()
    devices: set[str] = set()
    for i, volume in enumerate(findings.items(volumes, "name")):
        if not findings.is_mapping(volume, needed=True):
            continue
        name = name_rules.validate_dns_label(findings, volume.child("name"))
        if name in names:
            findings.duplicate(volume.child("name"))
        elif name and name not in attached:
            findings.invalid(
                volume.child("name"), "is not attached: name it in a volumeAttachments entry"
            )
        names.add(name)
        _validate_source(findings, volume)
        _validate_device(findings, volume.child("disk"), i, devices)


def volume_facts(volumes: FieldValue) -> dict[str, VolumeFacts]:
    """Each volume by its name; of several with one name, the first."""
    facts: dict[str, VolumeFacts] = {}
    for volume in Findings().items(volumes):
        name, disk = volume.child("name").value, volume.child("disk")
        if not isinstance(name, str) or name in facts:
            continue
        populator = disk.child("template").child("spec").child("populator")
        image, file_system = populator.child("image"), populator.child("filesystem")
        facts[name] = VolumeFacts(
            has_file_system=not disk.given or image.given or file_system.given,
            is_bootable=image.given,
            is_data=volume.child("configMap").given or volume.child("secret").given,
        )
    return facts


def _validate_source(findings: Findings, volume: FieldValue) -> None:
    given = [source for source in SOURCES if volume.child(source).given]
    if not given:
        findings.required(volume, f"exactly one of {', '.join(SOURCES)}")
    for extra in given[1:]:
        findings.forbidden(volume.child(extra), f"may not be given together with {given[0]}")
    for source in given:
        place = volume.child(source)
        if not findings.is_mapping(place):
            continue
        if source == "disk":
            _validate_disk(findings, place)
        else:
            _validate_files(findings, place, "name" if source == "configMap" else "secretName")


def _validate_device(findings: Findings, disk: FieldValue, index: int, devices: set[str]) -> None:
    if not isinstance(disk.value, dict):
        return
    place = disk.child("deviceName")
    name = findings.text(place)
    if place.value == "":
        findings.invalid(place, "must not be empty; omit it for a name by position")
    name = name or f"persistent-disk-{index}"
    if name in devices:
        findings.duplicate(place if place.given else FieldValue(name, place.path, place.identity))
    devices.add(name)


def _validate_files(findings: Findings, source: FieldValue, name: str) -> None:
    """Files out of a ConfigMap or a Secret."""
    name_rules.validate_object_name(findings, source.child(name))
    _validate_mode(findings, source.child("defaultMode"))
    paths: set[str] = set()
    for item in findings.mappings(source.child("items")):
        findings.text(item.child("key"), needed=True)
        _validate_mode(findings, item.child("mode"))
        place = item.child("path")
        path = relative_path(findings, place, needed=True)
        if path in paths:
            findings.duplicate(place)
        elif any(is_within(path, each) or is_within(each, path) for each in paths):
            findings.invalid(place, "is a file and a directory: another path is within it")
        elif path:
            paths.add(path)


def _validate_mode(findings: Findings, place: FieldValue) -> None:
    mode = findings.integer(place)
    if mode is not None and not 0 <= mode <= LARGEST_MODE:
        findings.invalid(place, f"must be from 0 to {LARGEST_MODE} (octal 0777)")


def relative_path(findings: Findings, place: FieldValue, *, needed: bool = False) -> str:
    """Its normal form; empty where it is missing or not a path within a volume."""
    path = findings.text(place, needed=needed)
    if not path:
        return ""
    parts = path.split("/")
    if path.startswith(("/", "..")) or ".." in parts or ":" in path or not path.isprintable():
        findings.invalid(place, "must be a path within the volume, without ':' and '..'")
        return ""
    return posixpath.normpath(path)


def is_within(path: str, directory: str) -> bool:
    return path.startswith(f"{directory}/")


def _validate_disk(findings: Findings, disk: FieldValue) -> None:
    template = disk.child("template")
    if not findings.is_mapping(template, needed=True):
        return
    spec = template.child("spec")
    if not findings.is_mapping(spec, needed=True):
        return
    findings.choice(spec.child("type"), DISK_TYPES)
    image_room = _validate_populator(findings, spec.child("populator"))
    _validate_room(findings, spec.child("resources"), image_room)


def _validate_populator(findings: Findings, populator: FieldValue) -> str:
    """The size its image needs; empty when it has none."""
    if not findings.is_mapping(populator):
        return ""
    image, file_system = populator.child("image"), populator.child("filesystem")
    if not image.given and not file_system.given:
        findings.required(populator, "exactly one of image, filesystem")
    if image.given and file_system.given:
        findings.forbidden(file_system, "may not be given together with image")
    if findings.is_mapping(file_system):
        kind = findings.text(file_system.child("type"), needed=True)
        if kind and kind not in FILE_SYSTEMS:
            findings.not_supported(file_system.child("type"), FILE_SYSTEMS)
    if not findings.is_mapping(image):
        return ""
    name = findings.text(image.child("name"), needed=True)
    if name and name not in DISK_IMAGES:
        findings.not_supported(image.child("name"), DISK_IMAGES)
    return DISK_IMAGES.get(name, SMALLEST_DISK)


def _validate_room(findings: Findings, resources: FieldValue, image_room: str) -> None:
    """The size of the disk, which is optional with an image."""
    if not findings.is_mapping(
        resources, needed=not image_room, detail="a disk without an image needs a size"
    ):
        return
    requests = resources.child("requests")
    if not findings.is_mapping(requests, needed=True):
        return
    for name in requests.value:
        if name != "storage":
            findings.not_supported(FieldValue(name, requests.path.key(name)), ["storage"])
    storage = requests.entry("storage")
    amount = quantity(findings, storage, needed=True)
    if amount is None:
        return
    smallest = image_room or SMALLEST_DISK
    if amount < quantities.parse(smallest):
        why = ", which the image needs" if image_room else ""
        findings.invalid(storage, f"must be at least {smallest}{why}")
    elif amount > quantities.parse(LARGEST_DISK):
        findings.invalid(storage, f"must be at most {LARGEST_DISK}")
    elif amount % _GIBIBYTE:
        findings.invalid(storage, "must be a whole number of Gi")


def quantity(findings: Findings, place: FieldValue, *, needed: bool = False) -> Decimal | None:
    value = place.value
    if value is None:
        if needed:
            findings.required(place)
        return None
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        try:
            return quantities.parse(value)
        except (quantities.QuantityError, ArithmeticError):
            pass  # not an amount, or one beyond all bounds
    findings.invalid(place, "must be a quantity such as 500m, 2 or 25Gi")
    return None
