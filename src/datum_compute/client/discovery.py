"""API discovery: which kinds a server serves."""

from __future__ import annotations

import msgspec

from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client


class DiscoveredKind(msgspec.Struct, frozen=True):
    """A kind of one group and version, without its subresources."""

    name: str
    kind: str
    namespaced: bool = True
    verbs: tuple[str, ...] = ()

    def resource(self, group_version: str) -> Resource:
        group, _, version = group_version.rpartition("/")
        return Resource(group, version, self.name, self.kind, self.namespaced)


async def served_kinds(client: Client, group_version: str) -> list[DiscoveredKind]:
    """The kinds of a group and version, by name. Raises ``NotFound`` or ``NotServed`` where the
    server does not have it, and ``msgspec.DecodeError`` where the answer is no discovery."""
    root = "apis" if "/" in group_version else "api"
    answer = await client.raw(f"/{root}/{group_version}")
    served = msgspec.json.decode(answer, type=_Resources).resources
    return sorted((one for one in served if "/" not in one.name), key=lambda one: one.name)


async def preferred_versions(client: Client) -> list[str]:
    """The core group's version, and the preferred version of every other group."""
    groups = msgspec.json.decode(await client.raw("/apis"), type=_Groups).groups
    return ["v1", *(group.preferred_version.group_version for group in groups)]


async def served_groups(client: Client) -> list[str]:
    """The API groups of a server, except the core group."""
    return [version.rpartition("/")[0] for version in (await preferred_versions(client))[1:]]


class _Resources(msgspec.Struct):
    resources: list[DiscoveredKind]


class _Version(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    preferred_version: _Version


class _Groups(msgspec.Struct):
    groups: list[_Group]
