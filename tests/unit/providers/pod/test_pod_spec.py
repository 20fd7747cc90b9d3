"""The Pod that an Instance becomes, and the settings of a cell."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.references import Reference, references_of
from datum_compute.providers import registry
from datum_compute.providers.errors import Rejected
from datum_compute.providers.pod import PodSettings, settings, spec
from datum_compute.providers.protocol import InstanceTarget


def target(*containers: dict[str, Any], **more: Any) -> InstanceTarget:
    body = {
        "metadata": {
            "name": "web-0",
            "namespace": "ns-1",
            "uid": "12345678-aaaa",
            "labels": {"tier": "tenant", compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: "web"},
            "annotations": {"container.apparmor.security.beta.kubernetes.io/app": "unconfined"},
        },
        "spec": {
            "runtime": {
                "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
                "sandbox": {"containers": containers or ({"name": "app", "image": "a:1"},)},
            },
            **more,
        },
    }
    return InstanceTarget("single", msgspec.convert(body, compute.Instance))


def built(found: InstanceTarget, **values: str) -> dict[str, Any]:
    named = references_of(found.instance.spec)
    return spec.build_pod(found, PodSettings.parse(values), named)


def test_the_pod_is_named_and_labelled_by_its_instance() -> None:
    pod = built(target())

    assert pod["metadata"] == {
        "name": "web-0-12345678",
        "namespace": "ns-1",
        "labels": {
            "compute.datumapis.com/instance-namespace": "ns-1",
            "compute.datumapis.com/instance-name": "web-0",
            "compute.datumapis.com/instance-uid": "12345678-aaaa",
            "compute.datumapis.com/workload-deployment-name": "web",
        },
    }
    assert pod["spec"]["hostname"] == "web-0"


def test_labels_and_annotations_of_the_project_do_not_reach_the_pod() -> None:
    text = json.dumps(built(target()))

    assert "tenant" not in text
    assert "apparmor" not in text


def test_requests_and_limits_are_the_size_of_the_instance_type() -> None:
    [container] = built(target())["spec"]["containers"]

    size = {"cpu": "1000m", "memory": str(2048 * 2**20)}
    assert container["resources"] == {"requests": size, "limits": size}


def test_containers_of_one_instance_share_its_size() -> None:
    own = {"limits": {"memory": "512Mi"}}
    pod = built(
        target(
            {"name": "app", "image": "a:1"},
            {"name": "side", "image": "b:1", "resources": own},
        )
    )

    limits = [each["resources"]["limits"] for each in pod["spec"]["containers"]]
    assert limits == [
        {"cpu": "500m", "memory": str(2048 * 2**20)},
        {"cpu": "500m", "memory": str(512 * 2**20)},
    ]


def test_the_first_tcp_port_is_the_readiness_probe() -> None:
    ports = [{"name": "d", "port": 53, "protocol": "UDP"}, {"name": "h", "port": 80}]
    pod = built(
        target({"name": "side", "image": "b:1"}, {"name": "app", "image": "a:1", "ports": ports})
    )

    side, app = pod["spec"]["containers"]
    assert "readinessProbe" not in side
    assert app["readinessProbe"]["tcpSocket"] == {"port": 80}


@pytest.mark.parametrize("security", ["baseline", "restricted"])
def test_no_pod_gets_credentials_or_privileges(security: str) -> None:
    pod = built(target(), **{"pod-security": security})["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["restartPolicy"] == "Always"
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    capabilities = container["securityContext"]["capabilities"]
    assert capabilities["drop"] == ["ALL"]
    # Those that the standard "baseline" allows to add.
    assert set(capabilities.get("add", [])) <= {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }


def test_restricted_pods_do_not_run_as_root() -> None:
    pod = built(target(), **{"pod-security": "restricted"})["spec"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "add" not in pod["containers"][0]["securityContext"]["capabilities"]


def test_settings_choose_runtime_class_and_nodes() -> None:
    pod = built(
        target(),
        **{
            "runtime-class": "gvisor",
            "node-selector": "pool=instances,disk=ssd",
            "tolerations": "dedicated=instances:NoSchedule, spot",
        },
    )["spec"]

    assert pod["runtimeClassName"] == "gvisor"
    assert pod["nodeSelector"] == {"pool": "instances", "disk": "ssd"}
    assert pod["tolerations"] == [
        {
            "key": "dedicated",
            "operator": "Equal",
            "value": "instances",
            "effect": "NoSchedule",
        },
        {"key": "spot", "operator": "Exists"},
    ]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("pod-security", "none", "expected baseline or restricted"),
        ("runtime-class", "No Name", "expected a name of a RuntimeClass"),
        ("node-selector", "pool", 'node-selector: "pool": expected KEY=VALUE'),
        ("tolerations", "a:Never", "EFFECT is one of NoSchedule"),
    ],
)
def test_a_bad_setting_is_refused_with_what_is_allowed(name: str, value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PodSettings.parse({name: value})


def test_the_record_of_the_provider_names_every_setting() -> None:
    names = {settings.POD_SECURITY, settings.RUNTIME_CLASS}
    names |= {settings.NODE_SELECTOR, settings.TOLERATIONS}

    assert set(registry.find("pod").settings) == names


def test_what_a_pod_cannot_run_is_refused_with_the_field() -> None:
    virtual = {"metadata": {"name": "vm"}, "spec": {"runtime": {"virtualMachine": {}}}}
    machine = InstanceTarget("single", msgspec.convert(virtual, compute.Instance))
    with pytest.raises(Rejected, match="cannot run virtual machines"):
        built(machine)
    with pytest.raises(Rejected, match='volume "data": this runtime has no disks'):
        built(target(volumes=[{"name": "data", "disk": {}}]))


CONTAINER_WITH_DATA = {
    "name": "app",
    "image": "a:1",
    "env": [
        {
            "name": "A",
            "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a", "optional": False}},
        },
        {
            "name": "B",
            "valueFrom": {"secretKeyRef": {"name": "keys", "key": "b", "optional": True}},
        },
    ],
    "envFrom": [{"prefix": "P_", "secretRef": {"name": "keys", "optional": True}}],
    "volumeAttachments": [
        {"name": "files", "mountPath": "/etc/files"},
        {"name": "keys", "mountPath": "/etc/one", "subPath": "one"},
    ],
}
VOLUMES = [
    {
        "name": "files",
        "configMap": {
            "name": "settings",
            "defaultMode": 0o440,
            "items": [{"key": "a", "path": "b/c", "mode": 0o400}],
            "optional": False,
        },
    },
    {"name": "keys", "secret": {"secretName": "keys", "optional": True}},
]


def test_a_pod_refers_to_the_config_maps_and_secrets_of_its_instance() -> None:
    pod = built(target(CONTAINER_WITH_DATA, volumes=VOLUMES))["spec"]
    [container] = pod["containers"]

    assert container["env"] == CONTAINER_WITH_DATA["env"]
    assert container["envFrom"] == CONTAINER_WITH_DATA["envFrom"]
    assert container["volumeMounts"] == [
        {"name": "files", "mountPath": "/etc/files", "readOnly": True},
        {"name": "keys", "mountPath": "/etc/one", "readOnly": True, "subPath": "one"},
    ]
    assert pod["volumes"] == VOLUMES


def test_a_pod_does_not_refer_to_data_that_was_not_delivered_for_it() -> None:
    found = target(CONTAINER_WITH_DATA, volumes=VOLUMES)
    delivered = [Reference("ConfigMap", "settings")]
    pod = spec.build_pod(found, PodSettings(), delivered)["spec"]
    [container] = pod["containers"]

    assert container["env"] == CONTAINER_WITH_DATA["env"][:1]
    assert "envFrom" not in container
    assert pod["volumes"] == [VOLUMES[0], {"name": "keys", "emptyDir": {}}]


def test_a_long_name_leaves_room_for_the_uid() -> None:
    found = target()
    long = msgspec.structs.replace(found.instance.metadata, name="w" * 70)
    instance = msgspec.structs.replace(found.instance, metadata=long)
    pod = built(InstanceTarget("single", instance))

    assert pod["metadata"]["name"] == "w" * 54 + "-12345678"
    assert max(map(len, pod["metadata"]["labels"].values())) <= 63
