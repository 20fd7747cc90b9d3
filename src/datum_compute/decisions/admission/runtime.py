"""The runtime of a template: containers in a sandbox or a virtual machine, and its size."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from datum_compute.decisions.admission import name_rules
from datum_compute.decisions.admission.volumes import VolumeFacts, relative_path, volume_facts
from datum_compute.decisions.findings import FieldValue, Findings

RUNTIMES = ("sandbox", "virtualMachine")
PROTOCOLS = ("TCP", "UDP", "SCTP")
LARGEST_PORT = 65535
ENV_FROM_SOURCES = ("configMapRef", "secretRef")
ENV_SOURCES = ("configMapKeyRef", "secretKeyRef", "fieldRef", "resourceFieldRef")


def validate_runtime(findings: Findings, spec: FieldValue, instance_types: Iterable[str]) -> None:
    """``spec`` is the template's, for the volumes that can be attached."""
    runtime = spec.child("runtime")
    if not findings.is_mapping(runtime, needed=True):
        return
    _validate_size(findings, runtime.child("resources"), instance_types)
    sandbox, machine = (runtime.child(name) for name in RUNTIMES)
    if not sandbox.given and not machine.given:
        findings.required(runtime, f"exactly one of {', '.join(RUNTIMES)}")
    if sandbox.given and machine.given:
        findings.forbidden(machine, "may not be given together with sandbox")
    volumes = volume_facts(spec.child("volumes"))
    if findings.is_mapping(sandbox):
        _validate_sandbox(findings, sandbox, volumes)
    if findings.is_mapping(machine):
        _validate_machine(findings, machine, volumes)


def attached_volumes(runtime: FieldValue) -> frozenset[str]:
    """The names of the volumes that are attached."""
    reader = Findings()
    users = [*reader.items(runtime.child("sandbox").child("containers"))]
    users.append(runtime.child("virtualMachine"))
    return frozenset(
        name
        for user in users
        for attachment in reader.items(user.child("volumeAttachments"))
        if isinstance(name := attachment.child("name").value, str)
    )


def _validate_size(
    findings: Findings, resources: FieldValue, instance_types: Iterable[str]
) -> None:
    if not findings.is_mapping(resources, needed=True):
        return
    kind = findings.text(resources.child("instanceType"), needed=True)
    if kind and kind not in (known := tuple(instance_types)):
        findings.not_supported(resources.child("instanceType"), known)
    if resources.child("requests").value:
        findings.forbidden(
            resources.child("requests"), "not implemented: the instance type sets the resources"
        )


def _validate_sandbox(
    findings: Findings, sandbox: FieldValue, volumes: Mapping[str, VolumeFacts]
) -> None:
    containers = sandbox.child("containers")
    if containers.value in (None, []):
        findings.required(containers, "at least one container")
    names: set[str] = set()
    for container in findings.mappings(containers, "name"):
        name = name_rules.validate_dns_label(findings, container.child("name"))
        if name in names:
            findings.duplicate(container.child("name"))
        elif name:
            names.add(name)
        _validate_container(findings, container)
        _validate_attachments(findings, container.child("volumeAttachments"), volumes)
        _validate_ports(findings, container.child("ports"))
    for secret in findings.mappings(sandbox.child("imagePullSecrets"), "name"):
        name_rules.validate_object_name(findings, secret.child("name"))


def _validate_container(findings: Findings, container: FieldValue) -> None:
    image = findings.text(container.child("image"), needed=True)
    if image and (any(map(str.isspace, image)) or not image.isprintable()):
        findings.invalid(container.child("image"), "must be the name of an image, without spaces")
    for tokens in ("command", "args"):
        for token in findings.items(container.child(tokens)):
            findings.text(token)
    resources = container.child("resources")
    if findings.is_mapping(resources) and any(resources.value.values()):
        findings.forbidden(resources, "not implemented: the instance type sets the limits")
    names: set[str] = set()
    for variable in findings.mappings(container.child("env"), "name"):
        _validate_variable(findings, variable, names)
    for source in findings.mappings(container.child("envFrom")):
        _validate_env_from(findings, source)


def _validate_env_from(findings: Findings, source: FieldValue) -> None:
    prefix = findings.text(source.child("prefix"))
    if prefix and (not prefix.isascii() or not prefix.isprintable() or "=" in prefix):
        findings.invalid(source.child("prefix"), "must be printable ASCII characters without '='")
    given = [kind for kind in ENV_FROM_SOURCES if source.child(kind).given]
    if not given:
        findings.required(source, f"exactly one of {', '.join(ENV_FROM_SOURCES)}")
    for extra in given[1:]:
        findings.forbidden(source.child(extra), f"may not be given together with {given[0]}")
    for kind in given:
        if findings.is_mapping(source.child(kind)):
            name_rules.validate_object_name(findings, source.child(kind).child("name"))


