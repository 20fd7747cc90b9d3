"""What every provider of containers reads from an Instance. Pure.

An Instance has a sandbox of containers; a virtual machine or a disk is refused. What a provider
creates for it carries the labels below, by which it is found again.
"""

from __future__ import annotations

import re

from datum_compute.api import quantities
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.instance_types import INSTANCE_TYPES
from datum_compute.providers.errors import Rejected
from datum_compute.providers.protocol import InstanceTarget

PREFIX = "compute.datumapis.com/"
LABEL_NAMESPACE = PREFIX + "instance-namespace"
LABEL_NAME = PREFIX + "instance-name"
LABEL_UID = PREFIX + "instance-uid"

GRACE_SECONDS = 10
"""Between TERM and KILL, as docker and Heroku do."""
SETTLE_SECONDS = 5.0
"""An Instance without a TCP port is available once it has been up for this long."""

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

_COMMAND = re.compile(r'exec: \\?"(.+?)\\?": (.+?)(?:: unknown)?(?:: OCI .*)?$')


def sandbox_of(target: InstanceTarget) -> compute.Sandbox:
    sandbox = target.instance.spec.runtime.sandbox
    if sandbox is None:
        raise Rejected(
            compute.REASON_CONFIGURATION_ERROR,
            "this runtime cannot run virtual machines: use runtime.sandbox",
        )
    disks = [volume.name for volume in target.instance.spec.volumes if volume.disk is not None]
    if disks:
        raise Rejected(
            compute.REASON_CONFIGURATION_ERROR,
            f'volume "{disks[0]}": this runtime has no disks; data in a container is lost with it',
        )
    return sandbox


def field_value(instance: compute.Instance, path: str) -> str:
    """What ``fieldRef`` takes. Raises ``Rejected``."""
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


def unserved_source(container: compute.Container, variable: compute.EnvVar) -> Rejected:
    return Rejected(
        compute.REASON_CONFIGURATION_ERROR,
        f"container {container.name}: env {variable.name}: this source of a value is not served by"
        " this runtime; give a literal value",
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


def describe_command(text: str) -> str:
    """The command that runc cannot run, and why, from a message of an engine or a kubelet; empty
    where the message is about something else."""
    found = _COMMAND.search(text)
    return f"its command cannot be run: {found[1]}: {found[2]}" if found else ""
