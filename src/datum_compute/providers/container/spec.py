"""The containers of an Instance, as the engine creates them. Pure.

Each container of the sandbox becomes one container of the engine. The first owns the network,
and the others join it, so they reach each other on localhost. The labels are the record: they
name the platform, the cell, the Instance with its uid, and its addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datum_compute.api import quantities
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.instance_types import INSTANCE_TYPES
from datum_compute.providers.errors import Rejected
from datum_compute.providers.protocol import InstanceTarget

PREFIX = "compute.datumapis.com/"
LABEL_PLATFORM = PREFIX + "platform"
LABEL_CELL = PREFIX + "cell"
LABEL_NAMESPACE = PREFIX + "instance-namespace"
LABEL_NAME = PREFIX + "instance-name"
LABEL_UID = PREFIX + "instance-uid"
LABEL_CONTAINER = PREFIX + "container"
LABEL_NETWORK = PREFIX + "network"
LABEL_NETWORK_IP = PREFIX + "network-ip"
LABEL_EXTERNAL_IP = PREFIX + "external-ip"

CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""Those of docker less AUDIT_WRITE, MKNOD and NET_RAW, which podman does not give either."""

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


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What the engine's host sets for every container."""

    open_files: int = 0
    processes: int = 0
    """Both are 0 where the engine's own defaults are used."""


def container_name(instance: compute.Instance, container: str) -> str:
    """Unique through the uid: a successor of the same name is another container."""
    return f"{instance.metadata.name}-{container}-{instance.metadata.uid[:8]}"


def sandbox_of(target: InstanceTarget) -> compute.Sandbox:
    sandbox = target.instance.spec.runtime.sandbox
    if sandbox is None:
        raise Rejected(
            compute.REASON_CONFIGURATION_ERROR,
            "a container engine cannot run virtual machines: use runtime.sandbox",
        )
    disks = [volume.name for volume in target.instance.spec.volumes if volume.disk is not None]
    if disks:
        raise Rejected(
            compute.REASON_CONFIGURATION_ERROR,
            f'volume "{disks[0]}": this runtime has no disks; data in a container is lost with it',
        )
    return sandbox


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
) -> dict[str, Any]:
    """The body of the request that creates container ``index`` of the Instance."""
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
    body: dict[str, Any] = {
        "Image": container.image,
        "Env": [f"{name}={value}" for name, value in environment(target, container).items()],
        "Labels": {
            **labels,
            LABEL_CONTAINER: container.name,
            LABEL_NETWORK: attachment.network,
            LABEL_NETWORK_IP: attachment.network_ip,
            LABEL_EXTERNAL_IP: attachment.external_ip,
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
    return body


def ulimits(limits: HostLimits) -> dict[str, Any]:
    """Both or none: with one of them podman raises the other above what the host allows."""
    if not limits.open_files:
        return {}
    named = {"nofile": limits.open_files, "nproc": limits.processes}
    return {"Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in named.items()]}


def _attach(
    body: dict[str, Any],
    host: dict[str, Any],
    sandbox: compute.Sandbox,
    attachment: Attachment,
) -> None:
    if attachment.network:
        host["NetworkMode"] = attachment.network
        body["NetworkingConfig"] = {
            "EndpointsConfig": {
                attachment.network: {"IPAMConfig": {"IPv4Address": attachment.network_ip}}
            }
        }
    ports = [
        f"{port.port}/{port.protocol.lower()}" for each in sandbox.containers for port in each.ports
    ]
    body["ExposedPorts"] = {port: {} for port in ports}
    if attachment.external_ip:
        host["PortBindings"] = {
            port: [{"HostIp": attachment.external_ip, "HostPort": port.split("/")[0]}]
            for port in ports
        }


def environment(target: InstanceTarget, container: compute.Container) -> dict[str, str]:
    """The literal variables and those of the Instance's own fields; references to data are
    refused before a provider is called."""
    found = {}
    for variable in container.env:
        source = variable.value_from
        if source is None:
            found[variable.name] = variable.value
        elif source.field_ref is not None:
            found[variable.name] = _field(target.instance, source.field_ref.field_path)
        else:
            raise Rejected(
                compute.REASON_CONFIGURATION_ERROR,
                f"container {container.name}: env {variable.name}: this source of a value is"
                " not served by this runtime; give a literal value",
            )
    return found


def _field(instance: compute.Instance, path: str) -> str:
    metadata = instance.metadata
    plain = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
    }
    if path in plain:
        return plain[path]
    for prefix, values in (
        ("metadata.labels['", metadata.labels),
        ("metadata.annotations['", metadata.annotations),
    ):
        if path.startswith(prefix) and path.endswith("']"):
            return values.get(path[len(prefix) : -2], "")
    raise Rejected(
        compute.REASON_CONFIGURATION_ERROR,
        f"env fieldRef \"{path}\": expected one of {', '.join(plain)}, metadata.labels['KEY']"
        " or metadata.annotations['KEY']",
    )


def container_size(target: InstanceTarget, index: int) -> tuple[int, int]:
    """Millicores and bytes of memory: the container's own limits, else the instance type's."""
    resources = target.instance.spec.runtime.resources
    known = INSTANCE_TYPES.get(resources.instance_type)
    if known is None:
        raise Rejected(
            compute.REASON_CONFIGURATION_ERROR,
            f'instance type "{resources.instance_type}": expected one of'
            f" {', '.join(INSTANCE_TYPES)}",
        )
    container = sandbox_of(target).containers[index]
    own = container.resources.limits if container.resources else {}
    adjusted = {**resources.requests, **own}
    millicores, memory = known.millicores, known.mebibytes * 2**20
    if "cpu" in adjusted:
        millicores = int(quantities.parse(adjusted["cpu"]) * 1000)
    if "memory" in adjusted:
        memory = int(quantities.parse(adjusted["memory"]))
    return millicores, memory


def first_tcp_port(sandbox: compute.Sandbox) -> int | None:
    """The port whose answer means that the Instance is ready to serve."""
    ports = (port for container in sandbox.containers for port in container.ports)
    return next((port.port for port in ports if port.protocol == "TCP"), None)
