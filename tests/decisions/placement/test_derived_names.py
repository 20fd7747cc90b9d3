"""Derived names follow from what they name, fit their limits and do not collide."""

from __future__ import annotations

import re
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import instance_names, names

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
label = st.sampled_from(["a", "b", "0"]) | st.text("ab0-", max_size=61).map("a{}z".format)
city = st.sampled_from(["A", "b"]) | st.text("aB0-", max_size=10).map("A{}z".format)


def digest(*identity: str) -> str:
    return sha256("\0".join(identity).encode()).hexdigest()[:10]


@pytest.mark.parametrize(
    ("workload", "placement", "place", "name"),
    [
        ("web", "default", "DFW", "web-default-dfw"),
        ("Web", "Main", "DFW", "web-main-dfw"),
        ("app-a", "b", "DFW", "app-a-b-dfw"),
        ("app", "a-b", "DFW", "app-" + digest("uid", "a-b", "dfw")),
        ("app", "a", "D-W", "app-" + digest("uid", "a", "d-w")),
        ("app", "a", "New York", "app-" + digest("uid", "a", "new york")),
        ("a" * 40, "default", "DFW", "a" * 40 + "-default-dfw"),
        ("a" * 41, "default", "DFW", "a" * 30 + "-" + digest("uid", "default", "dfw")),
    ],
)
def test_a_deployment_name_is_readable_where_it_is_unambiguous(
    workload: str, placement: str, place: str, name: str
) -> None:
    assert names.deployment_name(workload, "uid", placement, place) == name


def test_the_digest_of_a_name_is_that_of_its_identity() -> None:
    # sha256 of "uid\0a-b\0dfw" begins with these ten digits, for ever.
    assert names.deployment_name("app", "uid", "a-b", "DFW") == "app-35a6d1b1dc"


def test_a_shortened_name_does_not_end_in_a_dash() -> None:
    found = names.deployment_name("a" * 29 + "-" + "b" * 30, "uid", "default", "DFW")

    assert re.fullmatch(r"a{29}-[0-9a-f]{10}", found)


@given(label, st.uuids(), label, city)
def test_deployment_names_are_dns_labels_with_room_for_an_ordinal(
    workload: str, uid: object, placement: str, place: str
) -> None:
    name = names.deployment_name(workload, str(uid), placement, place)

    assert len(name) <= 52
    assert DNS_LABEL.fullmatch(name)


@given(label, st.uuids(), label, city)
def test_the_case_of_a_city_does_not_matter(
    workload: str, uid: object, placement: str, place: str
) -> None:
    upper = names.deployment_name(workload, str(uid), placement, place.upper())

    assert upper == names.deployment_name(workload, str(uid), placement, place.lower())


@given(st.lists(st.tuples(label, label, city), min_size=2, max_size=2))
def test_two_deployments_of_one_namespace_never_share_a_name(
    identities: list[tuple[str, str, str]],
) -> None:
    """A workload's name is unique in its namespace, so its uid may be taken from it here."""
    keys = {(workload, placement, place.lower()) for workload, placement, place in identities}

    found = {names.deployment_name(w, f"uid-{w}", p, c) for w, p, c in keys}

    assert len(found) == len(keys)


@pytest.mark.parametrize(
    ("labels", "name", "ordinal"),
    [
        ({"compute.datumapis.com/instance-index": "3"}, "web-3", 3),
        ({"compute.datumapis.com/instance-index": "3"}, "web-5", 3),
        ({}, "web-0", 0),
        ({}, "web-12", 12),
        ({"compute.datumapis.com/instance-index": "x"}, "web-2", 2),
        ({"compute.datumapis.com/instance-index": "-1"}, "other-2", None),
        ({}, "web-007", None),
        ({}, "web-", None),
        ({}, "web--1", None),
        ({}, "web-a-1", None),
        ({}, "other", None),
        ({}, "5", None),
        ({"compute.datumapis.com/instance-index": "٣"}, "web-x", None),
        ({"compute.datumapis.com/instance-index": "9" * 30}, "web-x", None),
    ],
)
def test_ordinals_are_read_from_the_label_then_from_the_name(
    labels: dict[str, str], name: str, ordinal: int | None
) -> None:
    assert instance_names.ordinal_of(labels, name, "web") == ordinal


@given(label, st.integers(0, 999))
def test_an_instance_name_gives_its_ordinal_back(deployment: str, ordinal: int) -> None:
    name = instance_names.instance_name(deployment, ordinal)

    assert instance_names.ordinal_of({}, name, deployment) == ordinal


@pytest.mark.parametrize(
    ("labels", "name", "deployment"),
    [
        ({"compute.datumapis.com/workload-deployment-name": "web"}, "other-3", "web"),
        ({}, "web-default-dfw-0", "web-default-dfw"),
        ({}, "web-007", ""),
        ({}, "web-x", ""),
        ({}, "web", ""),
    ],
)
def test_a_deployment_is_read_from_the_label_then_from_the_name(
    labels: dict[str, str], name: str, deployment: str
) -> None:
    assert instance_names.deployment_of(labels, name) == deployment


def test_claims_are_named_after_their_instance() -> None:
    assert names.claim_name("web-default-dfw-0") == "instance-web-default-dfw-0"
    assert names.instance_of_claim("instance-web-default-dfw-0") == "web-default-dfw-0"
    assert names.instance_of_claim("project-x") == ""


def test_names_derived_from_a_deployment() -> None:
    assert names.binding_name("web-default-dfw", 0) == "web-default-dfw-net-0"
    assert names.subnet_claim_name("default-dfw") == "default-dfw-0"
    assert names.policy_name("New York") == "city-new-york"
    assert names.federation_namespace("4ef59024") == "ns-4ef59024"


@pytest.mark.parametrize(
    ("text", "project"),
    [
        ("cluster-demo", "demo"),
        ("cluster-_test-project-abc", "test-project-abc"),
        ("cluster-org_demo", "demo"),
        ("demo", ""),
        ("", ""),
        ("cluster-", ""),
    ],
)
def test_cluster_labels_decode(text: str, project: str) -> None:
    assert names.decode_project(text) == project


@given(st.lists(label, min_size=1, max_size=3).map("/".join))
def test_an_encoded_cluster_decodes_to_its_project(name: str) -> None:
    encoded = names.encode_cluster(name)

    assert "/" not in encoded
    assert names.decode_project(encoded) == name.rpartition("/")[2]
