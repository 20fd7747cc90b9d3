"""From a path to what it addresses.

A path is first cut into the plane's prefix and the rest, then the rest into group,
version, namespace, resource, name and subresource. Both cuts are pure; whether the plane
exists and serves the resource is found out later.
"""

from __future__ import annotations

import msgspec

PROJECTS_PATH = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/"
CONTROL_PLANE = "control-plane"
CLUSTERS_PATH = "/clusters/"

ROOT = "root"


class ResourcePath(msgspec.Struct, frozen=True, gc=False):
    """What a resource path addresses."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def split_plane(path: str) -> tuple[str, str]:
    """The plane a path belongs to, and the path within it (``/`` for its root)."""
    if path.startswith(CLUSTERS_PATH):
        cluster, slash, rest = path[len(CLUSTERS_PATH) :].partition("/")
        plane = "hub" if cluster == "hub" else f"cell/{cluster}"
        return plane, slash + rest or "/"
    if path.startswith(PROJECTS_PATH):
        project, _, rest = path[len(PROJECTS_PATH) :].partition("/")
        head, slash, rest = rest.partition("/")
        if head == CONTROL_PLANE:
            return f"project/{project}", slash + rest or "/"
    return ROOT, path


def plane_prefix(plane: str) -> str:
    """The path a plane is served under; empty for the root plane."""
    kind, _, name = plane.partition("/")
    if kind == "project":
        return f"{PROJECTS_PATH}{name}/{CONTROL_PLANE}"
    if kind == "cell":
        return CLUSTERS_PATH + name
    return "" if plane == ROOT else CLUSTERS_PATH + plane


def parse_resource_path(path: str) -> ResourcePath | None:
    """The resource a path within a plane addresses, or None when it has not that form."""
    parts = path.split("/")
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
