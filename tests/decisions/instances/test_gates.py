"""Gates: which are stamped, and when they may be removed."""

from __future__ import annotations

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition
from datum_compute.decisions.instances import gates
from tests.support.decisions.builders import instance

PLAIN = compute.InstanceTemplate()
NAMES_DATA = msgspec.convert(
    {
        "spec": {
            "runtime": {
                "sandbox": {
                    "containers": [
                        {"name": "app", "envFrom": [{"configMapRef": {"name": "settings"}}]}
                    ]
                }
            }
        }
    },
    compute.InstanceTemplate,
)


def test_a_new_instance_waits_for_network_then_quota() -> None:
    assert gates.gates_for_new(PLAIN, networks_ready=False) == ("Network", "Quota")


def test_ready_networks_need_no_gate() -> None:
    assert gates.gates_for_new(PLAIN, networks_ready=True) == ("Quota",)


def test_quota_that_is_not_enforced_needs_no_gate() -> None:
    assert gates.gates_for_new(PLAIN, networks_ready=True, quota_enforced=False) == ()
    assert gates.gates_for_new(PLAIN, networks_ready=False, quota_enforced=False) == ("Network",)


@pytest.mark.parametrize(
    ("template", "federated", "expected"),
    [
        (NAMES_DATA, True, ("Quota", "ReferencedData")),
        (NAMES_DATA, False, ("Quota",)),
        (PLAIN, True, ("Quota",)),
    ],
)
def test_data_is_waited_for_where_it_is_named_and_comes_from_another_plane(
    template: compute.InstanceTemplate, federated: bool, expected: tuple[str, ...]
) -> None:
    found = gates.gates_for_new(template, networks_ready=True, data_federated=federated)

    assert found == expected


@pytest.mark.parametrize(
    ("status", "observed", "stamped", "may"),
    [
        ("True", 4, ["Quota"], True),
        ("True", 4, ["Network", "Quota"], True),
        ("True", 3, ["Quota"], False),
        ("True", None, ["Quota"], False),
        ("Unknown", 4, ["Quota"], False),
        ("False", 4, ["Quota"], False),
        ("True", 4, ["Network"], False),
    ],
)
def test_the_quota_gate_is_removed_by_a_grant_for_this_spec(
    status: str, observed: int | None, stamped: list[str], may: bool
) -> None:
    current = (
        Condition(type="QuotaGranted", status=status, reason="R", observed_generation=observed),
    )

    assert gates.may_clear_gate(instance(0, gates=stamped, generation=4), "Quota", current) is may


def test_the_quota_gate_stays_without_a_decision() -> None:
    assert not gates.may_clear_gate(instance(0, gates=["Quota"]), "Quota", ())


def test_removing_one_gate_keeps_the_others() -> None:
    gated = instance(0, gates=["Network", "Quota"])

    assert gates.gates_without(gated, "Network") == [{"name": "Quota"}]
    assert gates.gates_without(gated, "Network", "Quota") == []
    assert gates.gates_without(gated, "Other") is None
    assert gates.gates_without(instance(0, hash=None), "Network") is None
