"""Names, labels, annotations and finalizers.

Facts about Karmada that the stand-in reproduces, one per test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import pytest

from datum_compute.api import karmada
from datum_compute.api.core import NAMESPACES
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.karmada import karmada_controllers
from tests.support.objects import exists, until
from tests.support.standins.karmada import (
    BINDING,
    BINDINGS,
    NAME,
    NS,
    POLICIES,
    WDS,
    WORKS,
    propagated,
    propagation,
    until_ready,
    work_of,
)
from tests.support.standins.platform import (
    CITY,
    create_cluster,
    create_namespace,
    create_policy,
    deployment,
    running,
    settle,
    standin_platform,
)


async def test_works_are_in_a_namespace_named_after_the_cluster() -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "dfw", "DFW")

        await until(found.hub, NAMESPACES, "karmada-es-dfw", "", lambda _: True)


@pytest.mark.parametrize("namespace", ["kube-public", "karmada-system", "karmada-cluster"])
async def test_nothing_in_a_reserved_namespace_is_propagated(namespace: str) -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, namespace)
        await create_policy(found.hub, namespace, "DFW")
        await found.hub.create(WDS, deployment(NAME, namespace, "DFW"), namespace)
        await until_ready(found, "True")
        await settle()

        assert (await found.hub.list(BINDINGS)).items == []
        assert not await exists(found.cells["dfw"], NAMESPACES, namespace)


async def test_namespace_default_is_not_synchronized() -> None:
    async with propagated() as found:
        labels = {"metadata": {"labels": {"team": "blue"}}}
        await found.hub.patch(NAMESPACES, "default", merge(labels))
        await settle()

        assert "team" not in (await found.cells["dfw"].get(NAMESPACES, "default")).metadata.labels
        works = (await found.hub.list(WORKS, "karmada-es-dfw")).items
        assert not [work for work in works if work.name.startswith("default-")]


def test_a_binding_is_named_after_object_and_kind_in_lower_case_without_colons() -> None:
    assert karmada.binding_name("app-web-dfw", "WorkloadDeployment") == BINDING
    assert karmada.binding_name("system:app", "Role") == "system.app-role"


async def test_the_claim_is_a_label_and_two_annotations_on_template_and_binding() -> None:
    async with propagated() as found:
        policy = await found.hub.get(POLICIES, "city-dfw", NS)
        template = await found.hub.get(WDS, NAME, NS)
        binding = await found.hub.get(BINDINGS, BINDING, NS)

        for obj in (template, binding):
            assert (
                obj.metadata.labels[karmada.LABEL_POLICY_ID]
                == policy.metadata.labels[karmada.LABEL_POLICY_ID]
            )
            assert obj.metadata.annotations[karmada.ANNOTATION_POLICY_NAMESPACE] == NS
            assert obj.metadata.annotations[karmada.ANNOTATION_POLICY_NAME] == "city-dfw"


async def test_a_binding_has_an_id_a_finalizer_the_placement_and_the_template_as_controller() -> (
    None
):
    async with propagated() as found:
        template = await found.hub.get(WDS, NAME, NS)
        binding = await found.hub.get(BINDINGS, BINDING, NS)

        assert binding.metadata.labels["resourcebinding.karmada.io/permanent-id"]
        assert binding.metadata.finalizers == ("karmada.io/binding-controller",)
        assert "policy.karmada.io/applied-placement" in binding.metadata.annotations
        owner = binding.metadata.controller()
        assert owner is not None
        assert owner.uid == template.metadata.uid


async def test_the_name_of_the_policy_is_an_annotation_and_not_a_label() -> None:
    async with propagated() as found:
        for resource, name in ((WDS, NAME), (BINDINGS, BINDING)):
            obj = await found.hub.get(resource, name, NS)
            assert "propagationpolicy.karmada.io/name" in obj.metadata.annotations
            assert "propagationpolicy.karmada.io/name" not in obj.metadata.labels


async def test_a_policy_gets_its_id_its_finalizer_and_the_namespace_of_its_selectors() -> None:
    async with propagation() as found:
        await create_policy(found.hub, NS, "DFW")
        policy = await until(
            found.hub, POLICIES, "city-dfw", NS, lambda one: one.metadata.finalizers != ()
        )

        assert policy.metadata.labels["propagationpolicy.karmada.io/permanent-id"]
        assert policy.metadata.finalizers == ("karmada.io/propagation-policy-controller",)
        selectors = values(policy.spec)["resourceSelectors"]
        assert [selector["namespace"] for selector in selectors] == [NS]


async def test_a_work_has_ids_a_finalizer_and_the_name_of_its_binding_and_no_owner() -> None:
    async with propagated() as found:
        binding = await found.hub.get(BINDINGS, BINDING, NS)
        work = await work_of(found)

        assert work.metadata.finalizers == ("karmada.io/execution-controller",)
        assert work.metadata.labels["work.karmada.io/permanent-id"]
        assert (
            work.metadata.labels["resourcebinding.karmada.io/permanent-id"]
            == binding.metadata.labels["resourcebinding.karmada.io/permanent-id"]
        )
        assert work.metadata.annotations["resourcebinding.karmada.io/namespace"] == NS
        assert work.metadata.annotations["resourcebinding.karmada.io/name"] == BINDING
        assert work.metadata.owner_references == ()


async def test_the_work_of_a_namespace_is_controlled_by_the_hub_namespace() -> None:
    async with propagated() as found:
        namespace = await found.hub.get(NAMESPACES, NS)
        works = (await found.hub.list(WORKS, "karmada-es-dfw")).items
        carrier = next(work for work in works if work.name.startswith(f"{NS}-"))
        owner = carrier.metadata.controller()

        assert owner is not None
        assert (owner.kind, owner.uid) == ("Namespace", namespace.metadata.uid)
        assert karmada.ANNOTATION_BINDING_NAME not in carrier.metadata.annotations


async def test_a_cluster_holds_its_finalizer() -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        cluster = await until_ready(found, "True")

        assert cluster.metadata.finalizers == ("karmada.io/cluster-controller",)


async def test_the_members_object_carries_its_origin() -> None:
    async with propagated() as found:
        template = await found.hub.get(WDS, NAME, NS)
        work = await work_of(found)
        member = await found.cells["dfw"].get(WDS, NAME, NS)
        labels, annotations = member.metadata.labels, member.metadata.annotations

        assert labels["karmada.io/managed"] == "true"
        for key in ("resourcebinding.karmada.io/permanent-id", "work.karmada.io/permanent-id"):
            assert labels[key] == work.metadata.labels[key]
        assert annotations["work.karmada.io/namespace"] == "karmada-es-dfw"
        assert annotations["work.karmada.io/name"] == work.name
        assert annotations["resourcebinding.karmada.io/namespace"] == NS
        assert annotations["resourcebinding.karmada.io/name"] == BINDING
        assert annotations["resourcetemplate.karmada.io/uid"] == template.metadata.uid
        generation = annotations["resourcetemplate.karmada.io/generation"]
        assert generation == str(template.metadata.generation)
        assert CITY in annotations["resourcetemplate.karmada.io/managed-labels"].split(",")
        assert "resourcetemplate.karmada.io/managed-annotations" in annotations
        assert template.metadata.labels.items() <= labels.items()
        assert template.metadata.annotations.items() <= annotations.items()


async def test_a_policy_without_its_id_claims_nothing() -> None:
    async with standin_platform() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, NS)
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        controllers = karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        without_admission = [one for one in controllers if one.name != "propagation-policy"]
        async with running(found.env, without_admission):
            await until_ready(found, "True")
            await settle()

        assert (await found.hub.list(BINDINGS)).items == []
