"""A plan describes every changed field, and the patch makes exactly that change."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.cli.commands.deploy.manifest import changed_workload, new_workload
from datum_compute.cli.history.spec_patch import patch_operations
from datum_compute.cli.render.spec_diff import diff_specs
from datum_compute.cli.workload import interruption_lines

BASE = new_workload("api", Flags(image="a:1", cities=("DFW",), env=("LOG=info",), ports=("80",)))


def plan_of(flags: Flags) -> list[tuple[str, str]]:
    changed = changed_workload(BASE, flags)
    return [(c.label, str(c)) for c in diff_specs(BASE["spec"], changed["spec"])]


def test_changes_are_described() -> None:
    assert plan_of(Flags(image="a:2")) == [("image", "a:1 → a:2")]
    assert plan_of(Flags(env=("LOG=debug",))) == [("env LOG", "info → debug")]
    assert plan_of(Flags(minimum=3)) == [("min replicas (default)", "1 → 3")]
    assert plan_of(Flags(cities=("DFW", "LHR"))) == [("cities (default)", "DFW → DFW, LHR")]


def test_equal_specs_give_an_empty_plan() -> None:
    assert plan_of(Flags(image="a:1", minimum=1)) == []


def interruption(
    live: tuple[int, tuple[str, ...]], planned: tuple[int, tuple[str, ...]], updated: int = 0
) -> list[str]:
    """Of a new template with these instances in each of these cities, some of which run it."""
    before, after = (
        new_workload("api", Flags(image="a:1", cities=cities, minimum=number))
        for number, cities in (live, planned)
    )
    return interruption_lines(after, before, {("default", city): updated for city in live[1]})


def test_only_a_city_whose_one_instance_is_replaced_is_said_to_be_unavailable() -> None:
    one, both = ("DFW",), ("DFW", "LHR")
    alone = 'DFW has one instance, so "api" is unavailable there while it is replaced.'
    each = 'DFW and LHR have one instance each, so "api" is unavailable there while it is replaced.'

    assert interruption((1, one), (1, one)) == ["The only instance will be replaced.", alone]
    assert interruption((1, both), (1, both)) == ["Both instances will be replaced.", each]
    assert interruption((1, both), (1, one)) == ["1 of 2 instances will be replaced.", alone]
    # Those that are added come first, and those that are removed go last.
    assert interruption((1, one), (3, one)) == ["The only instance will be replaced."]
    assert interruption((3, one), (1, one)) == ["1 of 3 instances will be replaced."]


def test_instances_that_run_the_planned_template_are_not_said_to_be_replaced() -> None:
    both = ("DFW", "LHR")

    assert interruption((3, both), (3, both), 1) == [
        "4 of 6 instances will be replaced one by one in each city."
    ]
    assert interruption((2, both), (2, both), 1) == ["2 of 4 instances will be replaced."]
    assert interruption((1, both), (1, both), 1) == ["Every instance runs it already."]
    assert interruption((1, both), (1, ("SYD",))) == []


def applied(target: Any, patch: list[dict[str, Any]]) -> Any:
    """RFC 6902 as far as objects go, written anew."""
    result = json.loads(json.dumps(target))
    for operation in patch:
        *parents, last = operation["path"].split("/")[1:]
        place = result
        for key in parents:
            place = place[key.replace("~1", "/").replace("~0", "~")]
        last = last.replace("~1", "/").replace("~0", "~")
        if operation["op"] == "remove":
            del place[last]
        else:
            place[last] = operation["value"]
    return result


values = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.text("ab~/", max_size=2), values, max_size=4)


@given(objects, objects)
def test_the_patch_turns_old_into_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert applied({"spec": old}, patch_operations(old, new, "/spec")) == {"spec": new}
