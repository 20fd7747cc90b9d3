"""The behaviour of a simulated Instance, and its address."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from datum_compute.providers.addresses import SubnetAddresses
from datum_compute.providers.errors import InsufficientCapacity, Rejected
from datum_compute.providers.simulated.behaviour import (
    CRASH_AFTER_SECONDS,
    FAIL,
    SLEEP_AFTER_SECONDS,
    START_SECONDS,
    decide_report,
    parse_behaviour,
)


def test_without_annotations_an_instance_is_available_at_once_and_stays_available() -> None:
    report = decide_report(parse_behaviour({}), 0.0, ())

    assert (report.programmed.status, report.available.status) == ("True", "True")
    assert report.requeue_after is None


def test_an_instance_starts_after_its_start_delay() -> None:
    behaviour = parse_behaviour({START_SECONDS: "3"})

    starting = decide_report(behaviour, -3.0, ())
    assert (starting.programmed.reason, starting.available.reason) == (
        "ProgrammingInProgress",
        "Provisioning",
    )
    assert starting.requeue_after == 3.0
    assert decide_report(behaviour, 0.0, ()).available.status == "True"


def test_an_instance_crashes_repeatedly() -> None:
    behaviour = parse_behaviour({CRASH_AFTER_SECONDS: "10"})

    assert decide_report(behaviour, 9.0, ()).requeue_after == 1.0
    crashed = decide_report(behaviour, 1000.0, ())
    assert (crashed.available.status, crashed.available.reason) == ("False", "InstanceCrashing")
    assert crashed.programmed.status == "True"


def test_a_sleeping_instance_is_available_with_its_own_reason() -> None:
    asleep = decide_report(parse_behaviour({SLEEP_AFTER_SECONDS: "10"}), 10.0, ())

    assert (asleep.available.status, asleep.available.reason) == ("True", "Asleep")


def test_an_instance_fails_with_the_annotated_reason() -> None:
    with pytest.raises(Rejected) as failure:
        decide_report(parse_behaviour({FAIL: "ImageUnavailable"}), 0.0, ())

    assert failure.value.reason == "ImageUnavailable"


@pytest.mark.parametrize(
    "annotations", [{FAIL: "Bored"}, {START_SECONDS: "soon"}, {CRASH_AFTER_SECONDS: "-1"}]
)
def test_an_invalid_annotation_is_a_configuration_error(annotations: dict[str, str]) -> None:
    with pytest.raises(Rejected) as failure:
        parse_behaviour(annotations)

    assert failure.value.reason == "ConfigurationError"
    assert next(iter(annotations)) in failure.value.message


def test_addresses_begin_at_two_and_the_lowest_free_one_comes_next() -> None:
    subnet = SubnetAddresses(IPv4Network("10.128.0.0/20"))

    assert [subnet.ensure((uid, 0)) for uid in "abc"] == ["10.128.0.2", "10.128.0.3", "10.128.0.4"]
    subnet.release("b")
    assert subnet.ensure(("d", 0)) == "10.128.0.3"
    assert subnet.ensure(("e", 0)) == "10.128.0.5"


def test_an_interface_keeps_its_address() -> None:
    subnet = SubnetAddresses(IPv4Network("10.128.0.0/20"))

    assert subnet.ensure(("a", 0)) == subnet.ensure(("a", 0))
    assert subnet.ensure(("a", 0)) != subnet.ensure(("a", 1))


def test_addresses_in_use_are_not_assigned_again() -> None:
    subnet = SubnetAddresses(IPv4Network("10.128.0.0/20"))
    subnet.adopt([(("old", 0), "10.128.0.2"), (("far", 0), "10.9.0.3"), (("odd", 0), "fd00::1")])

    assert subnet.ensure(("new", 0)) == "10.128.0.3"
    assert subnet.ensure(("old", 0)) == "10.128.0.2"


def test_an_address_that_something_else_has_is_left_to_it() -> None:
    subnet = SubnetAddresses(IPv4Network("10.128.0.0/20"))
    subnet.ensure(("a", 0))
    subnet.ensure(("b", 0))

    subnet.leave("b")

    assert subnet.ensure(("b", 0)) == "10.128.0.4"
    assert subnet.ensure(("a", 0)) == "10.128.0.2"
    subnet.release("b")
    assert subnet.ensure(("c", 0)) == "10.128.0.4"


def test_a_full_subnet_is_reported() -> None:
    subnet = SubnetAddresses(IPv4Network("10.128.0.0/30"))
    subnet.ensure(("a", 0))

    with pytest.raises(InsufficientCapacity, match=r"10\.128\.0\.0/30"):
        subnet.ensure(("b", 0))
