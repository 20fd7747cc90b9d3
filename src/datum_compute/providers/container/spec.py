"""The containers of an Instance, as the engine creates them. Pure.

Each container of the sandbox becomes one container of the engine. The first owns the network,
and the others join it, so they reach each other on localhost. The labels are the record: they
name the platform, the cell, the Instance with its uid, and its addresses.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers.data import NO_DATA, InstanceData
from datum_compute.providers.protocol import InstanceTarget
from datum_compute.providers.sandbox import (
    CAPABILITIES,
    LABEL_NAME,
    LABEL_NAMESPACE,
    LABEL_UID,
    PREFIX,
    container_size,
    sandbox_of,
)

LABEL_PLATFORM = PREFIX + "platform"
LABEL_CELL = PREFIX + "cell"
LABEL_CONTAINER = PREFIX + "container"
LABEL_JOINS = PREFIX + "joins"
"""On a container that joins the network of another: that one's name."""
LABEL_NETWORK = PREFIX + "network"
LABEL_SUBNET = PREFIX + "subnet"
LABEL_NETWORK_IP = PREFIX + "network-ip"
LABEL_EXTERNAL_IP = PREFIX + "external-ip"
LABEL_ACTIVATED = PREFIX + "activated"
"""``true`` where the external address is not the engine's, but the activator's."""
LABEL_DATA = PREFIX + "data-version"
"""Of the ConfigMaps and Secrets that it was created with."""

PROCESSES = 4096
"""How many processes a container may have: enough for servers, too few for a fork bomb to stop
the host. A guess."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """Where an Instance is on the networks of the host."""

    network: str = ""
    """The engine's network; empty for the engine's own default."""
    network_ip: str = ""
    external_ip: str = ""
    """The loopback address its ports are published on; empty where none is."""
    activated: bool = False
    """Whether the activator has that address, and not the engine."""


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What the engine's host sets for every container."""

    open_files: int = 0
    processes: int = 0
    """Both are 0 where the engine's own defaults are used."""


def container_name(instance: compute.Instance, container: str) -> str:
    """Unique through the uid: a successor of the same name is another container."""
    return f"{instance.metadata.name}-{container}-{instance.metadata.uid[:8]}"


def volume_name(instance: compute.Instance, volume: str) -> str:
    return f"{instance.metadata.name}-{volume}-{instance.metadata.uid[:8]}"


def platform_labels(platform: str, cell: str = "") -> dict[str, str]:
    return {LABEL_PLATFORM: platform, **({LABEL_CELL: cell} if cell else {})}


def instance_labels(platform: str, cell: str, instance: compute.Instance) -> dict[str, str]:
    metadata = instance.metadata
    return {
        **platform_labels(platform, cell),
        LABEL_NAMESPACE: metadata.namespace,
        LABEL_NAME: metadata.name,
        LABEL_UID: metadata.uid,
    }


def build_body(
    target: InstanceTarget,
    index: int,
    attachment: Attachment,
    limits: HostLimits,
    labels: Mapping[str, str],
    data: InstanceData = NO_DATA,
    directories: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The body of the request that creates container ``index`` of the Instance. ``directories``
    are those of its volumes on the engine's host."""
    sandbox = sandbox_of(target)
    container = sandbox.containers[index]
    millicores, memory = container_size(target, index)
    host: dict[str, Any] = {
        "RestartPolicy": {"Name": "no"},
        "CapDrop": ["ALL"],
        "CapAdd": list(CAPABILITIES),
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": PROCESSES,
        "NanoCpus": millicores * 1_000_000,
        "Memory": memory,
        "MemorySwap": memory,
    }
    host |= ulimits(limits)
    if mounts := _mounts(target.instance, container, directories or {}):
        host["Mounts"] = mounts
    body: dict[str, Any] = {
        "Image": container.image,
        "Env": [f"{name}={value}" for name, value in data.variables(target, container).items()],
        "Labels": {
            **labels,
            LABEL_CONTAINER: container.name,
            LABEL_NETWORK: attachment.network,
            LABEL_NETWORK_IP: attachment.network_ip,
            LABEL_EXTERNAL_IP: attachment.external_ip,
            **({LABEL_ACTIVATED: "true"} if attachment.activated else {}),
            LABEL_DATA: data.version,
        },
        "HostConfig": host,
    }
    if container.command:
        body["Entrypoint"] = list(container.command)
        # As in Kubernetes: a command without args does not get those of the image.
        body["Cmd"] = list(container.args)
    elif container.args:
        body["Cmd"] = list(container.args)
    if index == 0:
        body["Hostname"] = target.instance.metadata.name[:63]
        _attach(body, host, sandbox, attachment)
    else:
        first = container_name(target.instance, sandbox.containers[0].name)
        host["NetworkMode"] = f"container:{first}"
        body["Labels"][LABEL_JOINS] = first
    return body


def _mounts(
    instance: compute.Instance, container: compute.Container, directories: Mapping[str, str]
) -> list[dict[str, Any]]:
    found = []
    for each in container.volume_attachments:
        if not each.mount_path or each.name not in directories:
            continue
        mount: dict[str, Any] = {"Target": each.mount_path, "ReadOnly": True}
        if each.sub_path:
            # Engines older than docker 26 mount volumes only as a whole.
            path = posixpath.normpath(f"{directories[each.name]}/{each.sub_path}")
            mount |= {"Type": "bind", "Source": path}
        else:
            mount |= {"Type": "volume", "Source": volume_name(instance, each.name)}
        found.append(mount)
    return found


def removal_order(listed: Iterable[dict[str, Any]]) -> list[str]:
    """The ids of containers as the engine lists them, those that join the network of another
    first: podman does not remove a container that others depend on."""
    owners: list[str] = []
    joined: list[str] = []
    for container in listed:
        labels = container.get("Labels") or {}
        (joined if labels.get(LABEL_JOINS) else owners).append(str(container["Id"]))
    return joined + owners


def ulimits(limits: HostLimits) -> dict[str, Any]:
    """Both or none: with one of them podman raises the other above what the host allows."""
    if not limits.open_files:
        return {}
    named = {"nofile": limits.open_files, "nproc": limits.processes}
    return {"Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in named.items()]}


def hardware_address(address: str) -> str:
    """One for each IPv4 address, as docker has it. podman gives a new one at every start, and the
    kernel of this host sends to the one it knows for up to a minute: until then nothing that was
    started again could be reached."""
    return ":".join(f"{each:02x}" for each in (0x02, 0x42, *IPv4Address(address).packed))


def _attach(
    body: dict[str, Any],
    host: dict[str, Any],
    sandbox: compute.Sandbox,
    attachment: Attachment,
) -> None:
    if attachment.network:
        host["NetworkMode"] = attachment.network
        endpoint = {
            "IPAMConfig": {"IPv4Address": attachment.network_ip},
            "MacAddress": hardware_address(attachment.network_ip),
        }
        body["NetworkingConfig"] = {"EndpointsConfig": {attachment.network: endpoint}}
    ports = [
        f"{port.port}/{port.protocol.lower()}" for each in sandbox.containers for port in each.ports
    ]
    body["ExposedPorts"] = {port: {} for port in ports}
    if attachment.external_ip and not attachment.activated:
        host["PortBindings"] = {
            port: [{"HostIp": attachment.external_ip, "HostPort": port.split("/")[0]}]
            for port in ports
        }
