"""What a deployment would take of the quota is what the platform will claim for it."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.cli.commands.deploy.manifest import new_workload
from datum_compute.cli.headroom import quota_lines, size

LIMITS = {"limits": {"cpu": "500m", "memory": "1Gi"}}


def workload(**container: Any) -> dict[str, Any]:
    made = new_workload("api", Flags(image="a:1", cities=("DFW", "LHR"), minimum=2))
    made["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0] |= container
    return made


def test_four_instances_take_four_times_their_type() -> None:
    assert size(workload()) == {"instances": 4, "vcpus": 4000, "memory": 8192}


def test_limits_of_the_containers_count_instead_of_the_type() -> None:
    assert size(workload(resources=LIMITS)) == {"instances": 4, "vcpus": 2000, "memory": 4096}


@pytest.mark.parametrize("image", [3, None, ["a"]])
def test_an_invalid_workload_counts_only_instances(image: Any) -> None:
    assert size(workload(image=image)) == {"instances": 4}


def test_a_warning_names_what_is_short_in_units_people_read() -> None:
    left = {"instances": 10, "vcpus": 1500, "memory": 4096}

    assert quota_lines(workload(resources=LIMITS), None, left) == [
        "Warning: this needs 2 more vCPUs, but the quota has 1.5 left; the rest will wait."
    ]


@pytest.mark.parametrize(
    ("cities", "more"), [(["DFW", "IAD"], 2), (["IAD"], 2), (["DFW"], 0), (["DFW", "LHR"], 0)]
)
def test_a_city_that_is_replaced_keeps_its_quota_until_another_serves(
    cities: list[str], more: int
) -> None:
    planned = workload()
    planned["spec"]["placements"][0]["cityCodes"] = cities

    found = quota_lines(planned, workload(), {"instances": 1})

    assert [f"needs {more} more instances" in line for line in found] == [True] * (more > 0)
