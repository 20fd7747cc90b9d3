"""Which Instance serves a request: by Host, city, availability and load."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition
from datum_compute.api.meta import ObjectMeta
from datum_compute.decisions.routing import (
    Backend,
    CityBackends,
    HttpRoute,
    RequestedHost,
    decide_backend,
    decide_route,
    decide_url,
    parse_host,
    parse_port,
    url_of,
)

CITIES = ("DFW", "IAD", "LHR")


def workload(*cities: str, annotations: Mapping[str, str] | None = None) -> compute.Workload:
    notes = {compute.ANNOTATION_HTTP_PORT: "8080"} if annotations is None else dict(annotations)
    placement = compute.Placement(name="default", city_codes=cities)
    return compute.Workload(
        metadata=ObjectMeta(name="hello", uid="u", annotations=notes),
        spec=compute.WorkloadSpec(placements=(placement,)),
    )


def instance(
    city: str,
    ordinal: int = 0,
    *,
    available: bool = True,
    external: str | None = None,
    network: str | None = "10.128.0.2",
) -> compute.Instance:
    status = "True" if available else "False"
    addresses = compute.InterfaceAssignments(network_ip=network, external_ip=external)
    return compute.Instance(
        metadata=ObjectMeta(
            name=f"hello-default-{city.lower()}-{ordinal}",
            labels={compute.LABEL_CITY_CODE: city},
        ),
        status=compute.InstanceStatus(
            conditions=(Condition(type="Available", status=status, reason="R"),),
            network_interfaces=(compute.InterfaceStatus(assignments=addresses),),
        ),
    )


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("hello.demo.localhost", RequestedHost("demo", "hello")),
        ("hello.demo.localhost:7480", RequestedHost("demo", "hello")),
        ("HELLO.Demo.LOCALHOST.:80", RequestedHost("demo", "hello")),
        ("dfw.hello.demo.localhost", RequestedHost("demo", "hello", "dfw")),
        ("demo.localhost", None),
        ("localhost", None),
        ("", None),
        ("a.b.c.d.localhost", None),
        ("hello.demo.example", None),
        ("hello..localhost", None),
        ("-hello.demo.localhost", None),
        ("hello_.demo.localhost", None),
        ("hello.demo.localhost:x", None),
        ("hello.demo.localhost:0", None),
        ("[::1]:80", None),
        (f"{'a' * 64}.demo.localhost", None),
    ],
)
def test_a_host_names_workload_project_and_perhaps_a_city(
    host: str, expected: RequestedHost | None
) -> None:
    assert parse_host(host) == expected


@given(st.text())
def test_no_text_is_too_odd_for_a_host_or_a_port(text: str) -> None:
    parse_host(text)
    port = parse_port(text)
    assert port is None or (1 <= port <= 65535 and str(port) == text)


@given(st.integers(-10, 70000))
def test_a_port_is_a_number_from_1_to_65535(number: int) -> None:
    assert parse_port(str(number)) == (number if 1 <= number <= 65535 else None)


def test_cities_are_tried_in_the_order_of_the_placements() -> None:
    route = decide_route(workload("LHR", "DFW"), [instance("DFW"), instance("LHR")])
    assert route is not None
    assert [each.city for each in route.cities] == ["LHR", "DFW"]


def test_only_available_instances_serve_and_the_external_address_is_preferred() -> None:
    instances = [
        instance("DFW", 0, available=False),
        instance("DFW", 1, external="127.64.0.9"),
        instance("DFW", 2),
        instance("DFW", 3, network=None),
    ]
    route = decide_route(workload("DFW"), instances)
    assert route is not None
    [city] = route.cities
    assert city.instances == 4
    assert [(each.address, each.port) for each in city.backends] == [
        ("127.64.0.9", 8080),
        ("10.128.0.2", 8080),
    ]


def test_a_successor_with_the_same_name_and_address_is_another_backend() -> None:
    def backend(uid: str) -> Backend:
        found = instance("DFW")
        found = msgspec.structs.replace(
            found, metadata=msgspec.structs.replace(found.metadata, uid=uid)
        )
        route = decide_route(workload("DFW"), [found])
        assert route is not None
        return route.cities[0].backends[0]

    assert backend("first") != backend("second")


def test_a_city_that_the_spec_no_longer_names_serves_after_the_others() -> None:
    route = decide_route(workload("LHR"), [instance("DFW"), instance("LHR")])
    assert route is not None
    assert [each.city for each in route.cities] == ["LHR", "DFW"]


@pytest.mark.parametrize("annotations", [{}, {compute.ANNOTATION_HTTP_PORT: "http"}])
def test_without_a_valid_port_there_is_no_route(annotations: dict[str, str]) -> None:
    assert decide_route(workload("DFW", annotations=annotations), [instance("DFW")]) is None


def test_one_city_can_be_chosen() -> None:
    route = decide_route(workload("DFW", "LHR"), [instance("DFW"), instance("LHR")])
    assert route is not None
    chosen = route.within("lhr")
    assert chosen is not None
    assert [each.city for each in chosen.cities] == ["LHR"]
    assert route.within("iad") is None


backends = st.lists(
    st.builds(Backend, st.text("abc", min_size=1, max_size=3), st.just("a"), st.just(1)),
    unique=True,
    max_size=5,
)
routes = st.lists(backends, min_size=1, max_size=3).map(
    lambda cities: HttpRoute(
        tuple(
            CityBackends(name, tuple(Backend(f"{name}-{b.instance}", "a", 1) for b in each), 9)
            for name, each in zip(CITIES, cities, strict=False)
        )
    )
)


@given(routes, st.integers(0, 100), st.dictionaries(st.text("abc"), st.integers(0, 9)))
def test_every_instance_is_tried_once_city_by_city_the_least_loaded_first(
    route: HttpRoute, turn: int, loads: dict[str, int]
) -> None:
    def load_of(backend: Backend) -> int:
        return loads.get(backend.instance.partition("-")[2], 0)

    tried: list[Backend] = []
    while backend := decide_backend(route, tried, load_of, turn):
        tried.append(backend)
    expected = [each for city in route.cities for each in city.backends]
    assert sorted(tried, key=str) == sorted(expected, key=str)
    keys = [(CITIES.index(each.instance.partition("-")[0]), load_of(each)) for each in tried]
    assert keys == sorted(keys)


def test_instances_with_equal_load_take_turns() -> None:
    route = HttpRoute((CityBackends("DFW", tuple(Backend(n, "a", 1) for n in "abc"), 3),))
    chosen = [decide_backend(route, [], lambda _: 0, turn) for turn in range(6)]
    assert [each.instance for each in chosen if each] == list("abcabc")


URL = "http://hello.demo.localhost:7480"


@pytest.mark.parametrize(
    ("current", "serves", "expected"),
    [
        (None, True, URL),
        ("", True, URL),
        (URL, True, URL),
        ("http://hello.demo.localhost:9999", True, URL),
        (URL, False, None),
        (None, False, None),
        ("https://hello.example.com", True, "https://hello.example.com"),
        ("https://hello.example.com", False, "https://hello.example.com"),
        (f"{URL}/", True, f"{URL}/"),
    ],
)
def test_a_url_of_another_platform_stays(
    current: str | None, serves: bool, expected: str | None
) -> None:
    assert decide_url(current, URL, serves=serves) == expected


@given(
    st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
    st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
    st.sampled_from(["", *CITIES]),
)
def test_the_host_of_a_url_names_its_workload(workload: str, project: str, city: str) -> None:
    url = url_of(project, workload, 7480, city)
    assert parse_host(url.removeprefix("http://")) == RequestedHost(project, workload, city.lower())
