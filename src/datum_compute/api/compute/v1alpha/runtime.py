"""What an Instance runs and with what: containers or a virtual machine, ports, volumes."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api import name_patterns
from datum_compute.api.references import TemplateMetadata
from datum_compute.api.structural_schema import Quantity, described

__all__ = [
    "DNS_LABEL",
    "ConfigMapVolume",
    "Container",
    "DiskFilesystem",
    "DiskImage",
    "DiskPopulator",
    "DiskResources",
    "DiskSpec",
    "DiskTemplate",
    "DiskVolume",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "KeySelector",
    "KeyToPath",
    "LocalReference",
    "NamedPort",
    "ObjectFieldSelector",
    "ObjectSelector",
    "Quantities",
    "ResourceFieldSelector",
    "ResourceRequirements",
    "Runtime",
    "RuntimeResources",
    "Sandbox",
    "SecretVolume",
    "VirtualMachine",
    "Volume",
    "VolumeAttachment",
]

DNS_LABEL = f"^{name_patterns.DNS_LABEL}$"

Quantities = dict[str, Quantity]


class ResourceRequirements(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    limits: Annotated[Quantities, described("The most it may use, by resource name.")] = {}
    requests: Annotated[Quantities, described("What it is promised, by resource name.")] = {}


class KeySelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the object that holds the key.")] = ""
    key: Annotated[str, described("The key to take.", required=True)] = ""
    optional: Annotated[bool, described("Whether object or key may be missing.")] = False


class ObjectFieldSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: Annotated[str, described("Schema version the path is written for.")] = ""
    field_path: Annotated[str, described("Path of the field to take.", required=True)] = ""


class ResourceFieldSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    container_name: Annotated[str, described("Container whose resource is taken.")] = ""
    divisor: Annotated[Quantity | None, described("Unit in which the value is given.")] = None
    resource: Annotated[str, described("Resource to take.", required=True)] = ""


class EnvVarSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    config_map_key_ref: Annotated[
        KeySelector | None, described("A key of a ConfigMap.", map_type="atomic")
    ] = None
    field_ref: Annotated[
        ObjectFieldSelector | None, described("A field of the Instance.", map_type="atomic")
    ] = None
    resource_field_ref: Annotated[
        ResourceFieldSelector | None,
        described("A resource of a container.", map_type="atomic"),
    ] = None
    secret_key_ref: Annotated[
        KeySelector | None, described("A key of a Secret.", map_type="atomic")
    ] = None


class EnvVar(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the variable.", required=True)] = ""
    value: Annotated[str, described("Its value, when given literally.")] = ""
    value_from: Annotated[EnvVarSource | None, described("Where its value comes from.")] = None


class ObjectSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the object.")] = ""
    optional: Annotated[bool, described("Whether the object may be missing.")] = False


class EnvFromSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    prefix: Annotated[str, described("What the name of each variable begins with.")] = ""
    config_map_ref: Annotated[
        ObjectSelector | None, described("Every key of a ConfigMap.", map_type="atomic")
    ] = None
    secret_ref: Annotated[
        ObjectSelector | None, described("Every key of a Secret.", map_type="atomic")
    ] = None


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the volume.", required=True)] = ""
    mount_path: Annotated[
        str | None, described("Where its file system is mounted; unset to attach it only.")
    ] = None
    sub_path: Annotated[
        str, described("The file or directory of a ConfigMap or Secret that is mounted alone.")
    ] = ""


class NamedPort(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name others refer to the port by.", required=True)] = ""
    port: Annotated[int, described("Port number.", required=True, minimum=1, maximum=65535)] = 0
    protocol: Annotated[
        str, described("Transport protocol.", default="TCP", enum=["TCP", "UDP", "SCTP"])
    ] = "TCP"


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[
        str,
        described(
            "Name of the container: a DNS label, unique in the Instance.",
            required=True,
            minLength=1,
            maxLength=63,
            pattern=DNS_LABEL,
        ),
    ] = ""
    image: Annotated[str, described("Image to run.", required=True)] = ""
    command: Annotated[
        tuple[str, ...],
        described(
            "Replaces the image's ENTRYPOINT; tokens, not a shell line.",
            list_type="atomic",
        ),
    ] = ()
    args: Annotated[
        tuple[str, ...],
        described("Replaces the image's CMD; tokens, not a shell line.", list_type="atomic"),
    ] = ()
    env: Annotated[
        tuple[EnvVar, ...],
        described("Environment variables.", list_type="map", list_keys=["name"]),
    ] = ()
    env_from: Annotated[
        tuple[EnvFromSource, ...],
        described(
            "Objects of which every key becomes a variable; env wins, then the later one.",
            list_type="atomic",
        ),
    ] = ()
    resources: Annotated[
        ResourceRequirements | None,
        described("Resources of this container. The instance type decides while this is unset."),
    ] = None
    volume_attachments: Annotated[
        tuple[VolumeAttachment, ...],
        described("Volumes this container uses; one may be listed twice.", list_type="atomic"),
    ] = ()
    ports: Annotated[
        tuple[NamedPort, ...],
        described("Ports it listens on.", list_type="map", list_keys=["name"]),
    ] = ()


class LocalReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the object.", required=True)] = ""


class Sandbox(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    containers: Annotated[
        tuple[Container, ...],
        described(
            "Containers that run together.",
            required=True,
            minItems=1,
            list_type="map",
            list_keys=["name"],
        ),
    ] = ()
    image_pull_secrets: Annotated[
        tuple[LocalReference, ...],
        described("Secrets for pulling images.", list_type="atomic"),
    ] = ()


class VirtualMachine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    volume_attachments: Annotated[
        tuple[VolumeAttachment, ...],
        described(
            "Volumes of the machine; the first is its boot disk.",
            required=True,
            minItems=1,
            list_type="atomic",
        ),
    ] = ()
    ports: Annotated[
        tuple[NamedPort, ...],
        described("Ports it listens on.", list_type="map", list_keys=["name"]),
    ] = ()


class RuntimeResources(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    instance_type: Annotated[
        str, described("Size of the Instance, as in datumcloud/d1-standard-2.", required=True)
    ] = ""
    requests: Annotated[Quantities, described("Adjustments to the type's resources.")] = {}


class Runtime(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resources: Annotated[
        RuntimeResources, described("Resources of the Instance.", required=True)
    ] = RuntimeResources()
    sandbox: Annotated[
        Sandbox | None, described("Containers in a sandbox; excludes virtualMachine.")
    ] = None
    virtual_machine: Annotated[
        VirtualMachine | None, described("A virtual machine; excludes sandbox.")
    ] = None


class KeyToPath(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    key: Annotated[str, described("The key to place.", required=True)] = ""
    mode: Annotated[int | None, described("Permissions of the file.")] = None
    path: Annotated[str, described("Where to place it, below the volume.", required=True)] = ""


class ConfigMapVolume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the ConfigMap.")] = ""
    default_mode: Annotated[int | None, described("Permissions of files without their own.")] = None
    items: Annotated[
        tuple[KeyToPath, ...],
        described("Which keys go where; all of them when empty.", list_type="atomic"),
    ] = ()
    optional: Annotated[bool, described("Whether the ConfigMap may be missing.")] = False


class SecretVolume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    secret_name: Annotated[str, described("Name of the Secret.")] = ""
    default_mode: Annotated[int | None, described("Permissions of files without their own.")] = None
    items: Annotated[
        tuple[KeyToPath, ...],
        described("Which keys go where; all of them when empty.", list_type="atomic"),
    ] = ()
    optional: Annotated[bool, described("Whether the Secret may be missing.")] = False


class DiskImage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Image the disk starts from.", required=True)] = ""


class DiskFilesystem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: Annotated[str, described("File system to make.", required=True, enum=["ext4"])] = ""


class DiskPopulator(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    image: Annotated[DiskImage | None, described("Start from an image.")] = None
    filesystem: Annotated[DiskFilesystem | None, described("Start with an empty file system.")] = (
        None
    )


class DiskResources(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    requests: Annotated[Quantities, described("Size of the disk, under the name storage.")] = {}


class DiskSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: Annotated[str, described("Kind of disk.", default="pd-standard")] = "pd-standard"
    resources: Annotated[DiskResources | None, described("Size of the disk.")] = None
    populator: Annotated[DiskPopulator | None, described("What is on the disk at first.")] = None


class DiskTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: Annotated[TemplateMetadata, described("Metadata of the disk.")] = TemplateMetadata()
    spec: Annotated[DiskSpec, described("The disk.", required=True)] = DiskSpec()


class DiskVolume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    device_name: Annotated[
        str | None,
        described("Device name in the guest; persistent-disk-<i> for volume i when unset."),
    ] = None
    template: Annotated[DiskTemplate | None, described("The disk to make.")] = None


class Volume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[
        str,
        described("Name attachments refer to: a DNS label.", required=True, maxLength=63),
    ] = ""
    disk: Annotated[DiskVolume | None, described("A disk.")] = None
    config_map: Annotated[ConfigMapVolume | None, described("Files from a ConfigMap.")] = None
    secret: Annotated[SecretVolume | None, described("Files from a Secret.")] = None