def _validate_variable(findings: Findings, variable: FieldValue, names: set[str]) -> None:
    name = findings.text(variable.child("name"), needed=True)
    if name and (not name.isascii() or not name.isprintable() or "=" in name):
        findings.invalid(variable.child("name"), "must be printable ASCII characters without '='")
    elif name in names:
        findings.duplicate(variable.child("name"))
    names.add(name)
    value = findings.text(variable.child("value"))
    source = variable.child("valueFrom")
    if not findings.is_mapping(source):
        return
    if value:
        findings.forbidden(source, "may not be given together with value")
    given = [kind for kind in ENV_SOURCES if source.child(kind).given]
    if not given:
        findings.required(source, f"exactly one of {', '.join(ENV_SOURCES)}")
    for extra in given[1:]:
        findings.forbidden(source.child(extra), f"may not be given together with {given[0]}")
    for kind in given:
        _validate_source(findings, source.child(kind), kind)


def _validate_source(findings: Findings, source: FieldValue, kind: str) -> None:
    if not findings.is_mapping(source):
        return
    if kind == "fieldRef":
        findings.text(source.child("fieldPath"), needed=True)
    elif kind == "resourceFieldRef":
        findings.text(source.child("resource"), needed=True)
    else:
        name_rules.validate_object_name(findings, source.child("name"))
        findings.text(source.child("key"), needed=True)


def _validate_machine(
    findings: Findings, machine: FieldValue, volumes: Mapping[str, VolumeFacts]
) -> None:
    attachments = machine.child("volumeAttachments")
    if attachments.value in (None, []):
        findings.required(attachments, "at least the boot disk")
    _validate_attachments(findings, attachments, volumes)
    for first in Findings().items(attachments, "name")[:1]:
        name = first.child("name")
        facts = volumes.get(name.value) if isinstance(name.value, str) else None
        if facts is not None and not facts.is_bootable:
            findings.invalid(
                name, "the first volume boots the machine, so it must be a disk with an image"
            )
    _validate_ports(findings, machine.child("ports"))


def _validate_attachments(
    findings: Findings, attachments: FieldValue, volumes: Mapping[str, VolumeFacts]
) -> None:
    names: set[str] = set()
    paths: set[str] = set()
    for attachment in findings.mappings(attachments, "name"):
        place = attachment.child("name")
        name = findings.text(place, needed=True)
        if name and name not in volumes:
            findings.not_found(place)
        elif name and name in names and not volumes[name].is_data:
            findings.duplicate(place)
        names.add(name)
        _validate_mount(findings, attachment.child("mountPath"), volumes.get(name), paths)
        _validate_sub_path(findings, attachment, volumes.get(name))


def _validate_mount(
    findings: Findings, place: FieldValue, volume: VolumeFacts | None, paths: set[str]
) -> None:
    path = findings.text(place)
    if not place.given or not isinstance(place.value, str):
        return
    if not path.startswith("/") or ":" in path or ".." in path.split("/"):
        findings.invalid(place, "must be an absolute path without ':' and '..'")
        return
    normal = posixpath.normpath(path).lstrip("/")  # which leaves two leading slashes alone
    if normal in paths:
        findings.duplicate(place)
    paths.add(normal)
    if volume is not None and not volume.has_file_system:
        findings.invalid(place, "the disk has no file system to mount: give it a populator")


def _validate_sub_path(
    findings: Findings, attachment: FieldValue, volume: VolumeFacts | None
) -> None:
    place = attachment.child("subPath")
    if not relative_path(findings, place):
        return
    if volume is not None and not volume.is_data:
        findings.forbidden(place, "only a volume of a ConfigMap or Secret has one")
    elif not attachment.child("mountPath").given:
        findings.forbidden(place, "needs a mountPath")


def _validate_ports(findings: Findings, ports: FieldValue) -> None:
    names: set[str] = set()
    for port in findings.mappings(ports, "name"):
        name = name_rules.validate_port_name(findings, port.child("name"))
        if name and name in names:
            findings.duplicate(port.child("name"))
        names.add(name)
        number = findings.integer(port.child("port"), needed=True)
        if number is not None and not 1 <= number <= LARGEST_PORT:
            findings.invalid(port.child("port"), f"must be from 1 to {LARGEST_PORT}")
        findings.choice(port.child("protocol"), PROTOCOLS)
