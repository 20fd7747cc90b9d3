"""What is refused, with which errors; what is accepted, with which warnings."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from datum_compute.decisions.admission import Needs, Offer, decide_admission, decide_needs
from tests.support.decisions.invalid_workloads import CPU, INVALID_WORKLOADS, InvalidWorkload
from tests.support.decisions.workloads import CONTAINER, MACHINE, REMOVED, SHORT, with_changes

OFFER = Offer(("DFW", "IAD", "LHR"), frozenset({"default"}), denied=frozenset({"secret-lab"}))

_SHORT = re.compile(rf"^({'|'.join(SHORT)})\b")


def errors(workload: Any, *, old: Any = None, offer: Offer = OFFER) -> list[str]:
    return [str(error) for error in decide_admission(workload, offer=offer, old=old).errors]


def warnings(workload: Any, *, old: Any = None, offer: Offer = OFFER) -> list[str]:
    decision = decide_admission(workload, offer=offer, old=old)
    assert not decision.errors
    return list(decision.warnings)


@pytest.mark.parametrize("bad", INVALID_WORKLOADS, ids=lambda bad: bad.what.replace(" ", "-"))
def test_an_invalid_workload_gets_exactly_these_errors(bad: InvalidWorkload) -> None:
    workload = with_changes(bad.base, bad.changes)

    assert errors(workload) == [
        _SHORT.sub(lambda found: SHORT[found[1]], text) for text in bad.errors
    ]


def test_the_table_of_errors_is_long_and_has_no_duplicates() -> None:
    assert len(INVALID_WORKLOADS) >= 60
    assert len({bad.what for bad in INVALID_WORKLOADS}) == len(INVALID_WORKLOADS)


@pytest.mark.parametrize("base", [CONTAINER, MACHINE], ids=["container", "machine"])
def test_a_valid_workload_is_accepted_without_warnings(base: dict[str, Any]) -> None:
    decision = decide_admission(base, offer=OFFER)

    assert (decision.errors, decision.warnings) == ((), ())


@pytest.mark.parametrize(
    "changes",
    [
        {"PLACEMENT.cityCodes": ["dfw"]},
        {"APP.resources": {}},
        {"APP.resources": {"limits": {}, "requests": {}}},
        {"RUNTIME.resources.requests": {}},
        {"SCALE.minReplicas": 1000},
        {"SCALE.instanceManagementPolicy": "OrderedReady"},
        {"DISK.resources.requests.storage": "100Gi"},
        {"DISK.resources.requests.storage": 10 * 2**30},
        {"TEMPLATE.networkInterfaces[0].network.namespace": "default"},
        {"TEMPLATE.networkInterfaces[0].networkPolicy.ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": "http"}]}]},  # noqa: E501
        {"APP.command": ["/bin/app"], "APP.args": ["--port", "80", ""]},
        {"metadata.name": "a" * 63},
        {"metadata": {"generateName": "api-", "namespace": "default"}},
        {"RUNTIME.sandbox.containers[1].ports": [{"name": "http", "port": 8080}]},
    ],
    ids=str,
)  # fmt: skip
def test_an_allowed_variation_is_accepted(changes: dict[str, Any]) -> None:
    assert errors(with_changes(CONTAINER, changes)) == []


def test_each_error_carries_kind_and_value() -> None:
    workload = with_changes(CONTAINER, {"PLACEMENT.cityCodes": ["XYZ"]})

    (error,) = decide_admission(workload, offer=OFFER).errors

    assert (error.path, error.cause_reason, error.value) == (
        "spec.placements[0].cityCodes[0]",
        "FieldValueNotSupported",
        "XYZ",
    )


# Unknown is not empty.


def test_unreadable_cities_are_reported_as_unreadable_and_not_as_missing() -> None:
    unread, none = Offer(None), Offer(())

    assert errors(CONTAINER, offer=unread)[0] == (
        "spec.placements[0].cityCodes[0]: Internal error:"
        " the project's locations could not be read: try again"
    )
    assert errors(CONTAINER, offer=none)[0] == (
        'spec.placements[0].cityCodes[0]: Invalid value: "DFW":'
        " the project has no available location"
    )


def test_networks_that_could_not_be_read_are_not_warned_about() -> None:
    assert warnings(CONTAINER, offer=Offer(OFFER.cities, None)) == []


# Warnings.

AUTOSCALING = (
    'autoscaling is not active: maxReplicas and metrics of placement "default" have no effect,'
    " and minReplicas instances run in each city"
)


@pytest.mark.parametrize(
    "changes",
    [{"SCALE.maxReplicas": 5, "SCALE.metrics": [CPU]}, {"SCALE.metrics": [CPU]}],
    ids=["maximum", "metrics"],
)
def test_autoscaling_is_accepted_with_a_warning(changes: dict[str, Any]) -> None:
    assert warnings(with_changes(CONTAINER, changes)) == [AUTOSCALING]


def test_a_roll_on_changes_that_has_no_effect_is_warned_about() -> None:
    rolls = with_changes(
        CONTAINER,
        {
            "spec.template.metadata.annotations": {
                "compute.datumapis.com/roll-on-config-change": "true"
            }
        },
    )

    assert warnings(rolls) == []
    assert warnings(rolls, offer=replace(OFFER, delivers_data=False)) == [
        "compute.datumapis.com/roll-on-config-change has no effect on a cluster without a hub:"
        " a change of a ConfigMap or Secret replaces no instance"
    ]
    assert warnings(CONTAINER, offer=replace(OFFER, delivers_data=False)) == []


NAMING_DATA = with_changes(
    CONTAINER,
    {
        "APP.env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "b"}}},
        ],
        "APP.envFrom": [{"prefix": "C_", "secretRef": {"name": "more"}}],
        "TEMPLATE.runtime.sandbox.imagePullSecrets": [{"name": "registry"}],
    },
)
NAMED = (
    ("ConfigMap", "settings"),
    ("Secret", "more"),
    ("Secret", "registry"),
    ("Secret", "tokens"),
)


def test_the_author_must_be_allowed_to_read_every_object_that_the_template_names() -> None:
    assert decide_needs(NAMING_DATA).data == NAMED

    denied = frozenset({("Secret", "tokens"), ("Secret", "more"), ("Secret", "other")})
    offer = replace(OFFER, denied_data=denied)

    assert errors(NAMING_DATA, offer=offer) == [
        "spec.template.spec.runtime.sandbox.containers[0].env[1].valueFrom.secretKeyRef.name:"
        ' Forbidden: permission to read Secret "tokens" was denied',
        "spec.template.spec.runtime.sandbox.containers[0].envFrom[0].secretRef.name:"
        ' Forbidden: permission to read Secret "more" was denied',
    ]


def test_who_changes_what_runs_must_be_allowed_to_read_what_was_named_before() -> None:
    other_image = with_changes(NAMING_DATA, {"APP.image": "acme/printer:1"})
    offer = replace(OFFER, denied_data=frozenset({("Secret", "tokens")}))

    assert decide_needs(other_image, NAMING_DATA).data == NAMED
    assert len(errors(other_image, offer=offer, old=NAMING_DATA)) == 1


def test_a_write_that_changes_nothing_that_runs_needs_no_right_to_read() -> None:
    scaled = with_changes(NAMING_DATA, {"SCALE.minReplicas": 3})

    assert decide_needs(scaled, NAMING_DATA).data == ()


def test_a_warning_names_few_and_counts_the_rest() -> None:
    interfaces = [{"network": {"name": f"n{i}"}} for i in range(5)]

    assert warnings(with_changes(CONTAINER, {"TEMPLATE.networkInterfaces": interfaces})) == [
        'networks "n0", "n1", "n2" and 2 more do not exist in the workload\'s namespace:'
        " nothing starts until they do"
    ]


def test_a_network_that_does_not_exist_yet_is_warned_about() -> None:
    workload = with_changes(CONTAINER, {"TEMPLATE.networkInterfaces[0].network.name": "later"})

    assert warnings(workload) == [
        'network "later" does not exist in the workload\'s namespace: nothing starts until it does'
    ]


def test_whether_a_denied_network_exists_is_not_revealed() -> None:
    workload = with_changes(CONTAINER, {"TEMPLATE.networkInterfaces[0].network.name": "secret-lab"})

    decision = decide_admission(workload, offer=OFFER)

    assert (len(decision.errors), decision.warnings) == (1, ())


# Updates.


@pytest.mark.parametrize(
    "bad",
    [bad for bad in INVALID_WORKLOADS if bad.changes != {"": None}],  # nothing stored is a create
    ids=lambda bad: bad.what.replace(" ", "-"),
)
def test_stored_values_are_not_validated_again(bad: InvalidWorkload) -> None:
    stored = with_changes(bad.base, bad.changes)

    assert errors(stored, old=stored) == []


@pytest.mark.parametrize("bad", INVALID_WORKLOADS, ids=lambda bad: bad.what.replace(" ", "-"))
def test_an_update_is_validated_like_a_create(bad: InvalidWorkload) -> None:
    workload = with_changes(bad.base, bad.changes)

    assert errors(workload, old=bad.base) == errors(workload)


def test_a_city_no_longer_served_does_not_block_a_change_of_the_image() -> None:
    gone = Offer(("DFW", "IAD"))
    workload = with_changes(CONTAINER, {"APP.image": "registry.example/acme/api:2"})

    assert errors(workload, old=CONTAINER, offer=gone) == []


def test_a_city_no_longer_served_may_stay_but_not_be_added() -> None:
    gone = Offer(("DFW",))
    elsewhere = with_changes(CONTAINER, {"PLACEMENT.cityCodes": ["DFW"]})

    assert errors(CONTAINER, old=elsewhere, offer=gone) == [
        'spec.placements[0].cityCodes[1]: Unsupported value: "LHR": supported values: "DFW"'
    ]


def test_a_city_no_longer_served_may_be_spelled_differently() -> None:
    gone = Offer(("DFW", "IAD"))
    workload = with_changes(CONTAINER, {"PLACEMENT.cityCodes": ["DFW", "lhr", "IAD"]})

    assert errors(workload, old=CONTAINER, offer=gone) == []


def test_a_stored_fault_may_change_its_position_in_a_list() -> None:
    stored = with_changes(CONTAINER, {"PLACEMENT.cityCodes": ["DFW", "XYZ"]})
    moved = with_changes(stored, {"PLACEMENT.cityCodes": ["XYZ", "DFW"]})

    assert errors(moved, old=stored) == []


def test_a_changed_stored_fault_is_validated() -> None:
    stored = with_changes(CONTAINER, {"APP.resources": {"limits": {"cpu": "1"}}})
    other = with_changes(CONTAINER, {"APP.resources": {"limits": {"cpu": "2"}}})

    assert errors(other, old=stored) == [
        f"{SHORT['APP']}.resources: Forbidden: not implemented: the instance type sets the limits"
    ]


def test_a_fault_caused_by_changing_another_field_is_refused() -> None:
    workload = with_changes(CONTAINER, {"APP.volumeAttachments": REMOVED})

    assert errors(workload, old=CONTAINER) == [
        f'{SHORT["VOLUME"]}.name: Invalid value: "scratch": is not attached:'
        " name it in a volumeAttachments entry"
    ]


def test_a_network_in_use_is_not_looked_up_again() -> None:
    denied = Offer(OFFER.cities, denied=frozenset({"default"}))
    workload = with_changes(CONTAINER, {"SCALE.minReplicas": 3})

    assert errors(workload, old=CONTAINER, offer=denied) == []


def test_a_workload_of_zero_replicas_is_refused() -> None:
    """Zero means drain, and only controllers write it, on deployments."""
    assert errors(with_changes(CONTAINER, {"SCALE.minReplicas": 0}), old=CONTAINER) != []


def test_an_update_of_metadata_alone_is_not_warned_about() -> None:
    stored = with_changes(CONTAINER, {"SCALE.metrics": [CPU]})
    labelled = with_changes(stored, {"metadata.labels": {"a": "b"}})
    scaled = with_changes(stored, {"SCALE.minReplicas": 3})

    assert warnings(labelled, old=stored) == []
    assert warnings(scaled, old=stored) == [AUTOSCALING]


# What must be looked up.


def test_a_create_looks_up_the_cities_and_every_network() -> None:
    assert decide_needs(CONTAINER) == Needs(True, ("default",))


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"APP.image": "b"}, Needs(False, ())),
        ({"PLACEMENT.cityCodes": ["LHR"]}, Needs(False, ())),
        ({"PLACEMENT.cityCodes": ["lhr", "DFW"]}, Needs(False, ())),
        ({"PLACEMENT.cityCodes": ["LHR", "IAD"]}, Needs(True, ())),
        ({"PLACEMENT.name": "other"}, Needs(True, ())),
        ({"TEMPLATE.networkInterfaces[0].network.name": "lab"}, Needs(False, ("lab",))),
    ],
    ids=str,
)
def test_an_update_looks_up_only_what_it_adds(changes: dict[str, Any], needs: Needs) -> None:
    assert decide_needs(with_changes(CONTAINER, changes), CONTAINER) == needs


@pytest.mark.parametrize("name", ["", "../secrets/x", "A", "a" * 64, 3, None, {}], ids=repr)
def test_an_invalid_network_name_is_not_looked_up(name: Any) -> None:
    workload = with_changes(CONTAINER, {"TEMPLATE.networkInterfaces[0].network.name": name})

    assert decide_needs(workload).networks == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata.finalizers": ["a.example/b"], "APP.image": "b"},
        {"PLACEMENT.cityCodes": ["lhr", "dfw"]},
    ],
    ids=["no city", "the same cities in lower case"],
)
def test_an_update_without_lookups_is_accepted(changes: dict[str, Any]) -> None:
    workload = with_changes(CONTAINER, changes)

    assert decide_needs(workload, CONTAINER) == Needs(False, ())
    assert errors(workload, old=CONTAINER, offer=Offer(None)) == []


HTTP_PORT = "compute.datumapis.com/http-port"


def with_http_port(base: dict[str, Any], port: object) -> Any:
    return with_changes(base, {"metadata.annotations": {HTTP_PORT: port}})


@pytest.mark.parametrize("port", ["1", "80", "65535"])
def test_an_http_port_is_an_integer(port: str) -> None:
    assert errors(with_http_port(CONTAINER, port)) == []


@pytest.mark.parametrize("port", ["", "0", "080", "65536", "-1", "+80", " 80", "80 ", "http", "٨٠"])
def test_any_other_http_port_is_refused_by_its_field(port: str) -> None:
    [error] = errors(with_http_port(CONTAINER, port))

    assert error.startswith(f'metadata.annotations[{HTTP_PORT}]: Invalid value: "{port}"')
    assert error.endswith("must be an integer from 1 to 65535")
    assert errors(CONTAINER, old=with_http_port(CONTAINER, port)) == []


def test_an_http_port_that_no_container_declares_is_warned_of_when_it_is_set() -> None:
    wanted = "HTTP port 81 is declared by no container, so it may not be reachable"
    workload = with_changes(CONTAINER, {"APP.ports": [{"name": "http", "port": 80}]})
    undeclared = with_http_port(workload, "81")

    assert warnings(undeclared) == [wanted]
    assert warnings(undeclared, old=workload) == [wanted]
    assert warnings(undeclared, old=undeclared) == []
    assert warnings(with_http_port(workload, "80")) == []
    assert warnings(with_http_port(MACHINE, "81")) == []
    odd = with_changes(CONTAINER, {"APP.ports": [{"name": "http", "port": []}]})
    assert len(errors(with_http_port(odd, "81"))) == 1
