"""Which range a subnet gets."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from datum_compute.standins.network_services import pool


@pytest.mark.parametrize(
    ("city", "expected"),
    [("DFW", "10.128.0.0/20"), ("dls", "10.130.0.0/20"), ("LHR", "10.132.0.0/20")],
)
def test_three_cities_have_the_fixed_ranges_of_the_real_system(city: str, expected: str) -> None:
    assert pool.decide_range(city, []) == IPv4Network(expected)


def test_another_city_gets_the_lowest_range_that_is_free_and_not_reserved() -> None:
    first = pool.decide_range("ORD", [])
    second = pool.decide_range("AMS", [IPv4Network("10.128.16.0/20")])

    assert first == IPv4Network("10.128.16.0/20")
    assert second == IPv4Network("10.128.32.0/20")


def test_a_second_subnet_in_a_fixed_city_gets_another_range() -> None:
    assert pool.decide_range("DFW", [pool.FIXED["DFW"]]) == IPv4Network("10.128.16.0/20")


def test_allocated_ranges_never_overlap_until_the_pool_is_exhausted() -> None:
    taken: list[IPv4Network] = [pool.decide_range(city, []) or pool.POOL for city in pool.FIXED]
    taken.append(IPv4Network("10.192.0.0/10"))
    taken.append(IPv4Network("10.160.0.0/11"))
    taken.append(IPv4Network("10.144.0.0/12"))
    taken.append(IPv4Network("10.136.0.0/13"))

    while (chosen := pool.decide_range("ORD", taken)) is not None:
        assert not any(chosen.overlaps(other) for other in taken)
        assert chosen.subnet_of(pool.POOL)
        taken.append(chosen)

    assert sum(one.num_addresses for one in taken) == pool.POOL.num_addresses
