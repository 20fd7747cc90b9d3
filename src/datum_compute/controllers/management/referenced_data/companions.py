"""The companions of a project's namespace on the hub.

Every write carries the resource version that was read: two deployments that add or drop
themselves at once conflict, and the later one decides again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import EMPTY, Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.referenced_data.signals import DataSignals
from datum_compute.decisions.references import (
    SECRET,
    Reference,
    SourceFact,
    entries_to_text,
    hash_content,
    not_found,
    parse_entries,
    size_of,
)
from datum_compute.env import Environment
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.result import Waiting
from datum_compute.runtime.writes.patch import difference

RESOURCES: dict[str, Resource] = {each.kind: each for each in (core.CONFIG_MAPS, core.SECRETS)}
"""The kinds that templates can name."""
SELECTOR = f"{compute.LABEL_REFERENCED_DATA}=true"
COMPANIONS_BY_DEPLOYMENT = "referenced-by"
"""Index of companions by hub namespace and deployment."""

_SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
_OPAQUE = "Opaque"


def users_of(companion: Object) -> tuple[str, ...]:
    """The deployments that use a companion, as ``namespace/name`` in the project."""
    text = companion.metadata.annotations.get(compute.ANNOTATION_REFERENCED_BY)
    return parse_entries(text) or ()


def companions_of(hub: Cluster, hub_namespace: str, user: str) -> dict[str, Object]:
    """The companions that a deployment uses, by entry, without their content."""
    return {
        f"{kind}/{each.name}": each
        for kind in RESOURCES
        for each in _cached(hub, kind).by_index(COMPANIONS_BY_DEPLOYMENT, f"{hub_namespace}/{user}")
    }


def find_companion(hub: Cluster, hub_namespace: str, kind: str, name: str) -> Object | None:
    return _cached(hub, kind).get(name, hub_namespace)


def _cached(hub: Cluster, kind: str) -> Cache:
    return hub.cache(RESOURCES[kind].metadata, label_selector=SELECTOR)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Versions of a source and its companion that have the same content."""

    source: tuple[str, str]
    companion: tuple[str, str]
    size: int
    content_hash: str


@dataclass(frozen=True, slots=True)
class Source:
    """A source as it was found; ``content`` is None where its companion has it already."""

    fact: SourceFact
    content: dict[str, Any] | None = None
    version: tuple[str, str] = ("", "")


