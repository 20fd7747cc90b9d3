"""The types of plane: how a plane is named, which path serves it, which namespaces it has.

A plane is one API server as a client sees it. The root plane and the hub exist once and are
named as their type (``root``, ``hub``); the others are named TYPE/NAME (``project/demo``,
``cell/dfw``). A new type is one record here and the line of the assembly that names its
planes.

The CLI's short commands import this module, so it imports ``typing`` alone.
"""

from __future__ import annotations

from typing import NamedTuple

# The sets of kinds that planes serve; :mod:`datum_compute.api.kinds` has their members.
COMPUTE = "compute"
NETWORKS = "networks"
SUBNETS = "subnets"
PROJECTS = "projects"
ALLOWANCES = "allowances"
PROPAGATION = "propagation"

MILO_SYSTEM_NAMESPACE = "milo-system"
"""Where Milo keeps a project's quota."""


class PlaneType(NamedTuple):
    """What all planes of a type have in common."""

    name: str
    path: str
    """Where a plane is served; ``{}`` is its name, and absent where there is only one."""
    kinds: tuple[str, ...] = ()
    """The sets of kinds that it serves beside the built-in ones."""
    namespaces: tuple[str, ...] = ("default",)
    """What a plane has from its creation."""
    placeholder: str = "NAME"
    """What help texts write for the name of a plane."""

    @property
    def form(self) -> str:
        """The names of its planes, as help texts write them."""
        return self.name if self.is_singleton else f"{self.name}/{self.placeholder}"

    @property
    def is_singleton(self) -> bool:
        return "{}" not in self.path

    def plane(self, name: str = "") -> str:
        """The full name of one plane: ``CELL.plane("dfw")`` is ``cell/dfw``. Raises
        ValueError when a singleton gets a name, or another type none."""
        if self.is_singleton == bool(name):
            raise ValueError(f"plane type {self.name}: unexpected name {name!r}")
        return f"{self.name}/{name}" if name else self.name


ROOT = PlaneType("root", "", (PROJECTS,))
PROJECT = PlaneType(
    "project",
    "/apis/resourcemanager.miloapis.com/v1alpha1/projects/{}/control-plane",
    (COMPUTE, NETWORKS, ALLOWANCES),
    ("default", MILO_SYSTEM_NAMESPACE),
)
HUB = PlaneType("hub", "/clusters/hub", (COMPUTE, PROPAGATION))
CELL = PlaneType("cell", "/clusters/{}", (COMPUTE, NETWORKS, SUBNETS), placeholder="CITY")

PLANE_TYPES = (PROJECT, HUB, CELL, ROOT)

_BY_NAME = {plane_type.name: plane_type for plane_type in PLANE_TYPES}
_ROUTES = sorted(
    (
        (*plane_type.path.partition("{}")[::2], plane_type.is_singleton, plane_type.name)
        for plane_type in PLANE_TYPES
        if plane_type.path
    ),
    key=lambda route: -len(route[0]),
)
"""The path before and after the name, and the type; the longest first, so that
``/clusters/hub`` is the hub and not a cell."""


def plane_type(plane: str) -> PlaneType | None:
    """The type of the plane of this name; None where no type has such planes."""
    head, slash, name = plane.partition("/")
    found = _BY_NAME.get(head)
    if found is None or "/" in name or (slash if found.is_singleton else not name):
        return None
    return found


def type_name(plane: str) -> str:
    """The name of an existing plane's type."""
    return plane.partition("/")[0]


def plane_prefix(plane: str) -> str:
    """The path a plane is served under; empty for the root plane. Raises ValueError for a
    name that no type has."""
    found = plane_type(plane)
    if found is None:
        raise ValueError(f"no plane is named {plane!r}")
    return found.path.replace("{}", cluster_name(plane))


def cluster_name(plane: str) -> str:
    """What fleets and clients call the plane: its name without the type."""
    return plane.rpartition("/")[2]


def split_plane(path: str) -> tuple[str, str]:
    """The plane a path belongs to, and the path within it (``/`` for its root)."""
    for head, tail, is_singleton, of_type in _ROUTES:
        if not path.startswith(head):
            continue
        name, slash, rest = path[len(head) :].partition("/")
        if is_singleton:
            if not name:
                return of_type, slash + rest or "/"
            continue
        if tail:
            last, slash, rest = rest.partition("/")
            if last != tail[1:]:
                continue
        return f"{of_type}/{name}", slash + rest or "/"
    return ROOT.name, path


def split_project_path(path: str) -> tuple[str, str]:
    """The path of a platform and the project whose plane is at ``path``; the project is empty
    where the path is no project's plane. A platform may be served below a path of its own."""
    head, _, tail = PROJECT.path.partition("{}")
    base, found, rest = path.rpartition(head)
    name = rest.removesuffix(tail)
    if not found or name == rest or not name or "/" in name:
        return path, ""
    return base, name
