"""The template of a workload's Instances: metadata, network interfaces, runtime and volumes."""

from __future__ import annotations

import base64
import binascii
import ipaddress

from datum_compute.api.compute import constants
from datum_compute.decisions.admission import name_rules
from datum_compute.decisions.admission.offer import Offer
from datum_compute.decisions.admission.runtime import (
    LARGEST_PORT,
    PROTOCOLS,
    attached_volumes,
    validate_runtime,
)
from datum_compute.decisions.admission.volumes import validate_volumes
from datum_compute.decisions.findings import FieldValue, Findings
from datum_compute.decisions.sleep import validate_sleep

SSH_KEY = "must be USER:KEY with an SSH public key, as in ana:ssh-ed25519 AAAAC3Nz… ana@example"
LARGEST_ANNOTATIONS = 256 * 1024
"""Bytes of all keys and values of one object."""
_SHOWN_OF_A_LINE = 8
"""Enough to find the line again, and too little of a private key pasted by mistake."""
_BY_CONTROLLERS = ("location", "controller")


def validate_template(
    findings: Findings, template: FieldValue, namespace: str, offer: Offer
) -> None:
    if not findings.is_mapping(template, needed=True):
        return
    spec = template.child("spec")
    machine = spec.child("runtime").child("virtualMachine")
    _validate_metadata(findings, template.child("metadata"), has_machine=machine.given)
    if not findings.is_mapping(spec, needed=True):
        return
    validate_sleep(findings, template.child("metadata").child("annotations"), spec)
    attached = attached_volumes(spec.child("runtime"))
    validate_volumes(findings, spec.child("volumes"), attached)
    validate_runtime(findings, spec, offer.instance_types)
    _validate_interfaces(findings, spec.child("networkInterfaces"), namespace, offer)
    for name in _BY_CONTROLLERS:
        if spec.child(name).value:
            findings.forbidden(spec.child(name), "is set by controllers, on each Instance")


def _validate_metadata(findings: Findings, metadata: FieldValue, *, has_machine: bool) -> None:
    findings.is_mapping(metadata)
    for field in ("labels", "annotations"):
        entries = metadata.child(field)
        if not findings.is_mapping(entries):
            continue
        for key in entries.value:
            entry = entries.entry(key)
            name_rules.validate_key(findings, entry, key)
            if field == "labels":
                name_rules.validate_label_value(findings, entry)
            else:
                findings.text(entry)
    annotations = metadata.child("annotations")
    if isinstance(annotations.value, dict):
        rolls = annotations.entry(constants.ANNOTATION_ROLL_ON_CONFIG_CHANGE)
        findings.choice(rolls, ("true", "false"))
    _validate_room(findings, annotations)
    if has_machine:
        _validate_ssh_keys(findings, annotations.entry(_SSH_KEYS))


def _validate_room(findings: Findings, annotations: FieldValue) -> None:
    """An API server rejects an object with larger annotations. A workload with such a template
    would be stored, but none of its Instances could be created."""
    if not isinstance(annotations.value, dict):
        return
    texts = [text for pair in annotations.value.items() for text in pair if isinstance(text, str)]
    if sum(len(text.encode(errors="replace")) for text in texts) > LARGEST_ANNOTATIONS:
        findings.too_long(annotations, LARGEST_ANNOTATIONS)


_SSH_KEYS = constants.ANNOTATION_SSH_KEYS


def _validate_ssh_keys(findings: Findings, annotation: FieldValue) -> None:
    text = annotation.value
    if not annotation.given or (isinstance(text, str) and not text.strip()):
        findings.required(annotation, "a virtual machine needs at least one USER:KEY line")
    elif isinstance(text, str):
        for i, line in enumerate(text.strip().split("\n")):
            user, colon, key = line.partition(":")
            if not (colon and user.strip() and _is_public_key(key)):
                shown = f"{user}:…" if colon and len(user) <= 32 else line[:_SHOWN_OF_A_LINE] + "…"
                findings.invalid(annotation.part(i, line), SSH_KEY, shown=shown)


def _is_public_key(text: str) -> bool:
    """Whether it is ``TYPE BASE64 [COMMENT]`` and the key is of that type."""
    kind, _, rest = text.strip().partition(" ")
    encoded = rest.strip().partition(" ")[0]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    name = kind.encode(errors="replace")
    return bool(name) and blob.startswith(len(name).to_bytes(4, "big") + name)


def _validate_interfaces(
    findings: Findings, interfaces: FieldValue, namespace: str, offer: Offer
) -> None:
    if interfaces.value in (None, []):
        findings.required(interfaces, "at least one network interface")
    for interface in _named_by_network(findings, interfaces):
        network = interface.child("network")
        if findings.is_mapping(network, needed=True):
            name = name_rules.validate_dns_label(findings, network.child("name"))
            other = findings.text(network.child("namespace"))
            if other and other != namespace:
                findings.invalid(
                    network.child("namespace"), f'must be the workload\'s own, "{namespace}"'
                )
            elif name in offer.denied:
                findings.forbidden(network, "permission to use the network was denied")
        policy = interface.child("networkPolicy")
        if findings.is_mapping(policy):
            for rule in findings.mappings(policy.child("ingress")):
                _validate_ingress(findings, rule)


def _named_by_network(findings: Findings, interfaces: FieldValue) -> list[FieldValue]:
    """Interfaces are identified by their network: one that only moved in the list is not new."""
    found = []
    for item in findings.mappings(interfaces):
        name = item.child("network").child("name").value
        own = f"[{name}]" if isinstance(name, str) else item.identity[-1]
        found.append(FieldValue(item.value, item.path, (*interfaces.identity, own)))
    return found


def _validate_ingress(findings: Findings, rule: FieldValue) -> None:
    for port in findings.mappings(rule.child("ports")):
        findings.choice(port.child("protocol"), PROTOCOLS)
        _validate_port_range(findings, port)
    for peer in findings.mappings(rule.child("from")):
        block = peer.child("ipBlock")
        if not findings.is_mapping(block, needed=True):
            continue
        whole = _network(findings, block.child("cidr"), needed=True)
        for part in findings.items(block.child("except"), ""):
            inner = _network(findings, part, needed=True)
            if whole and inner and not _is_within(inner, whole):
                findings.invalid(part, f"must lie within {whole}")


def _validate_port_range(findings: Findings, port: FieldValue) -> None:
    first, last = port.child("port"), port.child("endPort")
    if isinstance(first.value, str):
        name_rules.validate_port_name(findings, first)
    else:
        number = findings.integer(first)
        if number is not None and not 1 <= number <= LARGEST_PORT:
            findings.invalid(first, f"must be from 1 to {LARGEST_PORT}, or the name of a port")
    end = findings.integer(last)
    if end is None:
        return
    if not isinstance(first.value, int):
        findings.forbidden(last, "needs port to be a number")
    elif not first.value <= end <= LARGEST_PORT:
        findings.invalid(last, f"must be from port to {LARGEST_PORT}")


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _network(findings: Findings, place: FieldValue, *, needed: bool) -> _Network | None:
    text = findings.text(place, needed=needed)
    if not text:
        return None
    try:
        if "/" in text:
            return ipaddress.ip_network(text, strict=False)
    except ValueError:
        pass
    findings.invalid(place, "must be a range of addresses such as 10.0.0.0/8")
    return None


def _is_within(inner: _Network, whole: _Network) -> bool:
    return (
        inner.version == whole.version
        and inner.prefixlen >= whole.prefixlen
        and inner.network_address in whole
    )