class Companions:
    def __init__(self, env: Environment, signals: DataSignals) -> None:
        self._env = env
        self._signals = signals
        self._compared: dict[tuple[str, str, str], _Compared] = {}
        """By hub namespace, kind and name."""

    async def read_source(
        self, project: Cluster, hub: Cluster, namespace: str, hub_namespace: str, of: Reference
    ) -> Source:
        """The source, read live unless its companion is known to have its content."""
        key = (hub_namespace, of.kind, of.name)
        resource = RESOURCES[of.kind]
        known = self._compared.get(key)
        cached = project.cache(resource.metadata).get(of.name, namespace)
        companion = find_companion(hub, hub_namespace, of.kind, of.name)
        versions = (_version(cached), _version(companion))
        if known is not None and (known.source, known.companion) == versions:
            fact = SourceFact(known.size, content_hash=known.content_hash)
            return Source(fact, None, known.source)
        try:
            found = await find_live(project.client, resource, of.name, namespace)
        except (errors.Forbidden, errors.NotServed):
            text = f"the platform may not read {of} in the project"
            return Source(SourceFact(0, compute.REASON_SOURCE_UNAUTHORIZED, text))
        if found is None or found.metadata.deleting:
            self._compared.pop(key, None)
            return Source(SourceFact(0, compute.REASON_SOURCE_NOT_FOUND, not_found([of])))
        content = _content(found)
        hashed = hash_content(found.metadata.uid, content)
        fact = SourceFact(_size(of.kind, content), content_hash=hashed)
        return Source(fact, content, _version(found))

    async def ensure(
        self, hub: Cluster, hub_namespace: str, of: Reference, source: Source, user: str
    ) -> SourceFact | None:
        """Give the companion the content of its source, and add the user. Returns what is wrong
        where the hub has an object of that name which is no companion."""
        cached = find_companion(hub, hub_namespace, of.kind, of.name)
        if cached is not None and cached.metadata.deleting:
            raise Waiting(f"companion {of.entry} is being deleted", 1.0)
        if source.content is None:
            if cached is not None and user not in users_of(cached):
                written = await self._patch(hub, of, cached, {}, (*users_of(cached), user))
                self._remember(hub_namespace, of, source, written)
            return None
        resource = RESOURCES[of.kind]
        if cached is None:
            body = {"metadata": _metadata(of.name, (user,)), **source.content}
            try:
                created = await hub.client.create(resource, body, hub_namespace)
                self._signals.record_write(of.kind, "create")
                self._remember(hub_namespace, of, source, created)
                return None
            except errors.AlreadyExists:
                pass
        companion = await hub.client.get(resource, of.name, hub_namespace)
        is_labelled = companion.metadata.labels.get(compute.LABEL_REFERENCED_DATA) == "true"
        if not is_labelled and not users_of(companion):
            text = f"the hub has another {of}, which is not replaced"
            return SourceFact(0, compute.REASON_SOURCE_UNAUTHORIZED, text)
        current = _content(companion)
        if current.get("type") != source.content.get("type"):
            # The type of a Secret cannot be changed.
            await self._delete(hub, of.kind, companion)
            raise Waiting(f"companion {of.entry} is replaced by one of another type", 1.0)
        users = users_of(companion)
        users = users if user in users else (*users, user)
        written = await self._patch(hub, of, companion, difference(current, source.content), users)
        self._remember(hub_namespace, of, source, written)
        return None

    async def release(self, hub: Cluster, entry: str, companion: Object, user: str) -> None:
        """Drop a user from a companion; without users it is deleted."""
        kind, _, name = entry.partition("/")
        self._env.fault("referenced-data.before-release")
        left = tuple(each for each in users_of(companion) if each != user)
        if left:
            await self._patch(hub, Reference(kind, name), companion, {}, left)
        elif not companion.metadata.deleting:
            await self._delete(hub, kind, companion)
            self._compared.pop((companion.namespace, kind, name), None)

    async def _patch(
        self,
        hub: Cluster,
        of: Reference,
        companion: Object,
        content: dict[str, Any],
        users: tuple[str, ...],
    ) -> Object:
        wanted = _metadata(of.name, users)
        metadata: dict[str, Any] = {
            part: changed
            for part in ("labels", "annotations")
            if (changed := _missing(getattr(companion.metadata, part), wanted[part]))
        }
        if not metadata and not content:
            return companion
        metadata["uid"] = companion.metadata.uid
        metadata["resourceVersion"] = companion.metadata.resource_version
        body = merge({"metadata": metadata, **content})
        written = await hub.client.patch(RESOURCES[of.kind], of.name, body, companion.namespace)
        self._signals.record_write(of.kind, "update")
        return written

    async def _delete(self, hub: Cluster, kind: str, companion: Object) -> None:
        """By uid and resource version: one that another deployment has begun to use stays."""
        try:
            await hub.client.delete(
                RESOURCES[kind],
                companion.name,
                companion.namespace,
                uid=companion.metadata.uid,
                resource_version=companion.metadata.resource_version,
            )
            self._signals.record_write(kind, "delete")
        except errors.NotFound:
            pass

    def _remember(
        self, hub_namespace: str, of: Reference, source: Source, companion: Object
    ) -> None:
        self._compared[hub_namespace, of.kind, of.name] = _Compared(
            source.version, _version(companion), source.fact.size, source.fact.content_hash
        )


def _version(obj: Object | None) -> tuple[str, str]:
    return (obj.metadata.uid, obj.metadata.resource_version) if obj is not None else ("", "-")


def _metadata(name: str, users: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": name,
        "labels": {compute.LABEL_REFERENCED_DATA: "true"},
        "annotations": {compute.ANNOTATION_REFERENCED_BY: entries_to_text(users)},
    }


def _missing(current: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if current.get(key) != value}


def _content(obj: Object) -> dict[str, Any]:
    """What is copied. Not ``immutable``: the source may be deleted and created again. A Secret of
    a service account is a plain one elsewhere, where that account does not exist."""
    parts = {"data": obj.data, "binaryData": obj.extra.get("binaryData", EMPTY)}
    content = {part: found for part, raw in parts.items() if (found := _decoded(raw))}
    if type_ := _decoded(obj.extra.get("type", EMPTY)):
        content["type"] = _OPAQUE if type_ == _SERVICE_ACCOUNT_TOKEN else type_
    return content


def _decoded(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if raw else None


def _size(kind: str, content: dict[str, Any]) -> int:
    data, binary = content.get("data", {}), content.get("binaryData", {})
    return size_of({}, data) if kind == SECRET else size_of(data, binary)
