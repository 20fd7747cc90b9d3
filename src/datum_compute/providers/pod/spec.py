"""The Pod of an Instance. Pure.

The Pod is in the namespace of its Instance, which owns it, and carries no label or annotation
that a project has set: some of those would change how the cluster treats it. It refers to the
ConfigMaps and Secrets that were delivered for the Instance; their content is never read here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import msgspec

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.name_patterns import LABEL_LIMIT
from datum_compute.decisions import references
from datum_compute.decisions.references import Reference
from datum_compute.providers.pod.settings import RESTRICTED, PodSettings
from datum_compute.providers.protocol import InstanceTarget
from datum_compute.providers.sandbox import (
    CAPABILITIES,
    GRACE_SECONDS,
    LABEL_NAME,
    LABEL_NAMESPACE,
    LABEL_UID,
    container_size,
    field_value,
    first_tcp_port,
    sandbox_of,
    unserved_source,
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


def deployment_labels(instance: compute.Instance) -> dict[str, str]:
    """By which the Service of a deployment selects its Pods."""
    label = compute.LABEL_WORKLOAD_DEPLOYMENT_NAME
    name = instance.metadata.labels.get(label)
    return {label: name} if name else {}


def build_pod(
    target: InstanceTarget, settings: PodSettings, delivered: Iterable[Reference]
) -> dict[str, Any]:
    """Without its owner. Raises ``Rejected`` for what a Pod cannot run."""
    sandbox = sandbox_of(target)
    metadata = target.instance.metadata
    entries = frozenset(each.entry for each in delivered)
    spec: dict[str, Any] = {
        "hostname": metadata.name.replace(".", "-")[:LABEL_LIMIT].rstrip("-"),
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        # Variables that name the Services of the namespace are not the Instance's.
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            _container(target, index, settings, entries) for index in range(len(sandbox.containers))
        ],
    }
    if volumes := target.instance.spec.volumes:
        spec["volumes"] = [_volume(each, entries) for each in volumes]
    if sandbox.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": each.name} for each in sandbox.image_pull_secrets]
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
        **deployment_labels(target.instance),
    }
    return {
        "metadata": {
            "name": pod_name(target.instance),
            "namespace": metadata.namespace,
            "labels": labels,
        },
        "spec": spec,
    }


def _volume(volume: compute.Volume, delivered: Container[str]) -> dict[str, Any]:
    """An optional one that was not delivered is empty: the cell may have it for others."""
    named = references.volume_reference(volume)
    if named is None or named[0].entry not in delivered:
        return {"name": volume.name, "emptyDir": {}}
    found: dict[str, Any] = _given(msgspec.to_builtins(volume))
    return found


def _given(value: Any) -> Any:
    """Without the fields that are not set."""
    if isinstance(value, dict):
        return {key: _given(one) for key, one in value.items() if one not in (None, "", ())}
    return [_given(one) for one in value] if isinstance(value, tuple) else value


def _environment(
    target: InstanceTarget, container: compute.Container, delivered: Container[str]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for variable in container.env:
        source = variable.value_from
        if source is None:
            found.append({"name": variable.name, "value": variable.value})
        elif source.field_ref is not None:
            # Of the Instance, not of the Pod.
            value = field_value(target.instance, source.field_ref.field_path)
            found.append({"name": variable.name, "value": value})
        elif named := references.variable_reference(source):
            if named[0].entry in delivered:
                taken = _given(msgspec.to_builtins(source))
                found.append({"name": variable.name, "valueFrom": taken})
        else:
            raise unserved_source(container, variable)
    return found


def _environment_from(
    container: compute.Container, delivered: Container[str]
) -> list[dict[str, Any]]:
    found = []
    for source in container.env_from:
        reference = references.variables_reference(source)
        if reference is not None and reference.entry in delivered:
            found.append(_given(msgspec.to_builtins(source)))
    return found


def _mounts(container: compute.Container) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "mountPath": each.mount_path,
            "readOnly": True,
            **({"subPath": each.sub_path} if each.sub_path else {}),
        }
        for each in container.volume_attachments
        if each.mount_path
    ]


def _container(
    target: InstanceTarget, index: int, settings: PodSettings, delivered: Container[str]
) -> dict[str, Any]:
    sandbox = sandbox_of(target)
    container = sandbox.containers[index]
    millicores, memory = _size(target, index)
    size = {"cpu": f"{millicores}m", "memory": str(memory)}
    added = [] if settings.pod_security == RESTRICTED else list(CAPABILITIES)
    body: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "env": _environment(target, container, delivered),
        "ports": [
            {"containerPort": port.port, "protocol": port.protocol} for port in container.ports
        ],
        "resources": {"requests": size, "limits": size},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], **({"add": added} if added else {})},
        },
    }
    if taken := _environment_from(container, delivered):
        body["envFrom"] = taken
    if mounts := _mounts(container):
        body["volumeMounts"] = mounts
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
