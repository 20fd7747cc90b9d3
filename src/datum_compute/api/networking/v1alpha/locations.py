"""Places that can run things, and which of them a project may use."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.compute.constants import LABEL_TOPOLOGY_CITY_CODE
from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.networking.v1alpha import constants
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "LOCATIONS",
    "LOCATION_BINDINGS",
    "LOCATION_BINDING_CONDITIONS",
    "LOCATION_CONDITIONS",
    "TOPOLOGY_CITY_CODE",
    "Coordinates",
    "GCPProvider",
    "Location",
    "LocationBinding",
    "LocationBindingSpec",
    "LocationBindingStatus",
    "LocationName",
    "LocationProvider",
    "LocationSpec",
    "LocationStatus",
]

LOCATIONS = Resource(constants.GROUP, "v1alpha", "locations", "Location", namespaced=False)
LOCATION_BINDINGS = Resource(
    constants.GROUP, "v1alpha", "locationbindings", "LocationBinding", namespaced=False
)

TOPOLOGY_CITY_CODE = LABEL_TOPOLOGY_CITY_CODE
"""Key of a Location's topology: the city it is in."""

LOCATION_CONDITIONS = (
    DeclaredCondition(constants.CONDITION_READY, true=(constants.REASON_READY,)),
)
LOCATION_BINDING_CONDITIONS = (DeclaredCondition(constants.CONDITION_LOCATION_AVAILABLE),)


class GCPProvider(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    project_id: Annotated[str, described("Project at the provider.", required=True)] = ""
    region: Annotated[str, described("Region at the provider.", required=True)] = ""
    zone: Annotated[str, described("Zone at the provider.", required=True)] = ""


class LocationProvider(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    gcp: Annotated[GCPProvider | None, described("Google Cloud.")] = None


class Coordinates(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    latitude: Annotated[str, described("Degrees north.", required=True)] = ""
    longitude: Annotated[str, described("Degrees east.", required=True)] = ""


class LocationSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    location_class_name: Annotated[str, described("Class of the location.")] = ""
    topology: Annotated[
        dict[str, str],
        described(
            f"Where it is; holds {TOPOLOGY_CITY_CODE}.",
            required=True,
        ),
    ] = {}
    provider: Annotated[LocationProvider | None, described("Whose infrastructure it is.")] = None
    coordinates: Annotated[Coordinates | None, described("Where on the map.")] = None


class LocationStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    conditions: Annotated[Conditions, described("Ready.", list_type="map", list_keys=["type"])] = ()


class Location(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A place that can run things."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LocationSpec = LocationSpec()
    status: LocationStatus = LocationStatus()

    @property
    def city_code(self) -> str:
        return self.spec.topology.get(TOPOLOGY_CITY_CODE, "")


class LocationName(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the Location.", required=True)] = ""


class LocationBindingSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    location_ref: Annotated[LocationName, described("The Location.", required=True)] = (
        LocationName()
    )
    location_class_name: Annotated[str, described("Class of the location.")] = ""
    display_name: Annotated[str, described("Name for people.")] = ""
    topology: Annotated[dict[str, str], described("Mirror of the Location's topology.")] = {}


class LocationBindingStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    conditions: Annotated[
        Conditions, described("Available.", list_type="map", list_keys=["type"])
    ] = ()


class LocationBinding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Location a project may use."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LocationBindingSpec = LocationBindingSpec()
    status: LocationBindingStatus = LocationBindingStatus()

    @property
    def city_code(self) -> str:
        return self.spec.topology.get(TOPOLOGY_CITY_CODE, "")
