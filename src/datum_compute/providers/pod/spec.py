"""The Pod of an Instance. Pure.

The Pod is in the namespace of its Instance, which owns it, and carries no label or annotation
that a project has set: some of those would change how the cluster treats it.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.name_patterns import LABEL_LIMIT
from datum_compute.providers.errors import Rejected
from datum_compute.providers.pod.settings import RESTRICTED, PodSettings
from datum_compute.providers.protocol import InstanceTarget
from datum_compute.providers.sandbox import (
    CAPABILITIES,
    GRACE_SECONDS,
    LABEL_NAME,
    LABEL_NAMESPACE,
    LABEL_UID,
    container_size,
    environment,
    first_tcp_port,
    sandbox_of,
)

SELECTOR = LABEL_UID
"""The label that every Pod of an Instance has."""
PODS_BY_UID = "provider/instance-uid"

PROBE_SECONDS = 2
"""Between two looks at the port. A guess: Kubernetes' ten delay every start."""


def pod_name(instance: compute.Instance) -> str:
    """Unique through the uid: a successor of the same name is another Pod."""
    uid = instance.metadata.uid[:8]
    return f"{instance.metadata.name[: LABEL_LIMIT - 1 - len(uid)].rstrip('-.')}-{uid}"


def instance_uid_of(pod: Object) -> list[str]:
    return [pod.metadata.labels.get(LABEL_UID, "")]


def build_pod(target: InstanceTarget, settings: PodSettings) -> dict[str, Any]:
    """Without its owner. Raises ``Rejected`` for what a Pod cannot run."""
    sandbox = sandbox_of(target)
    metadata = target.instance.metadata
    for volume in target.instance.spec.volumes:
        raise Rejected(
            compute.REASON_CONFIGURATION_ERROR,
            f'volume "{volume.name}": this runtime mounts no volumes',
        )
    spec: dict[str, Any] = {
        "hostname": metadata.name.replace(".", "-")[:LABEL_LIMIT].rstrip("-"),
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        # Variables that name the Services of the namespace are not the Instance's.
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            _container(target, index, settings) for index in range(len(sandbox.containers))
        ],
    }
    if settings.pod_security == RESTRICTED:
        spec["securityContext"]["runAsNonRoot"] = True
    if settings.runtime_class:
        spec["runtimeClassName"] = settings.runtime_class
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        spec["tolerations"] = [dict(each) for each in settings.tolerations]
    labels = {
        LABEL_NAMESPACE: metadata.namespace,
        LABEL_NAME: metadata.name[:LABEL_LIMIT].rstrip("-."),
        LABEL_UID: metadata.uid,
    }
    return {
        "metadata": {
            "name": pod_name(target.instance),
            "namespace": metadata.namespace,
            "labels": labels,
        },
        "spec": spec,
    }


def _container(target: InstanceTarget, index: int, settings: PodSettings) -> dict[str, Any]:
    sandbox = sandbox_of(target)
    container = sandbox.containers[index]
    millicores, memory = _size(target, index)
    size = {"cpu": f"{millicores}m", "memory": str(memory)}
    added = [] if settings.pod_security == RESTRICTED else list(CAPABILITIES)
    body: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "env": [
            {"name": name, "value": value} for name, value in environment(target, container).items()
        ],
        "ports": [
            {"containerPort": port.port, "protocol": port.protocol} for port in container.ports
        ],
        "resources": {"requests": size, "limits": size},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], **({"add": added} if added else {})},
        },
    }
    if container.command:
        body["command"] = list(container.command)
    if container.args:
        body["args"] = list(container.args)
    port = first_tcp_port(sandbox)
    if port is not None and any(each.port == port for each in container.ports):
        body["readinessProbe"] = {
            "tcpSocket": {"port": port},
            "periodSeconds": PROBE_SECONDS,
        }
    return body


def _size(target: InstanceTarget, index: int) -> tuple[int, int]:
    """The instance type is the size of the whole Instance: containers without limits of their own
    share it."""
    containers = sandbox_of(target).containers
    shares = []
    for name, amount in zip(("cpu", "memory"), container_size(target, index), strict=True):
        sharing = [each for each in containers if not _has_limit(each, name)]
        shares.append(amount if _has_limit(containers[index], name) else amount // len(sharing))
    return shares[0], shares[1]


def _has_limit(container: compute.Container, name: str) -> bool:
    return container.resources is not None and name in container.resources.limits
