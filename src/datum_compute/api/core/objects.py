"""Built-in kinds: namespaces, config maps, services, events, leases."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource

__all__ = [
    "CONFIG_MAPS",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "SECRETS",
    "SERVICES",
    "ConfigMap",
    "Event",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "NamespaceStatus",
]

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICES = Resource("", "v1", "services", "Service")
EVENTS = Resource("", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)


class NamespaceStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    phase: str = ""


class Namespace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that happened to an object, as a reader of messages sees it."""

    metadata: ObjectMeta = ObjectMeta()
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def at(self) -> datetime:
        """When it was seen last."""
        found = self.last_timestamp or self.event_time or self.metadata.creation_timestamp
        return found or datetime.min.replace(tzinfo=UTC)


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
