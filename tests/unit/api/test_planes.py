"""Names and paths of planes agree, in both directions."""

from __future__ import annotations

import pytest

from datum_compute.api import planes
from datum_compute.api.kinds import KINDS
from datum_compute.api.planes import CELL, HUB, PLANE_TYPES, PROJECT, ROOT, PlaneType
from datum_compute.api.resourcemanager.v1alpha1 import PROJECTS

PATHS = {
    "root": "",
    "hub": "/clusters/hub",
    "cell/dfw": "/clusters/dfw",
    "cell/hubble": "/clusters/hubble",
    "project/demo": "/apis/resourcemanager.miloapis.com/v1alpha1/projects/demo/control-plane",
}


@pytest.mark.parametrize(("plane", "prefix"), PATHS.items())
@pytest.mark.parametrize("rest", ["/", "/api/v1/namespaces", "/apis"])
def test_a_path_leads_back_to_the_plane_it_was_built_for(
    plane: str, prefix: str, rest: str
) -> None:
    assert planes.plane_prefix(plane) == prefix
    assert planes.split_plane(prefix + rest) == (plane, rest)


def test_a_prefix_without_a_path_is_the_root_of_the_plane() -> None:
    assert planes.split_plane("/clusters/hub") == ("hub", "/")
    assert planes.split_plane(PATHS["project/demo"]) == ("project/demo", "/")


@pytest.mark.parametrize("rest", ["demo", "demo/status", "demo/control-planes/api", ""])
def test_paths_of_projects_stay_on_the_root_plane(rest: str) -> None:
    path = f"/apis/resourcemanager.miloapis.com/v1alpha1/projects/{rest}"

    assert planes.split_plane(path) == ("root", path)


def test_project_planes_are_served_below_their_project() -> None:
    base = f"/apis/{PROJECTS.group}/{PROJECTS.version}/{PROJECTS.plural}/"

    assert PROJECT.path == base + "{}/control-plane"


@pytest.mark.parametrize("plane_type", PLANE_TYPES)
def test_a_plane_has_the_type_it_was_named_by(plane_type: PlaneType) -> None:
    plane = plane_type.plane("" if plane_type.is_singleton else "x")

    assert planes.plane_type(plane) is plane_type
    assert planes.type_name(plane) == plane_type.name
    assert planes.split_plane(planes.plane_prefix(plane) + "/api") == (plane, "/api")


@pytest.mark.parametrize(
    "name", ["", "root/", "root/x", "hub/x", "cell", "cell/", "cell/a/b", "project", "moon/x"]
)
def test_other_names_have_no_type_and_no_path(name: str) -> None:
    assert planes.plane_type(name) is None
    with pytest.raises(ValueError, match="no plane is named"):
        planes.plane_prefix(name)


def test_a_singleton_takes_no_name_and_other_types_need_one() -> None:
    for plane_type, name in [(ROOT, "x"), (HUB, "x"), (CELL, ""), (PROJECT, "")]:
        with pytest.raises(ValueError, match=plane_type.name):
            plane_type.plane(name)


def test_planes_serve_the_sets_of_kinds_that_there_are() -> None:
    served = {name for plane_type in PLANE_TYPES for name in plane_type.kinds}

    assert served == {kind.kind_set for kind in KINDS}
