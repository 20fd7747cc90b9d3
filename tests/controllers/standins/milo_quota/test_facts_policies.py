"""Grants by policy.

What is known of Milo's quota and the stand-in keeps, one fact a test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.api.meta import Object
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import Values
from datum_compute.standins.milo_quota.expressions import ExpressionError, evaluate, holds, render
from tests.support.objects import condition, exists, until, until_gone
from tests.support.standins.platform import StandinPlatform, build, settle
from tests.support.standins.quota import (
    GRANTS,
    INSTANCES,
    POLICIES,
    bucket,
    project,
)


def policy(name: str = "first-grant", **parts: Any) -> Values:
    return build(
        POLICIES,
        name,
        spec={
            "trigger": {
                "resource": {
                    "apiVersion": "resourcemanager.miloapis.com/v1alpha1",
                    "kind": "Project",
                },
                **parts.pop("trigger", {}),
            },
            "target": {
                "parentContext": {
                    "apiGroup": "resourcemanager.miloapis.com",
                    "kind": "Project",
                    "nameExpression": "trigger.metadata.name",
                },
                "resourceGrantTemplate": {
                    "metadata": {"name": "of-{{ trigger.metadata.name }}"},
                    "spec": {
                        "consumerRef": {
                            "apiGroup": "resourcemanager.miloapis.com",
                            "kind": "Project",
                            "name": "{{ trigger.metadata.name }}",
                        },
                        "allowances": [
                            {"resourceType": INSTANCES, "buckets": [{"amount": 10}]},
                        ],
                    },
                },
            },
            **parts,
        },
    )


async def given(found: StandinPlatform, name: str = "of-demo") -> Object:
    return await until(
        found.project,
        GRANTS,
        name,
        "milo-system",
        lambda one: condition(one, "Active") == ("True", "GrantActive"),
    )


async def test_a_policy_gives_every_project_its_first_grant() -> None:
    async with project() as found:
        await found.root.create(POLICIES, policy())
        made = await given(found)

        assert made.metadata.labels["quota.miloapis.com/policy"] == "first-grant"
        await bucket(found, INSTANCES, limit=10)
        ready = await found.root.get(POLICIES, "first-grant")
        assert condition(ready, "Ready") == ("True", "PolicyReady")
        assert condition(ready, "ParentContextReady") == ("True", "ParentContextReady")


async def test_a_project_created_later_gets_its_grant() -> None:
    async with project() as found:
        await found.root.create(POLICIES, policy())
        await found.embedded.create_project("late")
        await found.set_project_ready("late")

        late = found.embedded.client("project/late")
        await until(late, GRANTS, "of-late", "milo-system", lambda _: True)


async def test_a_grant_follows_its_policy() -> None:
    async with project() as found:
        await found.root.create(POLICIES, policy())
        await given(found)
        wider = policy()["spec"]
        allowance = wider["target"]["resourceGrantTemplate"]["spec"]["allowances"][0]
        allowance["buckets"] = [{"amount": 25}]
        await found.root.patch(POLICIES, "first-grant", merge({"spec": wider}))

        await bucket(found, INSTANCES, limit=25)


async def test_a_project_that_does_not_meet_the_constraints_has_no_grant() -> None:
    async with project() as found:
        constraint = {"expression": 'trigger.metadata.labels["tier"] == "paid"'}
        await found.root.create(POLICIES, policy(trigger={"constraints": [constraint]}))
        await settle()
        assert not await exists(found.project, GRANTS, "of-demo", "milo-system")
        for tier in ("paid", "free"):
            label = merge({"metadata": {"labels": {"tier": tier}}})
            await found.root.patch(resourcemanager.PROJECTS, "demo", label)
            if tier == "paid":
                await given(found)

        await until_gone(found.project, GRANTS, "of-demo", "milo-system")


async def test_a_disabled_policy_creates_no_grants_and_removes_none() -> None:
    async with project() as found:
        await found.root.create(POLICIES, policy())
        await given(found)
        await found.root.patch(POLICIES, "first-grant", merge({"spec": {"disabled": True}}))
        await until(
            found.root,
            POLICIES,
            "first-grant",
            "",
            lambda one: condition(one, "Ready") == ("False", "PolicyDisabled"),
        )
        await found.project.delete(GRANTS, "of-demo", "milo-system")
        await settle()

        assert not await exists(found.project, GRANTS, "of-demo", "milo-system")


async def test_a_policy_that_cannot_be_applied_reports_why() -> None:
    async with project() as found:
        odd = policy(trigger={"constraints": [{"expression": "trigger.metadata.name.size() > 3"}]})
        await found.root.create(POLICIES, odd)
        refused = await until(
            found.root,
            POLICIES,
            "first-grant",
            "",
            lambda one: condition(one, "Ready") == ("False", "ValidationFailed"),
        )

        assert "size()" in bytes(refused.status).decode()
        assert not await exists(found.project, GRANTS, "of-demo", "milo-system")


TRIGGER = {"metadata": {"name": "demo", "labels": {"a.b/tier": "paid"}}, "spec": {"n": 3}}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("trigger.metadata.name", "demo"),
        (" trigger.metadata.labels['a.b/tier'] ", "paid"),
        ("trigger.spec.n", "3"),
        ("trigger.metadata.missing.deeper", ""),
        ("'text'", "text"),
    ],
)
def test_an_expression_is_a_field_of_the_trigger_or_a_literal(
    expression: str, expected: str
) -> None:
    assert evaluate(expression, TRIGGER) == expected
    assert render(f"<{{{{ {expression} }}}}>", TRIGGER) == f"<{expected}>"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("trigger.metadata.name == 'demo'", True),
        ("trigger.metadata.name != 'demo'", False),
        ("trigger.metadata.name == 'demo' && trigger.spec.n == '3'", True),
        ("trigger.metadata.name == 'demo' && trigger.spec.n != '3'", False),
    ],
)
def test_a_constraint_compares_a_field_with_a_literal(expression: str, expected: bool) -> None:
    assert holds(expression, TRIGGER) == expected


@pytest.mark.parametrize(
    "expression", ["trigger", "trigger.metadata.name + 'x'", "has(trigger.spec)", "", "'it''s'"]
)
def test_an_unsupported_expression_is_an_error(expression: str) -> None:
    for read in (evaluate, holds):
        with pytest.raises(ExpressionError):
            read(expression, TRIGGER)
