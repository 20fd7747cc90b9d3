"""From a path within a plane to the resource it addresses.

Parsing is pure: whether the plane serves the resource is decided later.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from datum_compute.api import planes


class ResourcePath(msgspec.Struct, frozen=True, gc=False):
    """What a resource path addresses."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class PlanePath(msgspec.Struct, frozen=True, gc=False):
    """What a path of the server addresses."""

    plane: str
    path: str
    """Within the plane."""
    target: ResourcePath | None


_CACHED_LENGTH = 512
"""Of the longest path that is remembered: so all of them together are not large."""


def resolve(path: str) -> PlanePath:
    return _known_route(path) if len(path) <= _CACHED_LENGTH else _route(path)


def _route(path: str) -> PlanePath:
    plane, rest = planes.split_plane(path)
    return PlanePath(plane, rest, parse_resource_path(rest))


_known_route = lru_cache(2048)(_route)


def parse_resource_path(path: str) -> ResourcePath | None:
    """The resource a path within a plane addresses, or None when it addresses none."""
    parts = path.removesuffix("/").split("/")
    if len(parts) == 1:
        return None
    if parts[1] == "api" and len(parts) > 3:
        return _target("", parts[2], parts[3:])
    if parts[1] == "apis" and len(parts) > 4:
        return _target(parts[2], parts[3], parts[4:])
    return None


_NAMESPACE_SUBRESOURCES = ("status", "finalize")


def _target(group: str, version: str, rest: list[str]) -> ResourcePath | None:
    if "" in rest:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_about_namespace(group, rest):
        namespace = rest[1]
        rest = rest[2:]
    if len(rest) > 3:
        return None
    return ResourcePath(group, version, rest[0], namespace, *rest[1:])


def _is_about_namespace(group: str, rest: list[str]) -> bool:
    """``namespaces/NAME/status`` in the core group is the namespace's own status."""
    return not group and len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES
