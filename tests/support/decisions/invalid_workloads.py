"""Invalid Workloads: base, change, and the exact errors.

The paths of changes and errors may begin with a word of ``workloads.SHORT``. The project has
the cities DFW, IAD and LHR; network ``secret-lab`` may not be used by the author.
"""

# ruff: noqa: E501 - a row of the table is a line where it can be

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.support.decisions.workloads import CONTAINER, MACHINE, REMOVED


@dataclass(frozen=True)
class InvalidWorkload:
    what: str
    base: dict[str, Any]
    changes: dict[str, Any]
    errors: list[str]


LABEL = (
    "must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends"
)
OBJECT = (
    "must be the name of an object: lower-case letters, digits, '-' and '.',"
    " with a letter or digit at both ends of each part"
)
PORT = (
    "must be the name of a port: lower-case letters, digits and single '-' between them,"
    " with at least one letter"
)
KEY = (
    "must be letters, digits, '-', '_' and '.', with a letter or digit at both ends,"
    " after an optional DNS prefix and '/'"
)
SSH = "must be USER:KEY with an SSH public key, as in ana:ssh-ed25519 AAAAC3Nz… ana@example"
SSH_KEYS = "spec.template.metadata.annotations[compute.datumapis.com/ssh-keys]"
CITIES = 'supported values: "DFW", "IAD", "LHR"'
WITHIN = "must be a path within the volume, without ':' and '..'"
MOUNT = "must be an absolute path without ':' and '..'"
QUANTITY = "must be a quantity such as 500m, 2 or 25Gi"
CPU = {"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}


def metric(**target: Any) -> dict[str, Any]:
    return {"resource": {"name": "cpu", "target": target}}


# fmt: off
INVALID_WORKLOADS = [
    # the object
    InvalidWorkload("no spec", CONTAINER, {"spec": REMOVED}, ["spec: Required value"]),
    InvalidWorkload("spec is a text", CONTAINER, {"spec": "run it"}, ['spec: Invalid value: "string": must be an object']),
    InvalidWorkload("no template, no placements", CONTAINER, {"spec": {}}, [
        "spec.template: Required value",
        "spec.placements: Required value: at least one placement",
    ]),
    InvalidWorkload("not an object", CONTAINER, {"": [1]}, ['<nil>: Invalid value: "array": must be an object']),
    InvalidWorkload("nothing", CONTAINER, {"": None}, ["<nil>: Required value"]),
    InvalidWorkload("no name", CONTAINER, {"metadata.name": REMOVED}, ["metadata.name: Required value"]),
    InvalidWorkload("name with a dot", CONTAINER, {"metadata.name": "api.v2"}, [f'metadata.name: Invalid value: "api.v2": {LABEL}']),
    InvalidWorkload("name in capitals", CONTAINER, {"metadata.name": "API"}, [f'metadata.name: Invalid value: "API": {LABEL}']),
    InvalidWorkload("name too long", CONTAINER, {"metadata.name": "a" * 64}, ["metadata.name: Too long: may not be more than 63 bytes"]),
    InvalidWorkload("generated name with a dot", CONTAINER, {"metadata": {"generateName": "api."}}, [f'metadata.generateName: Invalid value: "api.": {LABEL}']),

    # template metadata
    InvalidWorkload("label key with spaces", CONTAINER, {"spec.template.metadata.labels": {"my team": "a"}}, [
        f'spec.template.metadata.labels[my team]: Invalid value: "my team": {KEY}',
    ]),
    InvalidWorkload("label value with spaces", CONTAINER, {"spec.template.metadata.labels": {"team": "a b"}}, [
        'spec.template.metadata.labels[team]: Invalid value: "a b": must be empty, or letters, digits,'
        " '-', '_' and '.' with a letter or digit at both ends",
    ]),
    InvalidWorkload("label value too long", CONTAINER, {"spec.template.metadata.labels": {"team": "a" * 64}}, [
        "spec.template.metadata.labels[team]: Too long: may not be more than 63 bytes",
    ]),
    InvalidWorkload("annotation of a number", CONTAINER, {"spec.template.metadata.annotations": {"a": 1}}, [
        'spec.template.metadata.annotations[a]: Invalid value: "integer": must be a string',
    ]),
    InvalidWorkload("annotations beyond what an Instance can carry", CONTAINER, {"spec.template.metadata.annotations": {"a": "ä" * 70_000, "b": "b" * 122_143}}, [
        "spec.template.metadata.annotations: Too long: may not be more than 262144 bytes",
    ]),
    InvalidWorkload("annotations are a list", CONTAINER, {"spec.template.metadata.annotations": []}, [
        'spec.template.metadata.annotations: Invalid value: "array": must be an object',
    ]),

    InvalidWorkload("template metadata is a text", CONTAINER, {"spec.template.metadata": "web"}, ['spec.template.metadata: Invalid value: "string": must be an object']),

    # runtime
    InvalidWorkload("no runtime", CONTAINER, {"RUNTIME": REMOVED}, [
        'VOLUME.name: Invalid value: "scratch": is not attached: name it in a volumeAttachments entry',
        "RUNTIME: Required value",
    ]),
    InvalidWorkload("neither sandbox nor machine", CONTAINER, {"RUNTIME": {"resources": {"instanceType": "datumcloud/d1-standard-2"}}, "TEMPLATE.volumes": REMOVED}, [
        "RUNTIME: Required value: exactly one of sandbox, virtualMachine",
    ]),
    InvalidWorkload("both sandbox and machine", MACHINE, {"RUNTIME.sandbox": {"containers": [{"name": "app", "image": "a"}]}}, [
        "VM: Forbidden: may not be given together with sandbox",
    ]),
    InvalidWorkload("no instance type", CONTAINER, {"RUNTIME.resources": {}}, ["RUNTIME.resources.instanceType: Required value"]),
    InvalidWorkload("no resources", CONTAINER, {"RUNTIME.resources": REMOVED}, ["RUNTIME.resources: Required value"]),
    InvalidWorkload("unknown instance type", CONTAINER, {"RUNTIME.resources.instanceType": "d1-huge"}, [
        'RUNTIME.resources.instanceType: Unsupported value: "d1-huge": supported values: "datumcloud/d1-standard-2"',
    ]),
    InvalidWorkload("resource requests", CONTAINER, {"RUNTIME.resources.requests": {"cpu": "2"}}, [
        "RUNTIME.resources.requests: Forbidden: not implemented: the instance type sets the resources",
    ]),

    # containers
    InvalidWorkload("no containers", CONTAINER, {"RUNTIME.sandbox.containers": [], "TEMPLATE.volumes": []}, [
        "RUNTIME.sandbox.containers: Required value: at least one container",
    ]),
    InvalidWorkload("container without name and image", CONTAINER, {"RUNTIME.sandbox.containers[1]": {}}, [
        "RUNTIME.sandbox.containers[1].name: Required value",
        "RUNTIME.sandbox.containers[1].image: Required value",
    ]),
    InvalidWorkload("container that is null", CONTAINER, {"RUNTIME.sandbox.containers[1]": None}, ["RUNTIME.sandbox.containers[1]: Required value"]),
    InvalidWorkload("container name in capitals", CONTAINER, {"APP.name": "App"}, [f'APP.name: Invalid value: "App": {LABEL}']),
    InvalidWorkload("two containers of one name", CONTAINER, {"RUNTIME.sandbox.containers[1].name": "app"}, [
        'RUNTIME.sandbox.containers[1].name: Duplicate value: "app"',
    ]),
    InvalidWorkload("empty image", CONTAINER, {"APP.image": ""}, ["APP.image: Required value"]),
    InvalidWorkload("image with a space", CONTAINER, {"APP.image": "nginx latest"}, [
        'APP.image: Invalid value: "nginx latest": must be the name of an image, without spaces',
    ]),
    InvalidWorkload("image is a number", CONTAINER, {"APP.image": 3}, ['APP.image: Invalid value: "integer": must be a string']),
    InvalidWorkload("container resources", CONTAINER, {"APP.resources": {"limits": {"cpu": "1"}}}, [
        "APP.resources: Forbidden: not implemented: the instance type sets the limits",
    ]),
    InvalidWorkload("command is a line", CONTAINER, {"APP.command": "/bin/app --fast"}, ['APP.command: Invalid value: "string": must be a list']),
    InvalidWorkload("argument is a number", CONTAINER, {"APP.args": ["--port", 80]}, ['APP.args[1]: Invalid value: "integer": must be a string']),
    InvalidWorkload("image pull secret without a name", CONTAINER, {"RUNTIME.sandbox.imagePullSecrets": [{}]}, [
        "RUNTIME.sandbox.imagePullSecrets[0].name: Required value",
    ]),
    InvalidWorkload("image pull secret with a bad name", CONTAINER, {"RUNTIME.sandbox.imagePullSecrets": [{"name": "My_Secret"}]}, [
        f'RUNTIME.sandbox.imagePullSecrets[0].name: Invalid value: "My_Secret": {OBJECT}',
    ]),

    # environment
    InvalidWorkload("variable without a name", CONTAINER, {"APP.env": [{"value": "a"}]}, ["APP.env[0].name: Required value"]),
    InvalidWorkload("variable with '='", CONTAINER, {"APP.env": [{"name": "A=B"}]}, [
        "APP.env[0].name: Invalid value: \"A=B\": must be printable ASCII characters without '='",
    ]),
    InvalidWorkload("variable given twice", CONTAINER, {"APP.env": [{"name": "A"}, {"name": "A"}]}, ['APP.env[1].name: Duplicate value: "A"']),
    InvalidWorkload("value and source", CONTAINER, {"APP.env": [{"name": "A", "value": "b", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, [
        "APP.env[0].valueFrom: Forbidden: may not be given together with value",
    ]),
    InvalidWorkload("source of nothing", CONTAINER, {"APP.env": [{"name": "A", "valueFrom": {}}]}, [
        "APP.env[0].valueFrom: Required value: exactly one of configMapKeyRef, secretKeyRef, fieldRef, resourceFieldRef",
    ]),
    InvalidWorkload("two sources", CONTAINER, {"APP.env": [{"name": "A", "valueFrom": {"fieldRef": {}, "configMapKeyRef": {"name": "c"}}}]}, [
        "APP.env[0].valueFrom.fieldRef: Forbidden: may not be given together with configMapKeyRef",
        "APP.env[0].valueFrom.configMapKeyRef.key: Required value",
        "APP.env[0].valueFrom.fieldRef.fieldPath: Required value",
    ]),

    InvalidWorkload("source of a bad name", CONTAINER, {"APP.env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "S", "key": "k"}}}]}, [
        f'APP.env[0].valueFrom.secretKeyRef.name: Invalid value: "S": {OBJECT}',
    ]),
    InvalidWorkload("source of an endless name", CONTAINER, {"APP.env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s" * 254, "key": "k"}}}]}, [
        "APP.env[0].valueFrom.secretKeyRef.name: Too long: may not be more than 253 bytes",
    ]),
    InvalidWorkload("source of no resource", CONTAINER, {"APP.env": [{"name": "A", "valueFrom": {"resourceFieldRef": {}}}]}, [
        "APP.env[0].valueFrom.resourceFieldRef.resource: Required value",
    ]),

    # ports
    InvalidWorkload("port without name and number", CONTAINER, {"APP.ports": [{}]}, [
        "APP.ports[0].name: Required value",
        "APP.ports[0].port: Required value",
    ]),
    InvalidWorkload("port name in capitals", CONTAINER, {"APP.ports[0].name": "HTTP"}, [f'APP.ports[0].name: Invalid value: "HTTP": {PORT}']),
    InvalidWorkload("port name without a letter", CONTAINER, {"APP.ports[0].name": "8080"}, [f'APP.ports[0].name: Invalid value: "8080": {PORT}']),
    InvalidWorkload("port name too long", CONTAINER, {"APP.ports[0].name": "metrics-endpoint"}, ["APP.ports[0].name: Too long: may not be more than 15 bytes"]),
    InvalidWorkload("two ports of one name", CONTAINER, {"APP.ports[1]": {"name": "http", "port": 81}}, ['APP.ports[1].name: Duplicate value: "http"']),
    InvalidWorkload("port 0", CONTAINER, {"APP.ports[0].port": 0}, ["APP.ports[0].port: Invalid value: 0: must be from 1 to 65535"]),
    InvalidWorkload("port beyond the last", CONTAINER, {"APP.ports[0].port": 65536}, ["APP.ports[0].port: Invalid value: 65536: must be from 1 to 65535"]),
    InvalidWorkload("port is a text", CONTAINER, {"APP.ports[0].port": "80"}, ['APP.ports[0].port: Invalid value: "string": must be an integer']),
    InvalidWorkload("port is true", CONTAINER, {"APP.ports[0].port": True}, ['APP.ports[0].port: Invalid value: "boolean": must be an integer']),
    InvalidWorkload("unknown protocol", CONTAINER, {"APP.ports[0].protocol": "HTTP"}, [
        'APP.ports[0].protocol: Unsupported value: "HTTP": supported values: "TCP", "UDP", "SCTP"',
    ]),

    # attachments
    InvalidWorkload("attachment of no volume", CONTAINER, {"APP.volumeAttachments[1]": {"name": "cache", "mountPath": "/c"}}, [
        'APP.volumeAttachments[1].name: Not found: "cache"',
    ]),
    InvalidWorkload("attachment without a name", CONTAINER, {"APP.volumeAttachments[1]": {"mountPath": "/c"}}, ["APP.volumeAttachments[1].name: Required value"]),
    InvalidWorkload("attached twice", CONTAINER, {"APP.volumeAttachments[1]": {"name": "scratch", "mountPath": "/c"}}, [
        'APP.volumeAttachments[1].name: Duplicate value: "scratch"',
    ]),
    InvalidWorkload("two mounts at one path", CONTAINER, {
        "TEMPLATE.volumes[1]": {"name": "conf", "configMap": {"name": "conf"}},
        "APP.volumeAttachments[1]": {"name": "conf", "mountPath": "/data/"},
    }, ['APP.volumeAttachments[1].mountPath: Duplicate value: "/data/"']),
    InvalidWorkload("relative mount path", CONTAINER, {"APP.volumeAttachments[0].mountPath": "data"}, [f'APP.volumeAttachments[0].mountPath: Invalid value: "data": {MOUNT}']),
    InvalidWorkload("mount path that climbs", CONTAINER, {"APP.volumeAttachments[0].mountPath": "/a/../b"}, [
        f'APP.volumeAttachments[0].mountPath: Invalid value: "/a/../b": {MOUNT}',
    ]),
    InvalidWorkload("mounted disk without a file system", CONTAINER, {"DISK.populator": REMOVED}, [
        'APP.volumeAttachments[0].mountPath: Invalid value: "/data": the disk has no file system to mount: give it a populator',
    ]),

    # virtual machines
    InvalidWorkload("machine without keys", MACHINE, {"spec.template.metadata": REMOVED}, [
        f"{SSH_KEYS}: Required value: a virtual machine needs at least one USER:KEY line",
    ]),
    InvalidWorkload("empty keys", MACHINE, {"spec.template.metadata.annotations[compute.datumapis.com/ssh-keys]": " \n"}, [
        f"{SSH_KEYS}: Required value: a virtual machine needs at least one USER:KEY line",
    ]),
    InvalidWorkload("key without a user", MACHINE, {"spec.template.metadata.annotations[compute.datumapis.com/ssh-keys]": "ssh-ed25519 AAAA"}, [
        f'{SSH_KEYS}[0]: Invalid value: "ssh-ed25…": {SSH}',
    ]),
    InvalidWorkload("key that is none", MACHINE, {"spec.template.metadata.annotations[compute.datumapis.com/ssh-keys]": "ana:ssh-ed25519 AAAA"}, [
        f'{SSH_KEYS}[0]: Invalid value: "ana:…": {SSH}',
    ]),
    InvalidWorkload("private key by mistake", MACHINE, {"spec.template.metadata.annotations[compute.datumapis.com/ssh-keys]": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkt"}, [
        f'{SSH_KEYS}[0]: Invalid value: "-----BEG…": {SSH}',
        f'{SSH_KEYS}[1]: Invalid value: "b3BlbnNz…": {SSH}',
    ]),
    InvalidWorkload("machine without a disk", MACHINE, {"VM.volumeAttachments": [], "TEMPLATE.volumes": []}, [
        "VM.volumeAttachments: Required value: at least the boot disk",
    ]),
    InvalidWorkload("machine that cannot boot", MACHINE, {
        "DISK.populator": {"filesystem": {"type": "ext4"}}, "DISK.resources": {"requests": {"storage": "20Gi"}},
    }, ['VM.volumeAttachments[0].name: Invalid value: "boot": the first volume boots the machine, so it must be a disk with an image']),

    # volumes
    InvalidWorkload("volume without a name", CONTAINER, {"TEMPLATE.volumes[1]": {"configMap": {"name": "c"}}}, ["TEMPLATE.volumes[1].name: Required value"]),
    InvalidWorkload("volume name with a dot", CONTAINER, {"VOLUME.name": "a.b", "APP.volumeAttachments[0].name": "a.b"}, [f'VOLUME.name: Invalid value: "a.b": {LABEL}']),
    InvalidWorkload("two volumes of one name", CONTAINER, {"TEMPLATE.volumes[1]": {"name": "scratch", "secret": {"secretName": "s"}}}, [
        'TEMPLATE.volumes[1].name: Duplicate value: "scratch"',
    ]),
    InvalidWorkload("volume attached nowhere", CONTAINER, {"TEMPLATE.volumes[1]": {"name": "spare", "secret": {"secretName": "s"}}}, [
        'TEMPLATE.volumes[1].name: Invalid value: "spare": is not attached: name it in a volumeAttachments entry',
    ]),
    InvalidWorkload("volume of nothing", CONTAINER, {"VOLUME": {"name": "scratch"}}, ["VOLUME: Required value: exactly one of disk, configMap, secret"]),
    InvalidWorkload("volume of two things", CONTAINER, {"VOLUME.secret": {"secretName": "s"}}, ["VOLUME.secret: Forbidden: may not be given together with disk"]),
    InvalidWorkload("disk without a template", CONTAINER, {"VOLUME.disk": {}}, [
        "VOLUME.disk.template: Required value",
        'APP.volumeAttachments[0].mountPath: Invalid value: "/data": the disk has no file system to mount: give it a populator',
    ]),
    InvalidWorkload("two disks of one device", CONTAINER, {
        "TEMPLATE.volumes[1]": {"name": "two", "disk": {"deviceName": "persistent-disk-0", "template": {"spec": {"resources": {"requests": {"storage": "10Gi"}}}}}},
        "APP.volumeAttachments[1]": {"name": "two"},
    }, ['TEMPLATE.volumes[1].disk.deviceName: Duplicate value: "persistent-disk-0"']),
    InvalidWorkload("disk of an empty device", CONTAINER, {"VOLUME.disk.deviceName": ""}, [
        'VOLUME.disk.deviceName: Invalid value: "": must not be empty; omit it for a name by position',
    ]),
    InvalidWorkload("empty disk type", CONTAINER, {"DISK.type": ""}, ['DISK.type: Unsupported value: "": supported values: "pd-standard"']),
    InvalidWorkload("unknown disk type", CONTAINER, {"DISK.type": "pd-ssd"}, ['DISK.type: Unsupported value: "pd-ssd": supported values: "pd-standard"']),
    InvalidWorkload("disk too small", CONTAINER, {"DISK.resources.requests.storage": "9Gi"}, ['DISK.resources.requests[storage]: Invalid value: "9Gi": must be at least 10Gi']),
    InvalidWorkload("disk too large", CONTAINER, {"DISK.resources.requests.storage": "101Gi"}, ['DISK.resources.requests[storage]: Invalid value: "101Gi": must be at most 100Gi']),
    InvalidWorkload("disk of a broken size", CONTAINER, {"DISK.resources.requests.storage": "10500Mi"}, [
        'DISK.resources.requests[storage]: Invalid value: "10500Mi": must be a whole number of Gi',
    ]),
    InvalidWorkload("disk of no amount", CONTAINER, {"DISK.resources.requests.storage": "large"}, [f'DISK.resources.requests[storage]: Invalid value: "large": {QUANTITY}']),
    InvalidWorkload("disk beyond all bounds", CONTAINER, {"DISK.resources.requests.storage": "1e999999999999"}, [
        'DISK.resources.requests[storage]: Invalid value: "1e999999999999": must be at most 100Gi',
    ]),
    InvalidWorkload("disk without a size", CONTAINER, {"DISK.resources": REMOVED}, ["DISK.resources: Required value: a disk without an image needs a size"]),
    InvalidWorkload("disk with another request", CONTAINER, {"DISK.resources.requests": {"iops": 5}}, [
        'DISK.resources.requests[iops]: Unsupported value: "iops": supported values: "storage"',
        "DISK.resources.requests[storage]: Required value",
    ]),
    InvalidWorkload("image larger than its disk", MACHINE, {"DISK.resources": {"requests": {"storage": "24Gi"}}}, [
        'DISK.resources.requests[storage]: Invalid value: "24Gi": must be at least 25Gi, which the image needs',
    ]),
    InvalidWorkload("unknown disk image", MACHINE, {"DISK.populator.image.name": "debian"}, [
        'DISK.populator.image.name: Unsupported value: "debian": supported values: "datumcloud/ubuntu-2204-lts"',
    ]),
    InvalidWorkload("unknown file system", CONTAINER, {"DISK.populator.filesystem.type": "zfs"}, [
        'DISK.populator.filesystem.type: Unsupported value: "zfs": supported values: "ext4"',
    ]),
    InvalidWorkload("populator of nothing", CONTAINER, {"DISK.populator": {}}, [
        "DISK.populator: Required value: exactly one of image, filesystem",
        'APP.volumeAttachments[0].mountPath: Invalid value: "/data": the disk has no file system to mount: give it a populator',
    ]),
    InvalidWorkload("populator of two things", MACHINE, {"DISK.populator.filesystem": {"type": "ext4"}}, [
        "DISK.populator.filesystem: Forbidden: may not be given together with image",
    ]),
    InvalidWorkload("config map without a name", CONTAINER, {"VOLUME": {"name": "scratch", "configMap": {}}}, ["VOLUME.configMap.name: Required value"]),
    InvalidWorkload("config map with a bad mode", CONTAINER, {"VOLUME": {"name": "scratch", "configMap": {"name": "c", "defaultMode": 1000}}}, [
        "VOLUME.configMap.defaultMode: Invalid value: 1000: must be from 0 to 511 (octal 0777)",
    ]),
    InvalidWorkload("item of nothing", CONTAINER, {"VOLUME": {"name": "scratch", "configMap": {"name": "c", "items": [{}]}}}, [
        "VOLUME.configMap.items[0].key: Required value",
        "VOLUME.configMap.items[0].path: Required value",
    ]),
    InvalidWorkload("items outside their volume", CONTAINER, {"VOLUME": {"name": "scratch", "secret": {"secretName": "s", "items": [
        {"key": "a", "path": "/a"}, {"key": "a", "path": "b/../../a"}, {"key": "a", "path": "..a"}, {"key": "a", "path": "a", "mode": 512},
    ]}}}, [
        f'VOLUME.secret.items[0].path: Invalid value: "/a": {WITHIN}',
        f'VOLUME.secret.items[1].path: Invalid value: "b/../../a": {WITHIN}',
        f'VOLUME.secret.items[2].path: Invalid value: "..a": {WITHIN}',
        "VOLUME.secret.items[3].mode: Invalid value: 512: must be from 0 to 511 (octal 0777)",
    ]),
    InvalidWorkload("items at one place", CONTAINER, {"VOLUME": {"name": "scratch", "configMap": {"name": "c", "items": [
        {"key": "a", "path": "a"}, {"key": "b", "path": "./a"}, {"key": "b", "path": "a/b"},
    ]}}}, [
        'VOLUME.configMap.items[1].path: Duplicate value: "./a"',
        'VOLUME.configMap.items[2].path: Invalid value: "a/b": is a file and a directory: another path is within it',
    ]),
    InvalidWorkload("sub path that climbs", CONTAINER, {
        "VOLUME": {"name": "scratch", "configMap": {"name": "c"}}, "APP.volumeAttachments[0].subPath": "../a",
    }, [f'APP.volumeAttachments[0].subPath: Invalid value: "../a": {WITHIN}']),
    InvalidWorkload("sub path of a disk", CONTAINER, {"APP.volumeAttachments[0].subPath": "a"}, [
        "APP.volumeAttachments[0].subPath: Forbidden: only a volume of a ConfigMap or Secret has one",
    ]),
    InvalidWorkload("sub path that is not mounted", CONTAINER, {
        "VOLUME": {"name": "scratch", "configMap": {"name": "c"}}, "APP.volumeAttachments[0]": {"name": "scratch", "subPath": "a"},
    }, [
        "APP.volumeAttachments[0].subPath: Forbidden: needs a mountPath",
    ]),
    InvalidWorkload("secret without a name", CONTAINER, {"VOLUME": {"name": "scratch", "secret": {"name": "s"}}}, ["VOLUME.secret.secretName: Required value"]),

    # networks
    InvalidWorkload("no interfaces", CONTAINER, {"TEMPLATE.networkInterfaces": []}, ["TEMPLATE.networkInterfaces: Required value: at least one network interface"]),
    InvalidWorkload("interface without a network", CONTAINER, {"TEMPLATE.networkInterfaces": [{}]}, ["TEMPLATE.networkInterfaces[0].network: Required value"]),
    InvalidWorkload("network without a name", CONTAINER, {"TEMPLATE.networkInterfaces": [{"network": {}}]}, ["TEMPLATE.networkInterfaces[0].network.name: Required value"]),
    InvalidWorkload("network name with a dot", CONTAINER, {"TEMPLATE.networkInterfaces[0].network.name": "a.b"}, [
        f'TEMPLATE.networkInterfaces[0].network.name: Invalid value: "a.b": {LABEL}',
    ]),
    InvalidWorkload("network of another namespace", CONTAINER, {"TEMPLATE.networkInterfaces[0].network.namespace": "other"}, [
        'TEMPLATE.networkInterfaces[0].network.namespace: Invalid value: "other": must be the workload\'s own, "default"',
    ]),
    InvalidWorkload("network of others", CONTAINER, {"TEMPLATE.networkInterfaces[1]": {"network": {"name": "secret-lab"}}}, [
        "TEMPLATE.networkInterfaces[1].network: Forbidden: permission to use the network was denied",
    ]),
    InvalidWorkload("ingress from no range", CONTAINER, {"TEMPLATE.networkInterfaces[0].networkPolicy": {"ingress": [{"from": [{"ipBlock": {"cidr": "everywhere"}}]}]}}, [
        'TEMPLATE.networkInterfaces[0].networkPolicy.ingress[0].from[0].ipBlock.cidr: Invalid value: "everywhere":'
        " must be a range of addresses such as 10.0.0.0/8",
    ]),
    InvalidWorkload("ingress except outside", CONTAINER, {"TEMPLATE.networkInterfaces[0].networkPolicy": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]}}, [
        'TEMPLATE.networkInterfaces[0].networkPolicy.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16":'
        " must lie within 10.0.0.0/8",
    ]),
    InvalidWorkload("ingress range backwards", CONTAINER, {"TEMPLATE.networkInterfaces[0].networkPolicy": {"ingress": [{"ports": [{"port": 90, "endPort": 80}]}]}}, [
        "TEMPLATE.networkInterfaces[0].networkPolicy.ingress[0].ports[0].endPort: Invalid value: 80: must be from port to 65535",
    ]),
    InvalidWorkload("ingress range without a beginning", CONTAINER, {"TEMPLATE.networkInterfaces[0].networkPolicy": {"ingress": [{"ports": [{"endPort": 80}]}]}}, [
        "TEMPLATE.networkInterfaces[0].networkPolicy.ingress[0].ports[0].endPort: Forbidden: needs port to be a number",
    ]),
    InvalidWorkload("ingress of odd ports", CONTAINER, {"TEMPLATE.networkInterfaces[0].networkPolicy": {"ingress": [{"ports": [{"port": 0}, {"port": "HTTP"}, {"protocol": "ICMP"}]}]}}, [
        "TEMPLATE.networkInterfaces[0].networkPolicy.ingress[0].ports[0].port: Invalid value: 0: must be from 1 to 65535, or the name of a port",
        f'TEMPLATE.networkInterfaces[0].networkPolicy.ingress[0].ports[1].port: Invalid value: "HTTP": {PORT}',
        'TEMPLATE.networkInterfaces[0].networkPolicy.ingress[0].ports[2].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"',
    ]),
    InvalidWorkload("location of its own", CONTAINER, {"TEMPLATE.location": {"name": "dfw"}, "TEMPLATE.controller": {"templateHash": "x"}}, [
        "TEMPLATE.location: Forbidden: is set by controllers, on each Instance",
        "TEMPLATE.controller: Forbidden: is set by controllers, on each Instance",
    ]),

    # placements
    InvalidWorkload("no placements", CONTAINER, {"spec.placements": []}, ["spec.placements: Required value: at least one placement"]),
    InvalidWorkload("placements are an object", CONTAINER, {"spec.placements": {"name": "a"}}, ['spec.placements: Invalid value: "object": must be a list']),
    InvalidWorkload("empty placement", CONTAINER, {"spec.placements[1]": {}}, [
        "spec.placements[1].name: Required value",
        "spec.placements[1].cityCodes: Required value: at least one city",
        "spec.placements[1].scaleSettings: Required value",
    ]),
    InvalidWorkload("placement name with a dot", CONTAINER, {"PLACEMENT.name": "us.east"}, [f'PLACEMENT.name: Invalid value: "us.east": {LABEL}']),
    InvalidWorkload("two placements of one name", CONTAINER, {"spec.placements[1]": {"name": "default", "cityCodes": ["IAD"], "scaleSettings": {"minReplicas": 1}}}, [
        'spec.placements[1].name: Duplicate value: "default"',
    ]),
    InvalidWorkload("no cities", CONTAINER, {"PLACEMENT.cityCodes": []}, ["PLACEMENT.cityCodes: Required value: at least one city"]),
    InvalidWorkload("empty city", CONTAINER, {"PLACEMENT.cityCodes": [""]}, ["PLACEMENT.cityCodes[0]: Required value"]),
    InvalidWorkload("unknown city", CONTAINER, {"PLACEMENT.cityCodes": ["DFW", "XYZ"]}, [f'PLACEMENT.cityCodes[1]: Unsupported value: "XYZ": {CITIES}']),
    InvalidWorkload("city that is a number", CONTAINER, {"PLACEMENT.cityCodes": [7]}, ['PLACEMENT.cityCodes[0]: Invalid value: "integer": must be a string']),
    InvalidWorkload("a city twice", CONTAINER, {"PLACEMENT.cityCodes": ["DFW", "dfw"]}, ['PLACEMENT.cityCodes[1]: Duplicate value: "dfw"']),

    # scale
    InvalidWorkload("no count", CONTAINER, {"SCALE": {}}, ["SCALE.minReplicas: Required value"]),
    InvalidWorkload("count 0", CONTAINER, {"SCALE.minReplicas": 0}, ["SCALE.minReplicas: Invalid value: 0: must be from 1 to 1000"]),
    InvalidWorkload("count beyond the last", CONTAINER, {"SCALE.minReplicas": 1001}, ["SCALE.minReplicas: Invalid value: 1001: must be from 1 to 1000"]),
    InvalidWorkload("count is a text", CONTAINER, {"SCALE.minReplicas": "3"}, ['SCALE.minReplicas: Invalid value: "string": must be an integer']),
    InvalidWorkload("half an instance", CONTAINER, {"SCALE.minReplicas": 1.5}, ['SCALE.minReplicas: Invalid value: "number": must be an integer']),
    InvalidWorkload("maximum without a metric", CONTAINER, {"SCALE.maxReplicas": 5}, ["SCALE.metrics: Required value: maxReplicas needs a metric to scale by"]),
    InvalidWorkload("maximum of 0", CONTAINER, {"SCALE.maxReplicas": 0, "SCALE.metrics": [CPU]}, ["SCALE.maxReplicas: Invalid value: 0: must be at least 1"]),
    InvalidWorkload("unknown policy", CONTAINER, {"SCALE.instanceManagementPolicy": "Parallel"}, [
        'SCALE.instanceManagementPolicy: Unsupported value: "Parallel": supported values: "OrderedReady"',
    ]),
    InvalidWorkload("metric of nothing", CONTAINER, {"SCALE.metrics": [{}]}, ["SCALE.metrics[0].resource: Required value"]),
    InvalidWorkload("metric of memory", CONTAINER, {"SCALE.metrics": [{"resource": {"name": "memory", "target": {"averageUtilization": 50}}}]}, [
        'SCALE.metrics[0].resource.name: Unsupported value: "memory": supported values: "cpu"',
    ]),
    InvalidWorkload("metric without a target", CONTAINER, {"SCALE.metrics": [metric()]}, [
        "SCALE.metrics[0].resource.target: Required value: exactly one of value, averageValue, averageUtilization",
    ]),
    InvalidWorkload("metric with two targets", CONTAINER, {"SCALE.metrics": [metric(value="1", averageUtilization=50)]}, [
        "SCALE.metrics[0].resource.target.averageUtilization: Forbidden: may not be given together with value",
    ]),
    InvalidWorkload("metric of less than nothing", CONTAINER, {"SCALE.metrics": [metric(averageValue="-1")]}, [
        'SCALE.metrics[0].resource.target.averageValue: Invalid value: "-1": must be greater than zero',
    ]),
    InvalidWorkload("metric of 0 percent", CONTAINER, {"SCALE.metrics": [metric(averageUtilization=0)]}, [
        "SCALE.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be at least 1 percent",
    ]),

    # several at once
    InvalidWorkload("everything wrong at once", CONTAINER, {
        "metadata.name": "A", "APP.image": "", "PLACEMENT.cityCodes": ["XYZ"], "SCALE.minReplicas": 0,
    }, [
        f'metadata.name: Invalid value: "A": {LABEL}',
        "APP.image: Required value",
        f'PLACEMENT.cityCodes[0]: Unsupported value: "XYZ": {CITIES}',
        "SCALE.minReplicas: Invalid value: 0: must be from 1 to 1000",
    ]),
]
# fmt: on
