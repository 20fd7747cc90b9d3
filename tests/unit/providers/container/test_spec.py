"""What the engine is told to run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers import sandbox
from datum_compute.providers.container import spec
from datum_compute.providers.container.spec import Attachment, HostLimits
from datum_compute.providers.data import NO_DATA
from datum_compute.providers.errors import Rejected
from datum_compute.providers.protocol import InstanceTarget

ATTACHMENT = Attachment("datum-dfw-1", "10.128.0.2", "127.64.0.2")


def target(*containers: dict[str, Any], **fields: Any) -> InstanceTarget:
    body = {
        "apiVersion": compute.INSTANCES.api_version,
        "kind": "Instance",
        "metadata": {
            "name": "web-0",
            "namespace": "ns-1",
            "uid": "12345678-aaaa",
            "labels": {"tier": "front"},
        },
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": list(containers) or [{"name": "app", "image": "a:1"}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            **fields,
        },
    }
    return InstanceTarget("dfw", msgspec.convert(body, compute.Instance))


def body(found: InstanceTarget, index: int = 0, limits: HostLimits | None = None) -> dict[str, Any]:
    labels = spec.instance_labels("platform", "dfw", found.instance)
    return spec.build_body(found, index, ATTACHMENT, limits or HostLimits(), labels)


def test_the_engine_publishes_no_port_of_an_instance_that_sleeps() -> None:
    found = target({"name": "app", "image": "a:1", "ports": [{"name": "http", "port": 80}]})
    published = spec.build_body(found, 0, ATTACHMENT, HostLimits(), {})
    asleep = spec.build_body(found, 0, replace(ATTACHMENT, activated=True), HostLimits(), {})

    assert published["HostConfig"]["PortBindings"]["80/tcp"][0]["HostIp"] == "127.64.0.2"
    assert "PortBindings" not in asleep["HostConfig"]
    assert asleep["Labels"][spec.LABEL_EXTERNAL_IP] == "127.64.0.2"
    assert asleep["Labels"][spec.LABEL_ACTIVATED] == "true"
    assert spec.LABEL_ACTIVATED not in published["Labels"]


def test_a_container_has_the_size_of_the_instance_type_and_no_privileges() -> None:
    host = body(target())["HostConfig"]

    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (
        1_000_000_000,
        2048 * 2**20,
        2048 * 2**20,
    )
    assert host["CapDrop"] == ["ALL"]
    assert not {"NET_RAW", "MKNOD", "SYS_ADMIN", "NET_ADMIN"} & set(host["CapAdd"])
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["RestartPolicy"] == {"Name": "no"}
    assert "Privileged" not in host
    assert "Ulimits" not in host


def test_limits_of_the_host_come_in_pairs() -> None:
    host = body(target(), limits=HostLimits(20000, 4096))["HostConfig"]

    assert [each["Name"] for each in host["Ulimits"]] == ["nofile", "nproc"]


def test_declared_ports_are_published_on_the_loopback_address() -> None:
    ports = [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    found = body(target({"name": "app", "image": "a:1", "ports": ports}))

    assert found["HostConfig"]["PortBindings"] == {
        "80/tcp": [{"HostIp": "127.64.0.2", "HostPort": "80"}],
        "53/udp": [{"HostIp": "127.64.0.2", "HostPort": "53"}],
    }
    endpoint = found["NetworkingConfig"]["EndpointsConfig"]["datum-dfw-1"]
    assert endpoint == {
        "IPAMConfig": {"IPv4Address": "10.128.0.2"},
        "MacAddress": "02:42:0a:80:00:02",
    }


def test_further_containers_join_the_network_of_the_first() -> None:
    found = target({"name": "app", "image": "a:1"}, {"name": "side", "image": "b:1"})

    second = body(found, 1)
    assert second["HostConfig"]["NetworkMode"] == "container:web-0-app-12345678"
    assert "NetworkingConfig" not in second


def test_a_command_replaces_the_entrypoint_and_drops_the_images_arguments() -> None:
    replaced = body(target({"name": "app", "image": "a:1", "command": ["/run"]}))
    extended = body(target({"name": "app", "image": "a:1", "args": ["-v"]}))
    plain = body(target())

    assert (replaced["Entrypoint"], replaced["Cmd"]) == (["/run"], [])
    assert "Entrypoint" not in extended
    assert extended["Cmd"] == ["-v"]
    assert "Cmd" not in plain


def test_labels_name_platform_cell_instance_and_addresses() -> None:
    labels = body(target())["Labels"]

    assert labels[spec.LABEL_PLATFORM] == "platform"
    assert labels[spec.LABEL_CELL] == "dfw"
    assert labels[sandbox.LABEL_UID] == "12345678-aaaa"
    assert labels[spec.LABEL_EXTERNAL_IP] == "127.64.0.2"
    assert labels[spec.LABEL_NETWORK] == "datum-dfw-1"


def test_a_successor_of_the_same_name_is_another_container() -> None:
    first = target().instance
    second = msgspec.convert(
        {"metadata": {"name": "web-0", "uid": "87654321-bbbb"}}, compute.Instance
    )

    assert spec.container_name(first, "app") != spec.container_name(second, "app")


def test_variables_may_take_fields_of_the_instance() -> None:
    def from_field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    env = [
        {"name": "PLAIN", "value": "1"},
        from_field("NAME", "metadata.name"),
        from_field("TIER", "metadata.labels['tier']"),
    ]
    found = body(target({"name": "app", "image": "a:1", "env": env}))

    assert found["Env"] == ["PLAIN=1", "NAME=web-0", "TIER=front"]


def test_what_an_engine_cannot_run_is_refused_with_the_field() -> None:
    virtual = {"metadata": {"name": "vm"}, "spec": {"runtime": {"virtualMachine": {}}}}
    machine = InstanceTarget("dfw", msgspec.convert(virtual, compute.Instance))
    with pytest.raises(Rejected, match="cannot run virtual machines"):
        sandbox.sandbox_of(machine)
    with pytest.raises(Rejected, match='volume "data": this runtime has no disks'):
        sandbox.sandbox_of(target(volumes=[{"name": "data", "disk": {}}]))
    unknown = [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]
    with pytest.raises(Rejected, match=r'fieldRef "status.hostIP": expected one of metadata.name'):
        body(target({"name": "app", "image": "a:1", "env": unknown}))


def test_the_first_tcp_port_decides_readiness() -> None:
    ports = [{"name": "d", "port": 53, "protocol": "UDP"}, {"name": "h", "port": 80}]
    with_ports = sandbox.sandbox_of(target({"name": "app", "image": "a:1", "ports": ports}))

    assert sandbox.first_tcp_port(with_ports) == 80
    assert sandbox.first_tcp_port(sandbox.sandbox_of(target())) is None


def test_volumes_are_mounted_read_only_and_a_sub_path_alone() -> None:
    attachments = [
        {"name": "files", "mountPath": "/etc/files"},
        {"name": "files", "mountPath": "/etc/one", "subPath": "deep/one"},
        {"name": "files"},
    ]
    found = target({"name": "app", "image": "a:1", "volumeAttachments": attachments})
    directories = {"files": "/var/volumes/x"}
    made = spec.build_body(found, 0, ATTACHMENT, HostLimits(), {}, NO_DATA, directories)

    assert made["HostConfig"]["Mounts"] == [
        {
            "Target": "/etc/files",
            "ReadOnly": True,
            "Type": "volume",
            "Source": "web-0-files-12345678",
        },
        {
            "Target": "/etc/one",
            "ReadOnly": True,
            "Type": "bind",
            "Source": "/var/volumes/x/deep/one",
        },
    ]


def test_containers_that_join_the_network_of_another_are_removed_before_it() -> None:
    listed = [
        {"Id": "owner", "Labels": {}},
        {"Id": "joined", "Labels": {spec.LABEL_JOINS: "owner"}},
    ]

    assert spec.removal_order(listed) == ["joined", "owner"]
