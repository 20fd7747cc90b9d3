"""Which Instances serve an HTTP request, by the Host it names.

A Workload with the annotation ``http-port`` is served at ``<workload>.<project>.localhost`` by the
first city, in the order of its placements, that has an available Instance, and at
``<city>.<workload>.<project>.localhost`` by that city alone. Reports of a cell that does not answer
count: what ran there most likely still does, and an Instance that refuses a connection is passed
over for the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.name_patterns import DNS_LABEL, LABEL_LIMIT

DOMAIN = "localhost"
"""Every name below it means this machine, to browsers and to curl."""
_LABEL = re.compile(DNS_LABEL)
_NUMBER = re.compile(r"[1-9][0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class Backend:
    """An Instance that can be connected to."""

    instance: str
    address: str
    port: int
    uid: str = ""
    """A successor has the name, and often the address, of the one before it."""


@dataclass(frozen=True, slots=True)
class CityBackends:
    city: str
    backends: tuple[Backend, ...] = ()
    """The available ones, by name."""
    instances: int = 0
    """All that exist."""


@dataclass(frozen=True, slots=True)
class HttpRoute:
    cities: tuple[CityBackends, ...]
    """In the order in which they are tried."""
    suspended: bool = False

    def within(self, city: str) -> HttpRoute | None:
        """The same with one city alone; None where the Workload is not in it."""
        found = tuple(each for each in self.cities if each.city.lower() == city)
        return HttpRoute(found, self.suspended) if found else None


@dataclass(frozen=True, slots=True)
class RequestedHost:
    project: str
    workload: str
    city: str = ""
    """In lower case; empty where the request names none."""


def parse_port(text: object) -> int | None:
    """The number in its one spelling; None for anything else."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        return None
    return int(text) if int(text) <= 65535 else None


def http_port(annotations: Mapping[str, str]) -> int | None:
    """The port on which Instances serve HTTP; None where there is none, or it is not valid."""
    return parse_port(annotations.get(compute.ANNOTATION_HTTP_PORT, ""))


def parse_host(host: str) -> RequestedHost | None:
    """What a Host header names; None for a name that is not ours. Its port is not looked at: a
    tunnel or a container may have mapped it."""
    name, _, port = host.lower().partition(":")
    labels = name.removesuffix(".").split(".")
    if (port and parse_port(port) is None) or not 3 <= len(labels) <= 4 or labels[-1] != DOMAIN:
        return None
    if not all(len(each) <= LABEL_LIMIT and _LABEL.fullmatch(each) for each in labels):
        return None
    *city, workload, project, _ = labels
    return RequestedHost(project, workload, *city)


def decide_route(
    workload: compute.Workload, instances: Iterable[compute.Instance]
) -> HttpRoute | None:
    """The route to ``instances``, which are the Workload's; None where it serves no HTTP."""
    port = http_port(workload.metadata.annotations)
    if port is None or workload.metadata.deleting:
        return None
    named = [city for placement in workload.spec.placements for city in placement.city_codes]
    cities = {city.lower(): city for city in reversed(named)}
    found: dict[str, list[compute.Instance]] = {city.lower(): [] for city in named}
    for instance in sorted(instances, key=lambda each: each.metadata.name):
        city = instance.metadata.labels.get(compute.LABEL_CITY_CODE, "")
        # A city that the spec no longer names serves, after the others, until it is removed.
        cities.setdefault(city.lower(), city)
        found.setdefault(city.lower(), []).append(instance)
    return HttpRoute(
        tuple(
            CityBackends(cities[city], tuple(_backends(of_city, port)), len(of_city))
            for city, of_city in found.items()
        ),
        bool(workload.metadata.annotations.get(compute.ANNOTATION_SUSPENDED)),
    )


def _backends(instances: Iterable[compute.Instance], port: int) -> Iterable[Backend]:
    for instance in instances:
        address = address_of(instance)
        if instance.available and not instance.metadata.deleting and address:
            yield Backend(instance.metadata.name, address, port, instance.metadata.uid)


def address_of(instance: compute.Instance) -> str:
    for interface in instance.status.network_interfaces:
        found = interface.assignments.external_ip or interface.assignments.network_ip
        if found:
            return found
    return ""


def decide_backend(
    route: HttpRoute, tried: Collection[Backend], load_of: Callable[[Backend], int], turn: int
) -> Backend | None:
    """The Instance to try next: in the first city with one that was not tried, the one with the
    fewest open requests. Between equals ``turn`` decides, which the caller counts up."""
    for city in route.cities:
        left = [each for each in city.backends if each not in tried]
        if left:
            start = turn % len(left)
            return min(left[start:] + left[:start], key=load_of)
    return None


def url_of(project: str, workload: str, port: int, city: str = "") -> str:
    """Where the local platform serves a Workload, or one city of it."""
    host = f"{workload}.{project}.{DOMAIN}"
    return f"http://{city.lower()}.{host}:{port}" if city else f"http://{host}:{port}"


def decide_url(current: str | None, wanted: str, *, serves: bool) -> str | None:
    """The value of the annotation for a URL: ``wanted`` or None, but one of another platform
    stays. Ours is recognized by its host: its port may have been another."""
    own = re.escape(wanted.rpartition(":")[0])
    if current and not re.fullmatch(rf"{own}:\d+", current):
        return current
    return wanted if serves else None
